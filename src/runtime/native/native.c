/* The native runtime as the server sees it.
 *
 * Each request of the server is an operation (struct op). A remove or a page of a list is one
 * message and its answer. A create has two steps: CREATE at the launcher, then POST /internal/start
 * at the new sandbox's execd; when the second fails, the first is undone with REMOVE before the
 * caller is told. Operations wait in one list until their callback has run, and are found by the
 * sequence number of the message they wait for.
 *
 * The socket is a SOCK_SEQPACKET connection on a uv_poll. When the launcher does not read, messages
 * wait at their operations and go out in order once it does; the number of operations is bounded,
 * so that queue is too. When the connection breaks, every operation that waits for the launcher
 * fails, and a timer tries again each second; a sandbox itself does not notice. */
#include "runtime/native/native.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/native/message.h"
#include "runtime/native/places.h"

#define EXECD_PORT         44772
#define OPS_MAX            1024
#define LIST_MAX           65536
#define RETRY_MS           1000
#define HELLO_TIMEOUT_MS   5000
#define START_TIMEOUT_MS   30000
#define START_ANSWER_BYTES (64 * 1024)

enum op_kind { OP_HELLO, OP_CREATE, OP_REMOVE, OP_LIST };

enum op_state {
    OP_NEW,
    OP_ASKED,    /* waits for the launcher's answer */
    OP_STARTING, /* create: waits for execd's answer */
    OP_UNDOING,  /* create: waits for the launcher's answer to REMOVE */
    OP_FAILED,   /* failed inside the call that made it: the loop will tell */
};

struct op {
    TAILQ_ENTRY(op) link;
    struct native *native;
    enum op_kind kind;
    enum op_state state;
    uint32_t sequence;
    union message *unsent; /* NULL once the kernel has it */
    char id[ID_UUID_LEN + 1];
    struct error err; /* what the callback will be told; ERR_OK for success */
    runtime_done_fn *done;
    runtime_list_fn *list_done;
    void *ctx;
    char *start_body; /* create: holds env, wiped */
    struct http_call *call;
    struct runtime_sandbox *items; /* list */
    size_t item_count;
};

/* Lives until libuv has closed its poll handle, which may be after the next connection was made. */
struct link {
    uv_poll_t poll;
    struct native *native;
    int fd;
};

struct native {
    struct runtime runtime;
    uv_loop_t *loop;
    struct http_client *client;
    char *socket_path;
    struct runtime_events events;
    void *ctx;
    struct link *connection; /* NULL while the launcher is away */
    bool available;          /* and HELLO was answered */
    bool stopping;
    uint32_t last_sequence;
    size_t op_count;
    TAILQ_HEAD(op_list, op) ops; /* in the order of their messages */
    struct places places;
    uv_timer_t retry;
    uv_async_t deferred;
    int open_handles;
};

static void connection_lost(struct native *native, const char *why);

/* --- operations ------------------------------------------------------------------------------- */

static struct op *op_new(struct native *native, enum op_kind kind, const char *id, void *ctx)
{
    struct op *op = mem_alloc(sizeof(*op));
    op->native = native;
    op->kind = kind;
    op->ctx = ctx;
    if (id != NULL)
        strncpy(op->id, id, sizeof(op->id) - 1);
    TAILQ_INSERT_TAIL(&native->ops, op, link);
    native->op_count++;
    return op;
}

static void op_set_state(struct op *op, enum op_state state)
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
    free(op->unsent);
    free(op->items);
    free(op);
}

/* Tell the caller, exactly once, and forget. Never called inside the call that made the operation.
 */
static void op_finish(struct op *op)
{
    const struct error *err = op->err.code != ERR_OK ? &op->err : NULL;
    TAILQ_REMOVE(&op->native->ops, op, link);
    op->native->op_count--;
    if (op->kind == OP_LIST)
        op->list_done(err, op->items, err == NULL ? op->item_count : 0, op->ctx);
    else if (op->done != NULL)
        op->done(err, op->ctx);
    op_free(op);
}

static void op_fail_later(struct op *op)
{
    op_set_state(op, OP_FAILED);
    uv_async_send(&op->native->deferred);
}

