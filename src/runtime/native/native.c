/* The native runtime as the server sees it.
 *
 * Each request of the server is an operation (struct op). A remove, a change or a page of a list
 * is one message and its answer. A create has two steps: CREATE at the launcher, then POST
 * /internal/start at the new sandbox's execd; when the second fails, the first is undone with
 * REMOVE before the caller is told. Operations wait in one list until their callback has run, and
 * are found by the sequence number of the message they wait for.
 *
 * When the launcher goes away, every operation that waits for it fails; one that waits for execd
 * goes on, since the sandbox itself does not notice. */
#include "runtime/native/native.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/native/native_op.h"

#define EXECD_PORT         44772
#define EGRESS_PORT        18080
#define START_TIMEOUT_MS   30000
#define START_ANSWER_BYTES (64 * 1024)

/* --- create ----------------------------------------------------------------------------------- */

static json_t *strings_to_json(const char *const *strings)
{
    json_t *array = json_array();
    for (size_t i = 0; strings[i] != NULL; i++)
        json_array_append_new(array, json_string(strings[i]));
    return array;
}

static char *start_body_new(const struct runtime_spec *spec)
{
    json_t *body = json_pack("{s:o, s:o}", "entrypoint", strings_to_json(spec->entrypoint), "env",
                             strings_to_json(spec->env));
    if (spec->user != NULL)
        json_object_set_new(body, "user", json_string(spec->user));
    if (spec->workdir != NULL)
        json_object_set_new(body, "workdir", json_string(spec->workdir));
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

/* execd refused or did not answer: take back what the launcher made, then tell. */
static void create_undo(struct op *op)
{
    struct native *native = op->native;
    native_forget_place(native, op->id);
    if (!native_channel_is_ready(native->channel)) {
        /* The launcher is gone; the reconcile after its return removes what is left. */
        native_op_finish(op);
        return;
    }
    native_op_ask_removal(op, OP_UNDOING);
}

static void on_started(int status, const char *body, size_t length, const struct error *err,
                       void *ctx)
{
    struct op *op = ctx;
    op->call = NULL;
    if (status >= 200 && status < 300) {
        struct native *native = op->native;
        struct runtime_sandbox exit = op->exit;
        native_op_finish(op);
        if (exit.exit_reason != RUNTIME_EXIT_NONE)
            native->events.on_exit(&exit, native->ctx);
        return;
    }
    if (status == 0) {
        op->err = *err;
        /* Whatever execd broke, a limit or a rule, it was not the client who did. */
        if (err->code != ERR_TIMEOUT && err->code != ERR_UNAVAILABLE)
            op->err.code = ERR_INTERNAL;
        error_wrap(&op->err, "the sandbox's execd did not start the entrypoint");
        create_undo(op);
        return;
    }
    json_t *answer = json_loadb(body, length, 0, NULL);
    const char *message = json_string_value(json_object_get(answer, "message"));
    error_set(&op->err, status < 500 ? ERR_INVALID : ERR_INTERNAL,
              "the entrypoint cannot be started: %s",
              message != NULL ? message : "execd gave no reason");
    json_decref(answer);
    create_undo(op);
}

static void create_made(struct op *op, const struct message_result *result)
{
    struct native *native = op->native;
    struct http_address address;
    if (http_address_unix(&address, result->socket) < 0 || result->socket[0] == '\0') {
        error_set(&op->err, ERR_INTERNAL, "the launcher answered CREATE without a socket");
        create_undo(op);
        return;
    }
    places_set(&native->places, op->id, result->socket);
    native_op_set_state(op, OP_STARTING);
    op->call = http_client_fetch(native->client, &address, "POST", "/internal/start",
                                 op->start_body, strlen(op->start_body), START_ANSWER_BYTES,
                                 START_TIMEOUT_MS, on_started, op);
}

static void fill_volume(const struct volume *volume, struct message_volume *ret)
{
    static const enum message_volume_kind kinds[] = {
        [VOLUMES_HOST] = MESSAGE_VOLUME_HOST,
        [VOLUMES_NAMED] = MESSAGE_VOLUME_NAMED,
        [VOLUMES_TMPFS] = MESSAGE_VOLUME_TMPFS,
    };
    ret->kind = kinds[volume->kind];
    ret->flags = (volume->read_only ? MESSAGE_VOLUME_READ_ONLY : 0) |
                 (volume->create ? MESSAGE_VOLUME_CREATE : 0) |
                 (volume->remove ? MESSAGE_VOLUME_DELETE : 0);
    ret->size_bytes = volume->size_bytes;
    strncpy(ret->source, volume->source, sizeof(ret->source) - 1);
    strncpy(ret->sub_path, volume->sub_path, sizeof(ret->sub_path) - 1);
    strncpy(ret->mount_path, volume->mount_path, sizeof(ret->mount_path) - 1);
}

static void fill_volumes(const struct volumes *volumes, struct message_create *create)
{
    _Static_assert(VOLUMES_MAX == MESSAGE_VOLUMES_MAX, "all that a request can hold");
    _Static_assert(VOLUMES_PATH_MAX < MESSAGE_PATH_MAX, "all that a path can hold");
    for (size_t i = 0; volumes != NULL && i < volumes->count; i++)
        fill_volume(&volumes->items[i], &create->volumes[create->volume_count++]);
}

static void native_create(struct runtime *self, const struct runtime_spec *spec,
                          runtime_done_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = native_op_new(native, OP_CREATE, spec->id, ctx);
    op->done = done;
    if (!native_op_may_begin(op))
        return;
    op->start_body = start_body_new(spec);
    union message message;
    message_init(&message, MESSAGE_CREATE, 0);
    struct message_create *create = &message.create;
    if (op->start_body == NULL || strlen(spec->image) >= sizeof(create->image)) {
        error_set(&op->err, ERR_INVALID, "the image name or the entrypoint is not usable");
        native_op_fail_later(op);
        return;
    }
    strncpy(create->id, spec->id, sizeof(create->id) - 1);
    strncpy(create->image, spec->image, sizeof(create->image) - 1);
    create->limits = native_limits(&spec->limits);
    create->deadline_unix_ms = (uint64_t)spec->deadline_unix_ms;
    create->network = spec->nat ? MESSAGE_NETWORK_NAT : MESSAGE_NETWORK_NONE;
    if (spec->read_only_root)
        create->flags |= MESSAGE_READ_ONLY_ROOT;
    fill_volumes(spec->volumes, create);
    native_op_ask(op, OP_ASKED, &message);
}

/* --- receiving -------------------------------------------------------------------------------- */

static void on_result(struct native *native, const struct message_result *result, int fd)
{
    struct op *op = native_op_find(native, result->header.sequence);
    if (op == NULL) {
        fd_close(fd);
        return;
    }
    op->fd = fd;
    if (op->state == OP_UNDOING) {
        native_op_finish(op); /* with the error that made it undo */
        return;
    }
    if (result->code != ERR_OK) {
        error_set(&op->err, (enum error_code)result->code, "%s", result->message);
        op->err.sys = result->sys;
    }
    switch (op->kind) {
    case OP_CREATE:
        if (result->code == ERR_OK) {
            create_made(op, result);
            return;
        }
        break;
    case OP_REMOVE:
        if (result->code == ERR_OK || result->code == ERR_NOT_FOUND)
            native_forget_place(native, op->id);
        break;
    case OP_CHANGE:
    case OP_SOCKET:
        break;
    case OP_LIST:
    case OP_STAT:
        if (result->code == ERR_OK)
            error_set(&op->err, ERR_INTERNAL, "the launcher answered LIST without a list");
        break;
    }
    native_op_finish(op);
}

/* It ended while it was being started. When execd ended by itself, the entrypoint did run, only
 * very shortly, and the answer that says so is on its way; otherwise there will be none. */
static void create_exited(struct op *op, const struct runtime_sandbox *sandbox)
{
    if (sandbox->exit_reason == RUNTIME_EXIT_STATUS) {
        op->exit = *sandbox;
        return;
    }
    http_call_cancel(TAKE_PTR(op->call));
    error_set(&op->err, ERR_INTERNAL, "the sandbox ended before its entrypoint started");
    create_undo(op);
}

/* An end that somebody asked for is no news: only those that happened by themselves are passed on.
 */
static void on_exit_event(struct native *native, const struct message_sandbox *item)
{
    if (places_find(&native->places, item->id) == NULL)
        return;
    struct runtime_sandbox sandbox = native_sandbox(item);
    struct op *op = NULL;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (strcmp(op->id, item->id) != 0 || (op->kind != OP_CREATE && op->kind != OP_REMOVE))
            continue;
        if (op->kind == OP_CREATE && op->state == OP_STARTING)
            create_exited(op, &sandbox);
        return;
    }
    native->events.on_exit(&sandbox, native->ctx);
}

