/* One connection: bytes from the stream go through the parser and become exchanges, one at a time.
 *
 * Everything that happens ends in run(), which takes steps until the connection waits for
 * something. Handlers are called from there and may do anything, even free the server; therefore a
 * function that calls one stands between enter() and leave(), and leave() alone frees. Functions
 * that handlers call only change the exchange and wake the connection.
 *
 * Bytes that nobody may have yet (a body not asked for, a pipelined request) stay in `pending`;
 * when that is full, reading stops. Reading goes on otherwise, because it is the only way to hear
 * that a client has gone while a streamed answer is quiet. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/server_internal.h"

#define PENDING_MAX    (HTTP_PENDING_BYTES + 64 * 1024) /* one more read may be on its way */
#define LINGER_BYTES   (16 * 1024 * 1024)
#define LINGER_TIME_MS 5000

static uint64_t now_ms(const struct http_connection *connection)
{
    return uv_now(connection->server->config.loop);
}

static void set_state(struct http_connection *connection, enum http_connection_state state)
{
    static const unsigned allowed[] = {
        [HTTP_CONNECTION_IDLE] = 1u << HTTP_CONNECTION_HEAD | 1u << HTTP_CONNECTION_EXCHANGE |
                                 1u << HTTP_CONNECTION_LINGER | 1u << HTTP_CONNECTION_CLOSED,
        [HTTP_CONNECTION_HEAD] = 1u << HTTP_CONNECTION_EXCHANGE | 1u << HTTP_CONNECTION_LINGER |
                                 1u << HTTP_CONNECTION_CLOSED,
        [HTTP_CONNECTION_EXCHANGE] = 1u << HTTP_CONNECTION_IDLE | 1u << HTTP_CONNECTION_LINGER |
                                     1u << HTTP_CONNECTION_CLOSED,
        [HTTP_CONNECTION_LINGER] = 1u << HTTP_CONNECTION_CLOSED,
    };
    assert(connection->state != HTTP_CONNECTION_CLOSED &&
           (allowed[connection->state] & 1u << state) != 0);
    connection->state = state;
    connection->since = now_ms(connection);
}

/* --- life ------------------------------------------------------------------------------------- */

static bool enter(struct http_connection *connection)
{
    bool outer = connection->running;
    connection->running = true;
    return outer;
}

static void leave(struct http_connection *connection, bool outer)
{
    connection->running = outer;
    if (outer)
        return;
    if (connection->state == HTTP_CONNECTION_CLOSED) {
        http_parser_free(connection->parser);
        buf_done(&connection->pending);
        free(connection);
        return;
    }
    if (connection->pending.length < HTTP_PENDING_BYTES)
        http_stream_read_start(connection->stream);
    else
        http_stream_read_stop(connection->stream);
    http_schedule_deadline(&connection->server->schedule, http_connection_deadline(connection));
}

static void close_connection(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    if (connection->state == HTTP_CONNECTION_CLOSED)
        return;
    set_state(connection, HTTP_CONNECTION_CLOSED);
    http_stream_close(TAKE_PTR(connection->stream));
    http_schedule_drop(&server->schedule, &connection->task);
    TAILQ_REMOVE(&server->connections, connection, link);
    server->connection_count--;
}

/* Ends the exchange for its handler. The connection may be closed when this returns. */
static void end_exchange(struct http_connection *connection, bool completed)
{
    struct http_exchange *exchange = TAKE_PTR(connection->exchange);
    if (exchange->answer < HTTP_ANSWER_ENDED)
        exchange->answer = HTTP_ANSWER_CUT; /* whatever the handler still tries is ignored */
    if (exchange->on_close != NULL)
        exchange->on_close(exchange, completed, exchange->close_ctx);
    http_exchange_free(exchange);
}

/* Between enter() and leave(). */
static void cut(struct http_connection *connection)
{
    if (connection->exchange != NULL)
        end_exchange(connection, connection->exchange->answer == HTTP_ANSWER_TAKEN);
    close_connection(connection);
}