static void on_deferred(uv_async_t *handle)
{
    struct native *native = handle->data;
    struct op *op;
    struct op *next;
    for (op = TAILQ_FIRST(&native->ops); op != NULL; op = next) {
        next = TAILQ_NEXT(op, link);
        if (op->state != OP_FAILED)
            continue;
        op_finish(op);
        next = TAILQ_FIRST(&native->ops); /* the callback may have changed the list */
    }
}

static struct op *op_find(struct native *native, uint32_t sequence)
{
    struct op *op;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (op->sequence == sequence && (op->state == OP_ASKED || op->state == OP_UNDOING))
            return op;
    }
    return NULL;
}

/* --- sending ---------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *handle, int status, int events);

static bool has_unsent(struct native *native)
{
    struct op *op;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (op->unsent != NULL)
            return true;
    }
    return false;
}

static void watch(struct native *native, bool for_writing)
{
    uv_poll_start(&native->connection->poll, UV_READABLE | (for_writing ? UV_WRITABLE : 0),
                  on_poll);
}

/* Send op's message with a new sequence number, or keep it until the launcher reads. */
static void ask(struct op *op, enum op_state state, union message *message)
{
    struct native *native = op->native;
    if (++native->last_sequence == 0) /* 0 is for events */
        native->last_sequence = 1;
    op->sequence = native->last_sequence;
    message->header.sequence = op->sequence;
    op_set_state(op, state);
    int r = has_unsent(native) ? -EAGAIN : message_send(native->connection->fd, message);
    if (r == -EAGAIN) {
        op->unsent = mem_alloc(sizeof(*message));
        *op->unsent = *message;
        /* Unsent messages go out in the order of the list. */
        TAILQ_REMOVE(&native->ops, op, link);
        TAILQ_INSERT_TAIL(&native->ops, op, link);
        watch(native, true);
    } else if (r < 0) {
        if (op->err.code == ERR_OK)
            error_set(&op->err, ERR_UNAVAILABLE, "cannot send to the launcher: %s", strerror(-r));
        op_fail_later(op);
    }
}

static void flush_unsent(struct native *native)
{
    struct op *op;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (op->unsent == NULL)
            continue;
        int r = message_send(native->connection->fd, op->unsent);
        if (r == -EAGAIN)
            return;
        if (r < 0) {
            connection_lost(native, strerror(-r));
            return;
        }
        free(TAKE_PTR(op->unsent));
    }
    watch(native, false);
}

/* False, and the operation is on its way to fail, when it cannot be begun now. */
static bool may_begin(struct op *op)
{
    struct native *native = op->native;
    if (native->available && native->op_count <= OPS_MAX)
        return true;
    if (native->available)
        error_set(&op->err, ERR_LIMIT, "%d operations are under way already; try again later",
                  OPS_MAX);
    else
        error_set(&op->err, ERR_UNAVAILABLE, "the launcher is away (%s); try again later",
                  native->socket_path);
    op_fail_later(op);
    return false;
}

static void forget_place(struct native *native, const char *id)
{
    struct http_address address;
    const char *path = places_find(&native->places, id);
    if (path != NULL && http_address_unix(&address, path) == 0)
        http_client_drop(native->client, &address);
    places_remove(&native->places, id);
}

static void ask_removal(struct op *op, enum op_state state)
{
    union message message;
    message_init(&message, MESSAGE_REMOVE, 0);
    strncpy(message.target.id, op->id, sizeof(message.target.id) - 1);
    ask(op, state, &message);
}

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
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

/* execd refused or did not answer: take back what the launcher made, then tell. */
static void create_undo(struct op *op)
{
    struct native *native = op->native;
    forget_place(native, op->id);
    if (native->connection == NULL) {
        /* The launcher is gone; the reconcile after its return removes what is left. */
        op_finish(op);
        return;
    }
    ask_removal(op, OP_UNDOING);
}

