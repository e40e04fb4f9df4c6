/* The request side of an exchange, and its life. Nothing here calls the handler from inside a call
 * of the handler: functions change the state and wake the connection, which calls back from the
 * loop. The answer side is in answer.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/server_internal.h"

static const char continue_head[] = "HTTP/1.1 100 Continue\r\n\r\n";

/* --- life ------------------------------------------------------------------------------------- */

static void split_target(struct http_exchange *exchange)
{
    exchange->path = mem_dup(exchange->head.target);
    char *mark = strchr(exchange->path, '?');
    if (mark != NULL)
        *mark++ = '\0';
    exchange->query = mark != NULL ? mark : "";
}

struct http_exchange *http_exchange_new(struct http_connection *connection, struct http_head *head)
{
    struct http_exchange *exchange = mem_alloc(sizeof(*exchange));
    exchange->connection = connection;
    exchange->head = *head;
    http_head_init(head);
    split_target(exchange);
    memcpy(exchange->peer, http_stream_peer(connection->stream), sizeof(exchange->peer));
    buf_init(&exchange->collected, 0);
    buf_init(&exchange->held, SIZE_MAX);
    http_head_init(&exchange->response);
    return exchange;
}

void http_exchange_free(struct http_exchange *exchange)
{
    http_head_done(&exchange->head);
    http_head_done(&exchange->response);
    buf_done(&exchange->collected);
    buf_done(&exchange->held);
    free(exchange->path);
    free(exchange);
}

void http_exchange_on_close(struct http_exchange *exchange, http_exchange_close_fn *fn, void *ctx)
{
    exchange->on_close = fn;
    exchange->close_ctx = ctx;
}

void http_exchange_on_drain(struct http_exchange *exchange, http_exchange_drain_fn *fn, void *ctx)
{
    exchange->on_drain = fn;
    exchange->drain_ctx = ctx;
}

/* --- head ------------------------------------------------------------------------------------- */

const struct http_head *http_exchange_head(const struct http_exchange *exchange)
{
    return &exchange->head;
}

const char *http_exchange_peer(const struct http_exchange *exchange)
{
    return exchange->peer;
}

uv_loop_t *http_exchange_loop(const struct http_exchange *exchange)
{
    return exchange->connection->server->config.loop;
}

const char *http_exchange_path(const struct http_exchange *exchange)
{
    return exchange->path;
}

const char *http_exchange_query(const struct http_exchange *exchange)
{
    return exchange->query;
}

void http_exchange_set_target(struct http_exchange *exchange, const char *target)
{
    char *copy = mem_dup(target); /* it may point into the old one */
    free(exchange->head.target);
    free(exchange->path);
    exchange->head.target = copy;
    split_target(exchange);
}

/* --- body ------------------------------------------------------------------------------------- */

void http_exchange_set_request(struct http_exchange *exchange, enum http_request_state state)
{
    static const unsigned allowed[] = {
        [HTTP_REQUEST_HELD] = 1u << HTTP_REQUEST_READING | 1u << HTTP_REQUEST_COLLECTING |
                              1u << HTTP_REQUEST_DISCARDING | 1u << HTTP_REQUEST_DONE,
        [HTTP_REQUEST_READING] =
            1u << HTTP_REQUEST_PAUSED | 1u << HTTP_REQUEST_DISCARDING | 1u << HTTP_REQUEST_DONE,
        [HTTP_REQUEST_PAUSED] =
            1u << HTTP_REQUEST_READING | 1u << HTTP_REQUEST_DISCARDING | 1u << HTTP_REQUEST_DONE,
        [HTTP_REQUEST_COLLECTING] = 1u << HTTP_REQUEST_DISCARDING | 1u << HTTP_REQUEST_DONE,
        [HTTP_REQUEST_DISCARDING] = 1u << HTTP_REQUEST_DONE,
    };
    assert(exchange->request != HTTP_REQUEST_DONE &&
           (allowed[exchange->request] & 1u << state) != 0);
    exchange->request = state;
    exchange->wait_since = uv_now(http_exchange_loop(exchange));
}

/* Input after a broken body is never parsed: `close` ends the exchange first. */
bool http_exchange_wants_body(const struct http_exchange *exchange)
{
    switch (exchange->request) {
    case HTTP_REQUEST_READING:
    case HTTP_REQUEST_COLLECTING:
        return true;
    case HTTP_REQUEST_DISCARDING:
        return !exchange->close;
    default:
        return false;
    }
}