void http_connection_cut(struct http_connection *connection)
{
    bool outer = enter(connection);
    cut(connection);
    leave(connection, outer);
}

/* The last answer is written. Closing with unread input would make the kernel reset the connection,
 * and the peer could lose the answer: say that we are done, and read until it is, too. */
static void linger(struct http_connection *connection)
{
    if (connection->ended) {
        close_connection(connection);
        return;
    }
    set_state(connection, HTTP_CONNECTION_LINGER);
    http_stream_shutdown(connection->stream);
}

/* --- parser events ---------------------------------------------------------------------------- */

static int on_head(void *ctx, struct http_head *head)
{
    struct http_connection *connection = ctx;
    connection->exchange = http_exchange_new(connection, head);
    return 1; /* the handler is called outside the parser */
}

static int on_body(void *ctx, const char *bytes, size_t length)
{
    struct http_connection *connection = ctx;
    int stop = http_exchange_take_body(connection->exchange, bytes, length);
    return connection->exchange == NULL ? 1 : stop;
}

static int on_complete(void *ctx)
{
    struct http_connection *connection = ctx;
    if (connection->exchange != NULL)
        connection->exchange->body_complete = true;
    return 0;
}

static const struct http_parser_events parser_events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_complete = on_complete,
};

/* --- steps ------------------------------------------------------------------------------------ */

static int refusal_status(const struct error *err)
{
    switch (err->code) {
    case ERR_LIMIT:
        return 431;
    case ERR_UNSUPPORTED:
        return err->sys == EOPNOTSUPP ? 501 : 505;
    default:
        return 400;
    }
}