static void on_started(int status, const char *body, size_t length, const struct error *err,
                       void *ctx)
{
    struct op *op = ctx;
    op->call = NULL;
    if (status >= 200 && status < 300) {
        op_finish(op);
        return;
    }
    if (status == 0) {
        op->err = *err;
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
    op_set_state(op, OP_STARTING);
    op->call = http_client_fetch(native->client, &address, "POST", "/internal/start",
                                 op->start_body, strlen(op->start_body), START_ANSWER_BYTES,
                                 START_TIMEOUT_MS, on_started, op);
}

static void native_create(struct runtime *self, const struct runtime_spec *spec,
                          runtime_done_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = op_new(native, OP_CREATE, spec->id, ctx);
    op->done = done;
    if (!may_begin(op))
        return;
    op->start_body = start_body_new(spec);
    union message message;
    message_init(&message, MESSAGE_CREATE, 0);
    struct message_create *create = &message.create;
    if (op->start_body == NULL || strlen(spec->image) >= sizeof(create->image)) {
        error_set(&op->err, ERR_INVALID, "the image name or the entrypoint is not usable");
        op_fail_later(op);
        return;
    }
    strncpy(create->id, spec->id, sizeof(create->id) - 1);
    strncpy(create->image, spec->image, sizeof(create->image) - 1);
    create->memory_bytes = spec->limits.memory_bytes;
    create->cpu_millis = spec->limits.cpu_millis;
    create->pids = spec->limits.pids;
    create->deadline_unix_ms = (uint64_t)spec->deadline_unix_ms;
    create->network = MESSAGE_NETWORK_NONE;
    ask(op, OP_ASKED, &message);
}

/* --- remove ----------------------------------------------------------------------------------- */

static void native_remove(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = op_new(native, OP_REMOVE, id, ctx);
    op->done = done;
    if (may_begin(op))
        ask_removal(op, OP_ASKED);
}

/* --- list ------------------------------------------------------------------------------------- */

static void list_ask(struct op *op, const char *after)
{
    union message message;
    message_init(&message, MESSAGE_LIST, 0);
    strncpy(message.list.after, after, sizeof(message.list.after) - 1);
    ask(op, OP_ASKED, &message);
}

static void native_list(struct runtime *self, runtime_list_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = op_new(native, OP_LIST, NULL, ctx);
    op->list_done = done;
    if (may_begin(op))
        list_ask(op, "");
}

static struct runtime_sandbox sandbox_from_message(const struct message_sandbox *from)
{
    static const enum runtime_exit_reason reasons[] = {
        [MESSAGE_EXIT_NONE] = RUNTIME_EXIT_NONE,
        [MESSAGE_EXIT_STATUS] = RUNTIME_EXIT_STATUS,
        [MESSAGE_EXIT_SIGNAL] = RUNTIME_EXIT_SIGNAL,
        [MESSAGE_EXIT_KILLED] = RUNTIME_EXIT_KILLED,
        [MESSAGE_EXIT_DEADLINE] = RUNTIME_EXIT_DEADLINE,
        [MESSAGE_EXIT_LOST] = RUNTIME_EXIT_LOST,
    };
    struct runtime_sandbox sandbox = {
        .exit_reason = reasons[from->exit_reason],
        .exit_status = from->exit_status,
        .oom_kills = from->oom_kills,
    };
    memcpy(sandbox.id, from->id, sizeof(sandbox.id));
    return sandbox;
}

static void list_page(struct op *op, const struct message_sandboxes *page)
{
    struct native *native = op->native;
    if (page->count > 0)
        op->items = mem_resize_array(op->items, op->item_count + page->count, sizeof(*op->items));
    for (size_t i = 0; i < page->count; i++) {
        const struct message_sandbox *item = &page->items[i];
        op->items[op->item_count++] = sandbox_from_message(item);
        if (item->socket[0] != '\0')
            places_set(&native->places, item->id, item->socket);
    }
    if (page->more == 0) {
        op_finish(op);
        return;
    }
    const char *last = page->count > 0 ? page->items[page->count - 1].id : "";
    if (page->count == 0 || op->item_count > LIST_MAX || strcmp(last, op->id) <= 0) {
        error_set(&op->err, ERR_INTERNAL, "the launcher's list does not end");
        op_finish(op);
        return;
    }
    memcpy(op->id, last, sizeof(op->id)); /* how far the list has come */
    list_ask(op, op->id);
}

/* --- receiving -------------------------------------------------------------------------------- */

static void on_result(struct native *native, const struct message_result *result)
{
    struct op *op = op_find(native, result->header.sequence);
    if (op == NULL)
        return;
    if (op->state == OP_UNDOING) {
        op_finish(op); /* with the error that made it undo */
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
            forget_place(native, op->id);
        break;
    case OP_HELLO:
        if (result->code == ERR_OK)
            native->available = true;
        break;
    case OP_LIST:
        if (result->code == ERR_OK)
            error_set(&op->err, ERR_INTERNAL, "the launcher answered LIST without a list");
        break;
    }
    op_finish(op);
}

/* An end that somebody asked for is no news: only those that happened by themselves are passed on.
 */
static void on_exit_event(struct native *native, const struct message_sandbox *item)
{
    if (places_find(&native->places, item->id) == NULL)
        return;
    struct op *op;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (strcmp(op->id, item->id) != 0 || op->kind == OP_LIST)
            continue;
        if (op->kind == OP_CREATE && op->state == OP_STARTING) {
            http_call_cancel(TAKE_PTR(op->call));
            error_set(&op->err, ERR_INTERNAL, "the sandbox ended before its entrypoint started");
            create_undo(op);
        }
        return;
    }
    struct runtime_sandbox sandbox = sandbox_from_message(item);
    native->events.on_exit(&sandbox, native->ctx);
}