/* The client waits for a word before it sends the body. */
static void send_continue(struct http_exchange *exchange)
{
    const struct http_head *head = &exchange->head;
    size_t rest;
    http_connection_rest(exchange->connection, &rest);
    if (!head->expect_continue || head->minor == 0 || exchange->answer != HTTP_ANSWER_NONE ||
        exchange->body_complete || rest > 0)
        return;
    exchange->continue_sent = true;
    http_stream_write(exchange->connection->stream, continue_head, strlen(continue_head));
}

static bool may_read(const struct http_exchange *exchange)
{
    return exchange->request == HTTP_REQUEST_HELD &&
           (exchange->answer == HTTP_ANSWER_NONE || exchange->answer == HTTP_ANSWER_BEGUN);
}

static void refuse_large(struct http_exchange *exchange)
{
    char message[96];
    snprintf(message, sizeof(message), "the request body is larger than %zu bytes",
             exchange->collected.max);
    http_exchange_refuse(exchange, 413, message);
}

void http_exchange_collect(struct http_exchange *exchange, size_t max_bytes,
                           http_exchange_body_fn *on_body, void *ctx)
{
    if (!may_read(exchange))
        return;
    exchange->on_collected = on_body;
    exchange->body_ctx = ctx;
    buf_init(&exchange->collected, max_bytes);
    if (exchange->head.framing == HTTP_LENGTH && exchange->head.content_length > max_bytes) {
        refuse_large(exchange);
        return;
    }
    send_continue(exchange);
    http_exchange_set_request(exchange, HTTP_REQUEST_COLLECTING);
    http_connection_wake(exchange->connection);
}

void http_exchange_read_body(struct http_exchange *exchange, const struct http_body_events *events,
                             void *ctx)
{
    if (!may_read(exchange))
        return;
    exchange->body_events = events;
    exchange->body_ctx = ctx;
    send_continue(exchange);
    http_exchange_set_request(exchange, HTTP_REQUEST_READING);
    http_connection_wake(exchange->connection);
}

void http_exchange_pause_body(struct http_exchange *exchange)
{
    if (exchange->request == HTTP_REQUEST_READING)
        http_exchange_set_request(exchange, HTTP_REQUEST_PAUSED);
}

void http_exchange_resume_body(struct http_exchange *exchange)
{
    if (exchange->request != HTTP_REQUEST_PAUSED)
        return;
    http_exchange_set_request(exchange, HTTP_REQUEST_READING);
    http_connection_wake(exchange->connection);
}

static int discard(struct http_exchange *exchange, size_t length)
{
    exchange->discarded_bytes += length;
    if (exchange->discarded_bytes <= HTTP_DISCARD_BYTES)
        return 0;
    exchange->close = true;
    return 1;
}

int http_exchange_take_body(struct http_exchange *exchange, const char *bytes, size_t length)
{
    struct http_connection *connection = exchange->connection;
    exchange->body_bytes += length;
    switch (exchange->request) {
    case HTTP_REQUEST_READING:
        exchange->body_events->on_data(exchange, bytes, length, exchange->body_ctx);
        /* The handler may have freed the server, and this exchange with it. */
        return connection->exchange != exchange || exchange->request != HTTP_REQUEST_READING ||
               exchange->answer >= HTTP_ANSWER_CUT;
    case HTTP_REQUEST_COLLECTING:
        if (buf_add(&exchange->collected, bytes, length) == 0)
            return 0;
        refuse_large(exchange);
        return 1;
    case HTTP_REQUEST_DISCARDING:
        return discard(exchange, length);
    default:
        return 1;
    }
}

void http_exchange_take_body_end(struct http_exchange *exchange)
{
    enum http_request_state was = exchange->request;
    http_exchange_set_request(exchange, HTTP_REQUEST_DONE);
    if (was == HTTP_REQUEST_READING)
        exchange->body_events->on_end(exchange, exchange->body_ctx);
    else if (was == HTTP_REQUEST_COLLECTING)
        exchange->on_collected(exchange, exchange->collected.data, exchange->collected.length,
                               exchange->body_ctx);
}

/* --- upgrades --------------------------------------------------------------------------------- */

struct http_stream *http_exchange_take_stream(struct http_exchange *exchange, const char **ret_rest,
                                              size_t *ret_rest_length)
{
    struct http_connection *connection = exchange->connection;
    if (!exchange->head.upgrade || !exchange->body_complete || exchange->answer != HTTP_ANSWER_NONE)
        return NULL;
    *ret_rest = http_connection_rest(connection, ret_rest_length);
    struct http_stream *stream = TAKE_PTR(connection->stream);
    http_stream_read_stop(stream);
    http_stream_set_events(stream, NULL, NULL);
    exchange->answer = HTTP_ANSWER_TAKEN;
    http_connection_wake(connection);
    return stream;
}