/* Answer a request that never became an exchange. */
static void refuse(struct http_connection *connection, int status, const char *message)
{
    AUTO_FREE char *json = http_refusal_json(status, message);
    char head[256];
    int length = snprintf(head, sizeof(head),
                          "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                          status, http_status_text(status), strlen(json));
    uv_buf_t parts[] = {uv_buf_init(head, (unsigned)length),
                        uv_buf_init(json, (unsigned)strlen(json))};
    http_stream_write_parts(connection->stream, parts, ARRAY_LEN(parts));
    linger(connection);
}

/* True when bytes were eaten or an event happened. */
static bool feed(struct http_connection *connection, size_t length)
{
    struct error err = ERROR_INIT;
    ssize_t eaten = http_parser_feed(connection->parser, connection->input, length, &err);
    if (connection->state == HTTP_CONNECTION_CLOSED)
        return false;
    if (eaten >= 0) {
        connection->input += eaten;
        connection->input_length -= (size_t)eaten;
        return eaten > 0;
    }
    if (connection->exchange != NULL)
        http_exchange_refuse(connection->exchange, refusal_status(&err), err.message);
    else
        refuse(connection, refusal_status(&err), err.message);
    return true;
}

static bool step_head(struct http_connection *connection)
{
    if (connection->input_length == 0)
        return false;
    bool moved = feed(connection, connection->input_length);
    if (connection->exchange == NULL) {
        if (connection->state == HTTP_CONNECTION_IDLE && http_parser_in_head(connection->parser))
            set_state(connection, HTTP_CONNECTION_HEAD);
        return moved;
    }
    set_state(connection, HTTP_CONNECTION_EXCHANGE);
    /* A request without body is complete with its head: let the parser say so. */
    feed(connection, 0);
    const struct http_server_config *config = &connection->server->config;
    config->on_request(connection->exchange, config->ctx);
    return true;
}

static bool is_over(const struct http_connection *connection)
{
    const struct http_exchange *exchange = connection->exchange;
    return exchange->answer == HTTP_ANSWER_ENDED && http_stream_queued(connection->stream) == 0 &&
           (exchange->body_complete || exchange->close);
}

static void finish_exchange(struct http_connection *connection)
{
    bool reusable = !connection->exchange->close && !connection->ended;
    bool unread = !connection->exchange->body_complete || connection->input_length > 0;
    end_exchange(connection, true);
    if (connection->state == HTTP_CONNECTION_CLOSED)
        return;
    if (reusable)
        set_state(connection, HTTP_CONNECTION_IDLE);
    else if (unread)
        linger(connection);
    else
        close_connection(connection);
}

static bool step_exchange(struct http_connection *connection)
{
    struct http_exchange *exchange = connection->exchange;
    assert(exchange != NULL); /* in this state there is one */
    if (exchange->answer == HTTP_ANSWER_CUT) {
        cut(connection);
        return false;
    }
    if (exchange->answer == HTTP_ANSWER_TAKEN) {
        end_exchange(connection, true);
        close_connection(connection);
        return false;
    }
    http_exchange_send_held(exchange);
    if (is_over(connection)) {
        finish_exchange(connection);
        return true;
    }
    if (!http_exchange_wants_body(exchange))
        return false;
    if (exchange->body_complete) {
        http_exchange_take_body_end(exchange);
        return true;
    }
    /* Without input, too: the parser may have stopped just before the end. */
    bool moved = feed(connection, connection->input_length);
    return moved || (connection->exchange != NULL && connection->exchange->body_complete);
}

static bool step_linger(struct http_connection *connection)
{
    connection->lingered_bytes += connection->input_length;
    connection->input_length = 0;
    if (connection->ended || connection->lingered_bytes > LINGER_BYTES)
        close_connection(connection);
    return false;
}

static bool step(struct http_connection *connection)
{
    switch (connection->state) {
    case HTTP_CONNECTION_IDLE:
    case HTTP_CONNECTION_HEAD:
        return step_head(connection);
    case HTTP_CONNECTION_EXCHANGE:
        return step_exchange(connection);
    case HTTP_CONNECTION_LINGER:
        return step_linger(connection);
    case HTTP_CONNECTION_CLOSED:
        break;
    }
    return false;
}

/* New bytes are parsed where they lie; only what remains of them is copied. Between enter() and
 * leave(). */
static void take_steps(struct http_connection *connection, const char *bytes, size_t length)
{
    struct buf *pending = &connection->pending;
    bool from_pending = pending->length > 0;
    if (from_pending) {
        if (buf_add(pending, bytes, length) < 0)
            cut(connection); /* cannot be: reading stops well before */
        bytes = pending->data;
        length = pending->length;
    }
    connection->input = bytes;
    connection->input_length = length;
    while (step(connection))
        ;
    if (from_pending)
        buf_consume(pending, pending->length - connection->input_length);
    else if (buf_add(pending, connection->input, connection->input_length) < 0)
        cut(connection);
    if (pending->length == 0)
        buf_done(pending);
    connection->input = NULL;
    connection->input_length = 0;
}

static void run(struct http_connection *connection, const char *bytes, size_t length)
{
    bool outer = enter(connection);
    take_steps(connection, bytes, length);
    leave(connection, outer);
}

const char *http_connection_rest(const struct http_connection *connection, size_t *ret_length)
{
    bool parsing = connection->input != NULL;
    *ret_length = parsing ? connection->input_length : connection->pending.length;
    return parsing ? connection->input : connection->pending.data;
}

/* --- what sets it going ----------------------------------------------------------------------- */

static void on_task(struct http_task *task)
{
    run(CONTAINER_OF(task, struct http_connection, task), "", 0);
}

void http_connection_wake(struct http_connection *connection)
{
    if (!connection->running)
        http_schedule_add(&connection->server->schedule, &connection->task);
}

static void on_stream_data(void *ctx, const char *bytes, size_t length)
{
    run(ctx, bytes, length);
}

/* The peer half-closed or left. Clients that half-close and still wait for an answer are rare, and
 * cannot be told from those who left: only an answer that is already there is finished. */
static void on_stream_end(void *ctx)
{
    struct http_connection *connection = ctx;
    bool outer = enter(connection);
    connection->ended = true;
    if (connection->exchange != NULL && connection->exchange->answer == HTTP_ANSWER_ENDED)
        connection->exchange->close = true;
    else
        cut(connection);
    take_steps(connection, "", 0);
    leave(connection, outer);
}

static void on_stream_drain(void *ctx)
{
    struct http_connection *connection = ctx;
    bool outer = enter(connection);
    struct http_exchange *exchange = connection->exchange;
    if (exchange != NULL && exchange->full &&
        http_stream_queued(connection->stream) <= HTTP_STREAM_LOW_BYTES) {
        exchange->full = false;
        if (exchange->on_drain != NULL && exchange->answer == HTTP_ANSWER_BEGUN)
            exchange->on_drain(exchange, exchange->drain_ctx);
    }
    take_steps(connection, "", 0);
    leave(connection, outer);
}

static void on_stream_error(void *ctx, int status)
{
    (void)status;
    http_connection_cut(ctx);
}

static const struct http_stream_events stream_events = {
    .on_data = on_stream_data,
    .on_end = on_stream_end,
    .on_drain = on_stream_drain,
    .on_error = on_stream_error,
};

void http_connection_new(struct http_server *server, uv_stream_t *listener)
{
    struct http_connection *connection = mem_alloc(sizeof(*connection));
    connection->stream = http_stream_accept(listener, &stream_events, connection, NULL);
    if (connection->stream == NULL ||
        server->connection_count >= server->config.limits.connections) {
        http_stream_close(connection->stream);
        free(connection);
        return;
    }
    connection->server = server;
    connection->parser = http_parser_new(HTTP_PARSE_REQUESTS, &parser_events, connection);
    connection->since = now_ms(connection);
    connection->task.run = on_task;
    buf_init(&connection->pending, PENDING_MAX);
    TAILQ_INSERT_TAIL(&server->connections, connection, link);
    server->connection_count++;
    leave(connection, false);
}

/* --- time-outs -------------------------------------------------------------------------------- */

/* A quiet answer is no fault: only a body that is wanted, or output that is stuck, can stall. */
static uint64_t stall_deadline(const struct http_connection *connection)
{
    const struct http_exchange *exchange = connection->exchange;
    uint64_t since = UINT64_MAX;
    if (http_stream_queued(connection->stream) > 0)
        since = http_stream_last_write_ms(connection->stream);
    if (http_exchange_wants_body(exchange) && !exchange->body_complete)
        since = MIN(since, MAX(http_stream_last_read_ms(connection->stream), exchange->wait_since));
    return since == UINT64_MAX ? HTTP_NO_DEADLINE
                               : since + connection->server->config.limits.stall_timeout_ms;
}

uint64_t http_connection_deadline(const struct http_connection *connection)
{
    const struct http_server_limits *limits = &connection->server->config.limits;
    switch (connection->state) {
    case HTTP_CONNECTION_IDLE:
        return connection->since + limits->idle_timeout_ms;
    case HTTP_CONNECTION_HEAD:
        return connection->since + limits->head_timeout_ms;
    case HTTP_CONNECTION_EXCHANGE:
        return connection->stream == NULL ? HTTP_NO_DEADLINE : stall_deadline(connection);
    case HTTP_CONNECTION_LINGER:
        return connection->since + LINGER_TIME_MS;
    case HTTP_CONNECTION_CLOSED:
        break;
    }
    return HTTP_NO_DEADLINE;
}

void http_connection_expire(struct http_connection *connection)
{
    bool outer = enter(connection);
    struct http_exchange *exchange = connection->exchange;
    if (connection->state == HTTP_CONNECTION_HEAD) {
        refuse(connection, 408, "the request head did not arrive in time");
    } else if (exchange != NULL && http_stream_queued(connection->stream) == 0) {
        http_exchange_refuse(exchange, 408, "the request body did not arrive in time");
        take_steps(connection, "", 0);
    } else {
        cut(connection);
    }
    leave(connection, outer);
}
