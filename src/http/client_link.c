/* Connections of the client, and the pool of those at rest.
 *
 * As in connection.c: everything ends in run(), which takes steps until the connection waits for
 * something; functions that may call the user stand between enter() and leave(), and leave() alone
 * frees. A pooled connection keeps reading, so that it leaves the pool when the peer closes it. */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/client_internal.h"

#define PENDING_MAX (64 * 1024) /* the rest of the read during which the call was paused */

static const struct http_stream_events stream_events;
static const struct http_parser_events parser_events;

static void set_state(struct http_link *connection, enum http_link_state state)
{
    assert(connection->state != HTTP_LINK_CLOSED && connection->state != state);
    connection->state = state;
}

static bool enter(struct http_link *connection)
{
    bool outer = connection->running;
    connection->running = true;
    return outer;
}

static void leave(struct http_link *connection, bool outer)
{
    connection->running = outer;
    if (outer)
        return;
    if (connection->state == HTTP_LINK_CLOSED) {
        http_parser_free(connection->parser);
        buf_done(&connection->pending);
        free(connection);
    } else if (connection->call != NULL) {
        http_schedule_deadline(&connection->client->schedule, http_call_deadline(connection->call));
    }
}

static void close_link(struct http_link *connection)
{
    bool outer = enter(connection);
    if (connection->state == HTTP_LINK_IDLE) {
        TAILQ_REMOVE(&connection->client->pool, connection, link);
        connection->client->pool_count--;
    }
    set_state(connection, HTTP_LINK_CLOSED);
    http_stream_close(TAKE_PTR(connection->stream));
    leave(connection, outer);
}

/* --- pool ------------------------------------------------------------------------------------- */

static bool same_address(const struct http_address *a, const struct http_address *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == HTTP_ADDRESS_UNIX)
        return strcmp(a->unix_path, b->unix_path) == 0;
    if (a->tcp.ss_family != b->tcp.ss_family)
        return false;
    if (a->tcp.ss_family == AF_INET) {
        const struct sockaddr_in *x = (const struct sockaddr_in *)&a->tcp;
        const struct sockaddr_in *y = (const struct sockaddr_in *)&b->tcp;
        return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
    }
    const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)&a->tcp;
    const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)&b->tcp;
    return x->sin6_port == y->sin6_port && x->sin6_scope_id == y->sin6_scope_id &&
           memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
}

static void pool_add(struct http_link *connection)
{
    struct http_client *client = connection->client;
    set_state(connection, HTTP_LINK_IDLE);
    connection->idle_since = uv_now(client->config.loop);
    connection->reused = true;
    TAILQ_INSERT_HEAD(&client->pool, connection, link);
    if (++client->pool_count > client->config.idle_max)
        close_link(TAILQ_LAST(&client->pool, http_link_list));
    http_schedule_deadline(&client->schedule,
                           connection->idle_since + client->config.idle_timeout_ms);
}

/* The most recent one is the least likely to be closed by its peer just now. */
static struct http_link *pool_take(struct http_client *client, const struct http_address *address)
{
    struct http_link *connection = TAILQ_FIRST(&client->pool);
    while (connection != NULL) {
        struct http_link *next = TAILQ_NEXT(connection, link);
        if (same_address(&connection->address, address)) {
            if (http_stream_is_quiet(connection->stream)) {
                TAILQ_REMOVE(&client->pool, connection, link);
                client->pool_count--;
                set_state(connection, HTTP_LINK_BUSY);
                return connection;
            }
            close_link(connection); /* closed by the peer; the loop has not told us yet */
        }
        connection = next;
    }
    return NULL;
}

void http_pool_drop(struct http_client *client, const struct http_address *address)
{
    struct http_link *connection = TAILQ_FIRST(&client->pool);
    while (connection != NULL) {
        struct http_link *next = TAILQ_NEXT(connection, link);
        if (address == NULL || same_address(&connection->address, address))
            close_link(connection);
        connection = next;
    }
}

uint64_t http_pool_sweep(struct http_client *client, uint64_t now_ms)
{
    struct http_link *oldest;
    while ((oldest = TAILQ_LAST(&client->pool, http_link_list)) != NULL) {
        uint64_t deadline_ms = oldest->idle_since + client->config.idle_timeout_ms;
        if (deadline_ms > now_ms)
            return deadline_ms;
        close_link(oldest);
    }
    return HTTP_NO_DEADLINE;
}