static void on_message(struct native *native, const union message *message)
{
    struct op *op;
    switch ((enum message_type)message->header.type) {
    case MESSAGE_RESULT:
        on_result(native, &message->result);
        break;
    case MESSAGE_SANDBOXES:
        op = op_find(native, message->header.sequence);
        if (op != NULL && op->kind == OP_LIST)
            list_page(op, &message->sandboxes);
        break;
    case MESSAGE_EXIT:
        on_exit_event(native, &message->exit.sandbox);
        break;
    case MESSAGE_HELLO:
    case MESSAGE_CREATE:
    case MESSAGE_KILL:
    case MESSAGE_REMOVE:
    case MESSAGE_LIST:
        break; /* not in this direction: message_receive() has refused them */
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct link *connection = handle->data;
    struct native *native = connection->native;
    if (status < 0) {
        connection_lost(native, uv_strerror(status));
        return;
    }
    if ((events & UV_WRITABLE) != 0)
        flush_unsent(native);
    union message message;
    struct error err = ERROR_INIT;
    while (native->connection == connection) {
        int r = message_receive(connection->fd, false, &message, &err);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            connection_lost(native, r == 0         ? "it closed the connection"
                                    : r == -EPROTO ? err.message
                                                   : strerror(-r));
            return;
        }
        on_message(native, &message);
    }
}

/* --- connection ------------------------------------------------------------------------------- */

