#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/server_internal.h"

#define BACKLOG         1024
#define SCRATCH_MAX     (1024 * 1024)
#define SWEEP_GRAIN_MAX 1000

struct http_listener {
    TAILQ_ENTRY(http_listener) link;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct http_server *server;
};

/* --- time-outs -------------------------------------------------------------------------------- */

static uint64_t on_sweep(struct http_schedule *schedule, uint64_t now_ms)
{
    struct http_server *server = CONTAINER_OF(schedule, struct http_server, schedule);
    uint64_t next_ms = HTTP_NO_DEADLINE;
    struct http_connection *connection = TAILQ_FIRST(&server->connections);
    while (connection != NULL) {
        /* Expiring one connection frees no other, except when a handler frees the server. */
        struct http_connection *next = TAILQ_NEXT(connection, link);
        uint64_t deadline_ms = http_connection_deadline(connection);
        if (deadline_ms <= now_ms)
            http_connection_expire(connection); /* sets its own next deadline */
        else
            next_ms = MIN(next_ms, deadline_ms);
        if (server->closing)
            return HTTP_NO_DEADLINE;
        connection = next;
    }
    return next_ms;
}

/* Sweeping is cheap but not free: a quarter of the shortest limit is exact enough. */
static uint64_t sweep_grain_ms(const struct http_server_limits *limits)
{
    uint64_t shortest = MIN(limits->head_timeout_ms, limits->idle_timeout_ms);
    shortest = MIN(shortest, limits->stall_timeout_ms);
    return MIN(MAX(shortest / 4, (uint64_t)10), (uint64_t)SWEEP_GRAIN_MAX);
}

/* --- listeners -------------------------------------------------------------------------------- */

/* Out of descriptors libuv accepts and closes what waits, with a descriptor it keeps for that. If
 * that one is lost too, it would ask us for ever: give one up. */
static void drop_oldest_idle(struct http_server *server)
{
    struct http_connection *oldest = NULL;
    struct http_connection *connection;
    TAILQ_FOREACH(connection, &server->connections, link)
    {
        if (connection->state == HTTP_CONNECTION_IDLE &&
            (oldest == NULL || connection->since < oldest->since))
            oldest = connection;
    }
    if (oldest != NULL)
        http_connection_cut(oldest);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct http_listener *listener = CONTAINER_OF(stream, struct http_listener, uv.stream);
    if (status == UV_EMFILE || status == UV_ENFILE)
        drop_oldest_idle(listener->server);
    if (status == 0)
        http_connection_new(listener->server, stream);
}

static void release_handle(struct http_server *server)
{
    if (--server->handles > 0)
        return;
    buf_done(&server->scratch);
    free(server);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_listener *listener = CONTAINER_OF(handle, struct http_listener, uv.handle);
    release_handle(listener->server);
    free(listener);
}

static struct http_listener *listener_new(struct http_server *server, bool tcp)
{
    struct http_listener *listener = mem_alloc(sizeof(*listener));
    listener->server = server;
    if (tcp)
        uv_tcp_init(server->config.loop, &listener->uv.tcp);
    else
        uv_pipe_init(server->config.loop, &listener->uv.pipe, 0);
    server->handles++;
    return listener;
}

static int listener_start(struct http_listener *listener)
{
    int r = uv_listen(&listener->uv.stream, BACKLOG, on_connection);
    if (r == 0)
        TAILQ_INSERT_TAIL(&listener->server->listeners, listener, link);
    return r;
}

static int bound_port(struct http_listener *listener)
{
    struct sockaddr_storage address = {0};
    int length = sizeof(address);
    uv_tcp_getsockname(&listener->uv.tcp, (struct sockaddr *)&address, &length);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

int http_server_listen_tcp(struct http_server *server, const char *ip, int port, int *ret_port,
                           struct error *err)
{
    struct sockaddr_storage address = {0};
    if (port < 0 || port > 65535)
        return error_set(err, ERR_INVALID, "cannot listen on port %d: must be 0 to 65535", port);
    if (uv_ip4_addr(ip, port, (struct sockaddr_in *)&address) < 0 &&
        uv_ip6_addr(ip, port, (struct sockaddr_in6 *)&address) < 0)
        return error_set(err, ERR_INVALID, "cannot listen on \"%s\": not an IP address", ip);

    struct http_listener *listener = listener_new(server, true);
    int r = uv_tcp_bind(&listener->uv.tcp, (const struct sockaddr *)&address, 0);
    if (r == 0)
        r = listener_start(listener);
    if (r < 0) {
        uv_close(&listener->uv.handle, on_listener_closed);
        return error_set_errno(err, -r, "cannot listen on %s port %d", ip, port);
    }
    if (ret_port != NULL)
        *ret_port = bound_port(listener);
    return 0;
}

int http_server_listen_fd(struct http_server *server, int fd, struct error *err)
{
    int domain;
    socklen_t length = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        int r = error_set_errno(err, errno, "cannot listen on descriptor %d", fd);
        fd_close(fd);
        return r;
    }
    struct http_listener *listener = listener_new(server, domain != AF_UNIX);
    int r = domain == AF_UNIX ? uv_pipe_open(&listener->uv.pipe, fd)
                              : uv_tcp_open(&listener->uv.tcp, fd);
    if (r < 0)
        fd_close(fd);
    else
        r = listener_start(listener);
    if (r < 0) {
        uv_close(&listener->uv.handle, on_listener_closed);
        return error_set_errno(err, -r, "cannot listen on descriptor %d", fd);
    }
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static void set_default(uint64_t *value, uint64_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

struct http_server *http_server_new(const struct http_server_config *config)
{
    struct http_server *server = mem_alloc(sizeof(*server));
    server->config = *config;
    struct http_server_limits *limits = &server->config.limits;
    if (limits->connections == 0)
        limits->connections = 4096;
    set_default(&limits->head_timeout_ms, 15000);
    set_default(&limits->idle_timeout_ms, 120000);
    set_default(&limits->stall_timeout_ms, 60000);
    TAILQ_INIT(&server->connections);
    TAILQ_INIT(&server->listeners);
    buf_init(&server->scratch, SCRATCH_MAX);
    http_schedule_init(&server->schedule, config->loop, sweep_grain_ms(limits), on_sweep);
    server->handles = 1;
    return server;
}

static void on_schedule_closed(struct http_schedule *schedule)
{
    release_handle(CONTAINER_OF(schedule, struct http_server, schedule));
}

struct http_server *http_server_free(struct http_server *server)
{
    if (server == NULL)
        return NULL;
    server->closing = true;
    struct http_listener *listener;
    TAILQ_FOREACH(listener, &server->listeners, link)
    uv_close(&listener->uv.handle, on_listener_closed);
    while (!TAILQ_EMPTY(&server->connections))
        http_connection_cut(TAILQ_FIRST(&server->connections));
    http_schedule_close(&server->schedule, on_schedule_closed);
    return NULL;
}

size_t http_server_connection_count(const struct http_server *server)
{
    return server->connection_count;
}