/* --- calls come and go ------------------------------------------------------------------------ */

static struct http_link *link_new(struct http_client *client, const struct http_address *address,
                                  struct error *err)
{
    struct http_link *connection = mem_alloc(sizeof(*connection));
    connection->stream =
        http_stream_connect(client->config.loop, address, &stream_events, connection, err);
    if (connection->stream == NULL) {
        free(connection);
        return NULL;
    }
    connection->client = client;
    connection->address = *address;
    connection->parser = http_parser_new(HTTP_PARSE_RESPONSES, &parser_events, connection);
    buf_init(&connection->pending, PENDING_MAX);
    return connection;
}

int http_link_attach(struct http_call *call, bool reuse, struct error *err)
{
    struct http_link *connection = reuse ? pool_take(call->client, &call->address) : NULL;
    bool connected = connection != NULL;
    if (!connected)
        connection = link_new(call->client, &call->address, err);
    if (connection == NULL)
        return -1;
    connection->call = call;
    connection->answered = false;
    call->connection = connection;
    if (connected)
        http_call_set_state(call, HTTP_CALL_WAITING);
    http_parser_expect_response_to(connection->parser, call->method);
    if (!call->paused)
        http_stream_read_start(connection->stream);
    return 0;
}

void http_link_release(struct http_link *connection, bool reusable)
{
    connection->call->connection = NULL;
    connection->call = NULL;
    if (reusable && !connection->ended && connection->input_length == 0 &&
        connection->pending.length == 0 && http_stream_queued(connection->stream) == 0 &&
        http_parser_is_idle(connection->parser)) {
        http_stream_read_start(connection->stream);
        pool_add(connection);
    } else {
        close_link(connection);
    }
}

struct http_stream *http_link_take_stream(struct http_link *connection)
{
    struct http_stream *stream = TAKE_PTR(connection->stream);
    http_stream_read_stop(stream);
    http_stream_set_events(stream, NULL, NULL);
    return stream;
}

/* --- parser events ---------------------------------------------------------------------------- */

static bool is_current(const struct http_link *connection, const struct http_call *call)
{
    return connection->call == call;
}

static int on_head(void *ctx, struct http_head *head)
{
    struct http_link *connection = ctx;
    struct http_call *call = connection->call;
    if (head->status == 101 && call->wants_upgrade) {
        call->upgrade_head = *head;
        http_head_init(head);
        http_call_set_state(call, HTTP_CALL_UPGRADED);
        return 1;
    }
    if (head->status == 101) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_INVALID, "the server switched protocols without being asked");
        http_call_fail(call, &err);
        return 1;
    }
    http_call_set_state(call, HTTP_CALL_BODY);
    call->keep_alive = head->keep_alive;
    call->events->on_head(call, head, call->ctx);
    return !is_current(connection, call) || call->paused;
}

static int on_body(void *ctx, const char *bytes, size_t length)
{
    struct http_link *connection = ctx;
    struct http_call *call = connection->call;
    call->events->on_body(call, bytes, length, call->ctx);
    return !is_current(connection, call) || call->paused;
}

static int on_complete(void *ctx)
{
    struct http_link *connection = ctx;
    if (connection->call != NULL)
        http_call_set_state(connection->call, HTTP_CALL_COMPLETE);
    return 0;
}

static const struct http_parser_events parser_events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_complete = on_complete,
};

/* --- steps ------------------------------------------------------------------------------------ */

static bool feed(struct http_link *connection)
{
    struct http_call *call = connection->call;
    struct error err = ERROR_INIT;
    ssize_t eaten =
        http_parser_feed(connection->parser, connection->input, connection->input_length, &err);
    if (connection->state == HTTP_LINK_CLOSED)
        return false; /* cancelled by a callback */
    if (eaten < 0) {
        error_wrap(&err, "the response is not valid HTTP");
        http_call_fail(call, &err);
        return false;
    }
    connection->input += eaten;
    connection->input_length -= (size_t)eaten;
    return eaten > 0 || call->state == HTTP_CALL_COMPLETE;
}

static bool step(struct http_link *connection)
{
    struct http_call *call = connection->call;
    if (call == NULL)
        return false;
    http_call_send_head(call);
    if (call->paused && call->state != HTTP_CALL_UPGRADED)
        return false;
    switch (call->state) {
    case HTTP_CALL_WAITING:
    case HTTP_CALL_BODY:
        return feed(connection);
    case HTTP_CALL_COMPLETE:
        http_call_finish(call, call->keep_alive);
        return true; /* the callback may have started the next call here */
    case HTTP_CALL_UPGRADED:
        http_call_upgrade(call, connection->input, connection->input_length);
        return false;
    default:
        return false;
    }
}