static void on_message(const union message *message, int attached, void *ctx)
{
    struct native *native = ctx;
    struct op *op = NULL;
    AUTO_CLOSE int fd = attached; /* nothing but a result may have one */
    switch ((enum message_type)message->header.type) {
    case MESSAGE_RESULT:
        on_result(native, &message->result, TAKE_FD(fd));
        break;
    case MESSAGE_SANDBOXES:
        op = native_op_find(native, message->header.sequence);
        if (op != NULL && op->kind == OP_LIST)
            native_list_page(op, &message->sandboxes);
        break;
    case MESSAGE_USAGE:
        op = native_op_find(native, message->header.sequence);
        if (op != NULL && op->kind == OP_STAT)
            native_stat_page(op, &message->usage);
        break;
    case MESSAGE_EXIT:
        on_exit_event(native, &message->exit.sandbox);
        break;
    case MESSAGE_HELLO:
    case MESSAGE_CREATE:
    case MESSAGE_KILL:
    case MESSAGE_REMOVE:
    case MESSAGE_LIST:
    case MESSAGE_LIMITS:
    case MESSAGE_DEADLINE:
    case MESSAGE_FREEZE:
    case MESSAGE_THAW:
    case MESSAGE_STAT:
    case MESSAGE_SOCKET:
    case MESSAGE_WELCOME: /* the channel has taken it */
        break;            /* not in this direction: message_receive() has refused them */
    }
}

