#include "runtime/native/native_connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "runtime/native/native_op.h"

enum connect_state {
    CONNECT_ASKING,  /* the launcher for a socket */
    CONNECT_WAITING, /* for the other end */
};

/* Lives until `done` was called, or after a cancel() until the launcher has answered, which cannot
 * be stopped. */
struct http_connecting {
    TAILQ_ENTRY(http_connecting) link;
    struct native_connector *connector;
    enum connect_state state;
    char id[ID_UUID_LEN + 1];
    int port;
    unsigned family;         /* 4, then 6 */
    http_connected_fn *done; /* NULL once cancelled */
    void *ctx;
    int fd;
    uv_poll_t *poll; /* while waiting; outlives us until libuv has closed it */
};

static void ask(struct http_connecting *connecting, unsigned family);

/* --- the end ---------------------------------------------------------------------------------- */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

/* The descriptor is free for another handle as soon as this returns. */
static void stop_waiting(struct http_connecting *connecting)
{
    if (connecting->poll != NULL)
        uv_close((uv_handle_t *)TAKE_PTR(connecting->poll), on_poll_closed);
}

static void forget(struct http_connecting *connecting)
{
    TAILQ_REMOVE(&connecting->connector->list, connecting, link);
    connecting->connector->count--;
    stop_waiting(connecting);
    fd_close(connecting->fd);
    free(connecting);
}

static void finish(struct http_connecting *connecting, const struct error *err)
{
    http_connected_fn *done = connecting->done;
    void *ctx = connecting->ctx;
    stop_waiting(connecting);
    int fd = err == NULL ? TAKE_FD(connecting->fd) : -1;
    forget(connecting);
    if (done != NULL)
        done(fd, err, ctx);
    else
        fd_close(fd);
}

static void cancel(struct http_connector *self, struct http_connecting *connecting)
{
    (void)self;
    if (connecting->state == CONNECT_ASKING)
        connecting->done = NULL;
    else
        forget(connecting);
}

/* --- connecting ------------------------------------------------------------------------------- */

static int refused(const struct http_connecting *connecting, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "nothing listens on port %d of sandbox %s",
                     connecting->port, connecting->id);
}

/* A network without IPv6 has no ::1. */
static bool is_refusal(int number, unsigned family)
{
    return number == ECONNREFUSED ||
           (family == 6 && (number == EADDRNOTAVAIL || number == ENETUNREACH));
}

static void connect_failed(struct http_connecting *connecting, int number)
{
    struct error err = ERROR_INIT;
    if (number == ECONNREFUSED && connecting->family == 4) {
        stop_waiting(connecting);
        connecting->fd = fd_close(connecting->fd);
        ask(connecting, 6);
        return;
    }
    if (is_refusal(number, connecting->family))
        refused(connecting, &err);
    else
        error_set(&err, ERR_INTERNAL, "cannot connect to port %d of sandbox %s: %s",
                  connecting->port, connecting->id, strerror(number));
    finish(connecting, &err);
}

/* Where nobody listens, the kernel may choose the very port to connect from, and a socket that
 * calls its own address is connected to itself. */
static bool is_own_peer(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 &&
           own_length == peer_length && memcmp(&own, &peer, own_length) == 0;
}

static void connected(struct http_connecting *connecting)
{
    if (is_own_peer(connecting->fd))
        connect_failed(connecting, ECONNREFUSED);
    else
        finish(connecting, NULL);
}

/* libuv calls whatever went wrong EBADF; the socket knows better. */
static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct http_connecting *connecting = handle->data;
    int number = 0;
    socklen_t length = sizeof(number);
    (void)events;
    if (getsockopt(connecting->fd, SOL_SOCKET, SO_ERROR, &number, &length) < 0)
        number = errno;
    if (number == 0)
        number = -status;
    if (number == 0)
        connected(connecting);
    else
        connect_failed(connecting, number);
}

static int wait_for_peer(struct http_connecting *connecting)
{
    uv_poll_t *poll = mem_alloc(sizeof(*poll));
    int r = uv_poll_init(connecting->connector->loop, poll, connecting->fd);
    if (r < 0) {
        free(poll);
        return r;
    }
    poll->data = connecting;
    connecting->poll = poll;
    return uv_poll_start(poll, UV_WRITABLE, on_poll);
}

