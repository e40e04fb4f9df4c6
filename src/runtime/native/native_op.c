#include "runtime/native/native_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define OPS_MAX 1024

struct op *native_op_new(struct native *native, enum op_kind kind, const char *id, void *ctx)
{
    struct op *op = mem_alloc(sizeof(*op));
    op->native = native;
    op->kind = kind;
    op->ctx = ctx;
    op->fd = -1;
    if (id != NULL)
        strncpy(op->id, id, sizeof(op->id) - 1);
    TAILQ_INSERT_TAIL(&native->ops, op, link);
    native->op_count += kind != OP_SOCKET;
    return op;
}

void native_op_set_state(struct op *op, enum op_state state)
{
    static const unsigned successors[] = {
        [OP_NEW] = 1u << OP_ASKED | 1u << OP_FAILED,
        [OP_ASKED] = 1u << OP_ASKED | 1u << OP_STARTING | 1u << OP_UNDOING | 1u << OP_FAILED,
        [OP_STARTING] = 1u << OP_UNDOING,
        [OP_UNDOING] = 1u << OP_FAILED,
        [OP_FAILED] = 0,
    };
    if ((successors[op->state] & (1u << state)) == 0)
        abort();
    op->state = state;
}

static void op_free(struct op *op)
{
    if (op->start_body != NULL)
        explicit_bzero(op->start_body, strlen(op->start_body));
    free(op->start_body);
    fd_close(op->fd);
    free(op->items);
    free(op->usages);
    free(op);
}

void native_op_finish(struct op *op)
{
    const struct error *err = op->err.code != ERR_OK ? &op->err : NULL;
    TAILQ_REMOVE(&op->native->ops, op, link);
    op->native->op_count -= op->kind != OP_SOCKET;
    size_t count = err == NULL ? op->item_count : 0;
    if (op->kind == OP_LIST)
        op->list_done(err, op->items, count, op->ctx);
    else if (op->kind == OP_STAT)
        op->stat_done(err, op->usages, count, op->ctx);
    else if (op->kind == OP_SOCKET)
        op->socket_done(err, err == NULL ? TAKE_FD(op->fd) : -1, op->ctx);
    else
        op->done(err, op->ctx);
    op_free(op);
}

void native_op_fail_later(struct op *op)
{
    native_op_set_state(op, OP_FAILED);
    uv_async_send(&op->native->deferred);
}

void native_op_on_deferred(uv_async_t *handle)
{
    struct native *native = handle->data;
    struct op *op = NULL;
    struct op *next;
    for (op = TAILQ_FIRST(&native->ops); op != NULL; op = next) {
        next = TAILQ_NEXT(op, link);
        if (op->state != OP_FAILED)
            continue;
        native_op_finish(op);
        next = TAILQ_FIRST(&native->ops); /* the callback may have changed the list */
    }
}

struct op *native_op_find(struct native *native, uint32_t sequence)
{
    struct op *op = NULL;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (op->sequence == sequence && (op->state == OP_ASKED || op->state == OP_UNDOING))
            return op;
    }
    return NULL;
}

void native_op_ask(struct op *op, enum op_state state, union message *message)
{
    native_op_set_state(op, state);
    int r = native_channel_send(op->native->channel, message, &op->sequence);
    if (r == 0)
        return;
    if (op->err.code == ERR_OK)
        error_set(&op->err, ERR_UNAVAILABLE, "cannot send to the launcher: %s", strerror(-r));
    native_op_fail_later(op);
}

bool native_op_may_begin(struct op *op)
{
    struct native *native = op->native;
    bool ready = native_channel_is_ready(native->channel);
    if (ready && native->op_count <= OPS_MAX)
        return true;
    if (ready)
        error_set(&op->err, ERR_LIMIT, "%d operations are under way already; try again later",
                  OPS_MAX);
    else
        error_set(&op->err, ERR_UNAVAILABLE, "the launcher is away (%s); try again later",
                  native->socket_path);
    native_op_fail_later(op);
    return false;
}

void native_forget_place(struct native *native, const char *id)
{
    struct http_address address;
    const char *path = places_find(&native->places, id);
    if (path != NULL && http_address_unix(&address, path) == 0)
        http_client_drop(native->client, &address);
    if (http_address_connector(&address, &native->connector.connector, id, 0) == 0)
        http_client_drop(native->client, &address);
    places_remove(&native->places, id);
}

void native_op_ask_removal(struct op *op, enum op_state state)
{
    union message message;
    message_init(&message, MESSAGE_REMOVE, 0);
    strncpy(message.target.id, op->id, sizeof(message.target.id) - 1);
    native_op_ask(op, state, &message);
}
