/* Connections of the client.
 *
 * As in connection.c: everything ends in run(), which takes steps until the connection waits for
 * something; functions that may call the user stand between enter() and leave(), and leave() alone
 * frees. */
#include <assert.h>
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

void http_link_close(struct http_link *connection)
{
    bool outer = enter(connection);
    if (connection->state == HTTP_LINK_IDLE)
        http_pool_remove(connection);
    set_state(connection, HTTP_LINK_CLOSED);
    http_stream_close(TAKE_PTR(connection->stream));
    leave(connection, outer);
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
    struct http_link *connection = reuse ? http_pool_find(call->client, &call->address) : NULL;
    bool connected = connection != NULL;
    if (connected) {
        http_pool_remove(connection);
        set_state(connection, HTTP_LINK_BUSY);
    } else {
        connection = link_new(call->client, &call->address, err);
    }
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
        set_state(connection, HTTP_LINK_IDLE);
        connection->reused = true;
        http_pool_add(connection);
    } else {
        http_link_close(connection);
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
    bool switches = head->status == 101 && http_headers_find(&head->headers, "Upgrade") != NULL &&
                    http_headers_has_token(&head->headers, "Connection", "upgrade");
    if (switches && call->wants_upgrade) {
        call->upgrade_head = *head;
        http_head_init(head);
        http_call_set_state(call, HTTP_CALL_UPGRADED);
        return 1;
    }
    if (head->status == 101) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_INVALID, "the server switched protocols without %s",
                  call->wants_upgrade ? "saying to which" : "being asked");
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
        http_link_close(connection);
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
        http_link_close(connection);
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

static struct error stream_error(struct http_call *call, int status)
{
    const struct error *failure = http_stream_failure(call->connection->stream);
    struct error err = ERROR_INIT;
    if (failure != NULL) {
        call->untried = failure->code == ERR_UNAVAILABLE || failure->code == ERR_LIMIT;
        return *failure;
    }
    error_set_errno(&err, -status,
                    call->state == HTTP_CALL_CONNECTING ? "cannot connect"
                                                        : "the connection broke");
    return err;
}

static void on_stream_error(void *ctx, int status)
{
    struct http_link *connection = ctx;
    bool outer = enter(connection);
    struct http_call *call = connection->call;
    if (call == NULL) {
        http_link_close(connection);
    } else if (!retry(call)) {
        struct error err = stream_error(call, status);
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