static int connect_loopback(const struct http_connecting *connecting)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)connecting->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)connecting->port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int r = connecting->family == 4
                ? connect(connecting->fd, (const struct sockaddr *)&in, sizeof(in))
                : connect(connecting->fd, (const struct sockaddr *)&in6, sizeof(in6));
    return r < 0 ? -errno : 0;
}

/* A loopback interface mostly answers at once. */
static void begin_connecting(struct http_connecting *connecting)
{
    connecting->state = CONNECT_WAITING;
    int r = connect_loopback(connecting);
    if (r == 0) {
        connected(connecting);
        return;
    }
    if (r == -EINPROGRESS)
        r = wait_for_peer(connecting);
    if (r < 0)
        connect_failed(connecting, -r);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* What the launcher says about a sandbox that we believe to run is news of which the server will
 * hear, too: it could not be tried. A machine without IPv6 has nothing that listens there. */
static struct error ask_error(const struct http_connecting *connecting, const struct error *from)
{
    struct error err = *from;
    if (connecting->family == 6 && from->code == ERR_UNSUPPORTED)
        refused(connecting, &err);
    else if (from->code != ERR_LIMIT)
        err.code = ERR_UNAVAILABLE;
    return err;
}

static void on_socket(const struct error *err, int fd, void *ctx)
{
    struct http_connecting *connecting = ctx;
    struct error failed = ERROR_INIT;
    connecting->fd = fd;
    if (connecting->done == NULL) {
        forget(connecting);
    } else if (err != NULL) {
        failed = ask_error(connecting, err);
        finish(connecting, &failed);
    } else if (fd < 0) {
        error_set(&failed, ERR_UNAVAILABLE, "the launcher answered SOCKET without a socket");
        finish(connecting, &failed);
    } else {
        begin_connecting(connecting);
    }
}

static bool has_room(const struct native_connector *connector, const char *id)
{
    const struct http_connecting *other = NULL;
    size_t same = 0;
    TAILQ_FOREACH(other, &connector->list, link)
    {
        same += strcmp(other->id, id) == 0;
    }
    return connector->count < NATIVE_CONNECTS_MAX && same < NATIVE_CONNECTS_BOX_MAX;
}

static struct op *op_for(struct http_connecting *connecting)
{
    connecting->state = CONNECT_ASKING;
    struct op *op =
        native_op_new(connecting->connector->native, OP_SOCKET, connecting->id, connecting);
    op->socket_done = on_socket;
    return op;
}

static void ask(struct http_connecting *connecting, unsigned family)
{
    connecting->family = family;
    struct op *op = op_for(connecting);
    if (!native_op_may_begin(op))
        return;
    union message message;
    message_init(&message, MESSAGE_SOCKET, 0);
    strncpy(message.socket.id, connecting->id, sizeof(message.socket.id) - 1);
    message.socket.family = family;
    native_op_ask(op, OP_ASKED, &message);
}

static void refuse(struct http_connecting *connecting)
{
    struct op *op = op_for(connecting);
    error_set(&op->err, ERR_LIMIT,
              "%d connections to sandboxes, or %d to this one, are being made already; try again",
              NATIVE_CONNECTS_MAX, NATIVE_CONNECTS_BOX_MAX);
    native_op_fail_later(op);
}

static struct http_connecting *start(struct http_connector *self, const char *host, int port,
                                     http_connected_fn *done, void *ctx)
{
    struct native_connector *connector = CONTAINER_OF(self, struct native_connector, connector);
    bool room = has_room(connector, host);
    struct http_connecting *connecting = mem_alloc(sizeof(*connecting));
    connecting->connector = connector;
    strncpy(connecting->id, host, sizeof(connecting->id) - 1);
    connecting->port = port;
    connecting->done = done;
    connecting->ctx = ctx;
    connecting->fd = -1;
    TAILQ_INSERT_TAIL(&connector->list, connecting, link);
    connector->count++;
    if (room)
        ask(connecting, 4);
    else
        refuse(connecting);
    return connecting;
}

/* --- life ------------------------------------------------------------------------------------- */

void native_connector_init(struct native_connector *connector, struct native *native,
                           uv_loop_t *loop)
{
    *connector = (struct native_connector){
        .connector = {.start = start, .cancel = cancel}, .native = native, .loop = loop};
    TAILQ_INIT(&connector->list);
}

void native_connector_done(struct native_connector *connector)
{
    struct http_connecting *connecting;
    struct error err = ERROR_INIT;
    error_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    while ((connecting = TAILQ_FIRST(&connector->list)) != NULL)
        finish(connecting, &err);
}