static void run(struct http_link *connection, const char *bytes, size_t length)
{
    bool outer = enter(connection);
    struct buf *pending = &connection->pending;
    bool from_pending = pending->length > 0;
    if (from_pending) { /* reading was stopped meanwhile, so `bytes` are none */
        bytes = pending->data;
        length = pending->length;
    }
    connection->input = bytes;
    connection->input_length = length;
    while (step(connection))
        ;
    if (from_pending)
        buf_consume(pending, pending->length - connection->input_length);
    else
        buf_add(pending, connection->input, connection->input_length);
    if (pending->length == 0)
        buf_done(pending);
    connection->input = NULL;
    connection->input_length = 0;
    leave(connection, outer);
}

void http_link_run(struct http_link *connection)
{
    run(connection, "", 0);
}

/* --- stream events ---------------------------------------------------------------------------- */

static void on_stream_connect(void *ctx)
{
    struct http_link *connection = ctx;
    if (connection->call != NULL)
        http_call_set_state(connection->call, HTTP_CALL_WAITING);
    http_link_run(connection);
}

static void on_stream_data(void *ctx, const char *bytes, size_t length)
{
    struct http_link *connection = ctx;
    if (connection->state == HTTP_LINK_IDLE) { /* nobody asked: no use as a connection any more */
        close_link(connection);
        return;
    }
    connection->answered = true;
    run(connection, bytes, length);
}

/* A pooled connection may have been closed by its peer when we took it: that is nobody's fault, and
 * a request of which nothing can have been acted on in part is sent again on a new one. */
static bool retry(struct http_call *call)
{
    struct http_link *connection = call->connection;
    if (!connection->reused || connection->answered || call->retried || call->has_body ||
        !call->request_ended)
        return false;
    http_link_release(connection, false);
    call->retried = true;
    call->head_sent = false;
    http_call_set_state(call, HTTP_CALL_CONNECTING);
    struct error err = ERROR_INIT;
    if (http_link_attach(call, false, &err) < 0) {
        http_call_fail(call, &err);
        return true;
    }
    http_call_send_head(call);
    http_schedule_deadline(&call->client->schedule, http_call_deadline(call));
    return true;
}

static void on_stream_end(void *ctx)
{
    struct http_link *connection = ctx;
    bool outer = enter(connection);
    struct http_call *call = connection->call;
    struct error err = ERROR_INIT;
    connection->ended = true;
    if (call == NULL) {
        close_link(connection);
    } else if (http_parser_end(connection->parser, &err) < 0) {
        http_call_fail(call, &err);
    } else if (connection->call == call && call->state == HTTP_CALL_COMPLETE) {
        run(connection, "", 0);
    } else if (connection->call == call && !retry(call)) {
        error_set(&err, ERR_UNAVAILABLE, "the server closed the connection without an answer");
        http_call_fail(call, &err);
    }
    leave(connection, outer);
}

static void on_stream_drain(void *ctx)
{
    struct http_link *connection = ctx;
    bool outer = enter(connection);
    struct http_call *call = connection->call;
    if (call != NULL && call->full &&
        http_stream_queued(connection->stream) <= HTTP_STREAM_LOW_BYTES) {
        call->full = false;
        if (call->events->on_drain != NULL && !call->request_ended)
            call->events->on_drain(call, call->ctx);
    }
    leave(connection, outer);
}

static void on_stream_error(void *ctx, int status)
{
    struct http_link *connection = ctx;
    bool outer = enter(connection);
    struct http_call *call = connection->call;
    if (call == NULL) {
        close_link(connection);
    } else if (!retry(call)) {
        struct error err = ERROR_INIT;
        error_set_errno(&err, -status,
                        call->state == HTTP_CALL_CONNECTING ? "cannot connect"
                                                            : "the connection broke");
        http_call_fail(call, &err);
    }
    leave(connection, outer);
}

static const struct http_stream_events stream_events = {
    .on_connect = on_stream_connect,
    .on_data = on_stream_data,
    .on_end = on_stream_end,
    .on_drain = on_stream_drain,
    .on_error = on_stream_error,
};