static int connect_launcher(const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(err, ERR_INVALID, "socket path %s is longer than %zu bytes", path,
                         sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return error_set_errno(err, errno, "cannot connect to the launcher at %s", path);
    return TAKE_FD(fd);
}

static void adopt_connection(struct native *native, int fd)
{
    struct link *connection = mem_alloc(sizeof(*connection));
    connection->native = native;
    connection->fd = fd;
    connection->poll.data = connection;
    uv_poll_init(native->loop, &connection->poll, fd);
    native->connection = connection;
    watch(native, false);
}

static void on_link_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void drop_connection(struct native *native)
{
    struct link *connection = TAKE_PTR(native->connection);
    if (connection == NULL)
        return;
    uv_close((uv_handle_t *)&connection->poll, on_link_closed);
    connection->fd = fd_close(connection->fd);
}

/* Those that wait for the launcher will hear nothing more. Operations that wait for execd go on:
 * the sandbox is alive. */
static void fail_waiting_ops(struct native *native, const char *why)
{
    struct op *op;
    TAILQ_FOREACH(op, &native->ops, link)
    {
        if (op->state != OP_ASKED && op->state != OP_UNDOING)
            continue;
        if (op->err.code == ERR_OK)
            error_set(&op->err, ERR_UNAVAILABLE, "the launcher went away: %s", why);
        op->sequence = 0;
        free(TAKE_PTR(op->unsent));
        op_fail_later(op);
    }
}

static void on_retry(uv_timer_t *timer);

static void connection_lost(struct native *native, const char *why)
{
    bool was_available = native->available;
    native->available = false;
    drop_connection(native);
    fail_waiting_ops(native, why);
    uv_timer_start(&native->retry, on_retry, RETRY_MS, 0);
    if (was_available)
        native->events.on_state(false, native->ctx);
}

static void on_hello_done(const struct error *err, void *ctx)
{
    struct native *native = ctx;
    if (native->stopping)
        return;
    if (err == NULL)
        native->events.on_state(true, native->ctx);
    else if (native->connection != NULL)
        connection_lost(native, err->message);
}

static void on_retry(uv_timer_t *timer)
{
    struct native *native = timer->data;
    int fd = connect_launcher(native->socket_path, NULL);
    if (fd < 0) {
        uv_timer_start(&native->retry, on_retry, RETRY_MS, 0);
        return;
    }
    adopt_connection(native, fd);
    struct op *op = op_new(native, OP_HELLO, NULL, native);
    op->done = on_hello_done;
    union message message;
    message_init(&message, MESSAGE_HELLO, 0);
    ask(op, OP_ASKED, &message);
}

/* The first HELLO is answered before anything else runs, so that a wrong socket fails the start. */
static int hello_and_wait(int fd, struct error *err)
{
    union message message;
    message_init(&message, MESSAGE_HELLO, 1);
    int r = message_send(fd, &message);
    if (r < 0)
        return error_set_errno(err, -r, "cannot send to the launcher");
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    do
        r = poll(&wait, 1, HELLO_TIMEOUT_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return error_set(err, ERR_TIMEOUT, "the launcher did not answer within %d ms",
                         HELLO_TIMEOUT_MS);
    struct error why = ERROR_INIT;
    r = message_receive(fd, false, &message, &why);
    if (r == -EPROTO)
        return error_set(err, ERR_INTERNAL, "the launcher answers nonsense: %s", why.message);
    if (r < 0)
        return error_set_errno(err, -r, "cannot read from the launcher");
    if (r == 0)
        return error_set(err, ERR_DENIED,
                         "the launcher closed the connection; does it serve the "
                         "user of this server?");
    if (message.header.type != MESSAGE_RESULT)
        return error_set(err, ERR_INTERNAL, "the launcher did not answer HELLO");
    if (message.result.code != ERR_OK)
        return error_set(err, (enum error_code)message.result.code, "the launcher refused: %s",
                         message.result.message);
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static int native_address(struct runtime *self, const char *id, int port, struct http_address *ret,
                          struct error *err)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    const char *path = places_find(&native->places, id);
    if (path == NULL)
        return error_set(err, ERR_NOT_FOUND, "sandbox %s has no address", id);
    if (port != EXECD_PORT)
        return error_set(err, ERR_UNSUPPORTED,
                         "port %d: ports other than %d are not reachable in network mode none of "
                         "this version",
                         port, EXECD_PORT);
    if (http_address_unix(ret, path) < 0)
        return error_set(err, ERR_INTERNAL, "the path %s is no socket address", path);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct native *native = handle->data;
    if (--native->open_handles > 0)
        return;
    places_done(&native->places);
    free(native->socket_path);
    free(native);
}

static void native_free(struct runtime *self)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    native->stopping = true;
    native->available = false;
    drop_connection(native);
    struct op *op;
    while ((op = TAILQ_FIRST(&native->ops)) != NULL) {
        http_call_cancel(TAKE_PTR(op->call));
        if (op->err.code == ERR_OK)
            error_set(&op->err, ERR_UNAVAILABLE, "the server is stopping");
        op_finish(op);
    }
    uv_close((uv_handle_t *)&native->retry, on_handle_closed);
    uv_close((uv_handle_t *)&native->deferred, on_handle_closed);
}

struct runtime *native_runtime_new(const struct native_config *config, struct error *err)
{
    AUTO_CLOSE int fd = connect_launcher(config->launcher_socket, err);
    if (fd < 0 || hello_and_wait(fd, err) < 0)
        return NULL;
    struct native *native = mem_alloc(sizeof(*native));
    native->runtime = (struct runtime){
        .create = native_create,
        .remove = native_remove,
        .list = native_list,
        .address = native_address,
        .free = native_free,
    };
    native->loop = config->loop;
    native->client = config->client;
    native->socket_path = mem_dup(config->launcher_socket);
    native->events = config->events;
    native->ctx = config->ctx;
    native->last_sequence = 1;
    native->available = true;
    TAILQ_INIT(&native->ops);
    uv_timer_init(native->loop, &native->retry);
    uv_async_init(native->loop, &native->deferred, on_deferred);
    native->retry.data = native;
    native->deferred.data = native;
    native->open_handles = 2;
    adopt_connection(native, TAKE_FD(fd));
    return &native->runtime;
}