/* --- the launcher goes and returns ------------------------------------------------------------ */

static void on_lost(const char *why, void *ctx)
{
    struct native *native = ctx;
    struct op *op = NULL;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (op->state != OP_ASKED && op->state != OP_UNDOING)
            continue;
        if (op->err.code == ERR_OK)
            error_set(&op->err, ERR_UNAVAILABLE, "the launcher went away: %s", why);
        native_op_fail_later(op);
    }
    native->events.on_state(false, native->ctx);
}

static void on_ready(void *ctx)
{
    struct native *native = ctx;
    native->events.on_state(true, native->ctx);
}

/* --- life ------------------------------------------------------------------------------------- */

static void native_networks(struct runtime *self, struct runtime_networks *ret)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    const struct message_welcome *welcome = native_channel_welcome(native->channel);
    *ret = (struct runtime_networks){.nat = (welcome->networks & 1u << MESSAGE_NETWORK_NAT) != 0};
    if (!ret->nat)
        snprintf(ret->nat_reason, sizeof(ret->nat_reason), "%s", welcome->network_reason);
}

static int native_address(struct runtime *self, const char *id, int port, struct http_address *ret,
                          struct error *err)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    const char *path = places_find(&native->places, id);
    if (path == NULL)
        return error_set(err, ERR_NOT_FOUND, "sandbox %s has no address", id);
    if (port == EGRESS_PORT)
        return error_set(err, ERR_UNSUPPORTED,
                         "port %d is that of the egress API, which this version of the server does "
                         "not have",
                         port);
    int r = port == EXECD_PORT
                ? http_address_unix(ret, path)
                : http_address_connector(ret, &native->connector.connector, id, port);
    if (r < 0)
        return error_set(err, ERR_INTERNAL, "sandbox %s has no usable address", id);
    return 0;
}

static const char *native_lacks(struct runtime *self)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } parts[] = {
        {MESSAGE_MISSING_LIMITS, "limits of cpu, memory, processes, disk and I/O"},
        {MESSAGE_MISSING_COUNTS, "usage counts"},
        {MESSAGE_MISSING_IDS, "users besides root"},
        {MESSAGE_MISSING_OWN_IDS, "user ids that no other sandbox has"},
    };
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    const struct message_welcome *welcome = native_channel_welcome(native->channel);
    char *text = native->lacks;
    const size_t size = sizeof(native->lacks);
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        size_t used = strlen(text);
        if ((welcome->missing & parts[i].bit) != 0)
            snprintf(text + used, size - used, "%s%s",
                     used > 0 ? ", " : "It does without: ", parts[i].text);
    }
    size_t used = strlen(text);
    if (used > 0)
        snprintf(text + used, size - used, " (%s).", welcome->missing_reason);
    return text;
}

static void on_deferred_closed(uv_handle_t *handle)
{
    struct native *native = handle->data;
    places_done(&native->places);
    free(native->socket_path);
    free(native);
}

static void native_free(struct runtime *self)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = NULL;
    while ((op = TAILQ_FIRST(&native->ops)) != NULL) {
        http_call_cancel(TAKE_PTR(op->call));
        if (op->err.code == ERR_OK)
            error_set(&op->err, ERR_UNAVAILABLE, "the server is stopping");
        native_op_finish(op);
    }
    native_connector_done(&native->connector);
    native_channel_free(native->channel);
    uv_close((uv_handle_t *)&native->deferred, on_deferred_closed);
}

struct runtime *native_runtime_new(const struct native_config *config, struct error *err)
{
    static const struct native_channel_events events = {
        .on_message = on_message,
        .on_lost = on_lost,
        .on_ready = on_ready,
    };
    struct native *native = mem_alloc(sizeof(*native));
    native->channel =
        native_channel_new(config->loop, config->launcher_socket, &events, native, err);
    if (native->channel == NULL) {
        free(native);
        return NULL;
    }
    native->runtime = (struct runtime){
        .create = native_create,
        .remove = native_remove,
        .list = native_list,
        .set_limits = native_set_limits,
        .set_deadline = native_set_deadline,
        .freeze = native_freeze,
        .thaw = native_thaw,
        .stat = native_stat,
        .networks = native_networks,
        .address = native_address,
        .lacks = native_lacks,
        .free = native_free,
    };
    native->client = config->client;
    native->socket_path = mem_dup(config->launcher_socket);
    native->events = config->events;
    native->ctx = config->ctx;
    TAILQ_INIT(&native->ops);
    native_connector_init(&native->connector, native, config->loop);
    uv_async_init(config->loop, &native->deferred, native_op_on_deferred);
    native->deferred.data = native;
    return &native->runtime;
}
