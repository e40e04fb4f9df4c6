/* The answer side of an exchange: heads, framing, the one write of a small answer. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/frame.h"
#include "http/server_internal.h"

#define JSON_TYPE        "application/json"
#define FILE_PIECE_BYTES (32 * 1024)

/* --- head ------------------------------------------------------------------------------------- */

bool http_exchange_set_header(struct http_exchange *exchange, const char *name, const char *value)
{
    return exchange->answer == HTTP_ANSWER_NONE &&
           http_headers_set(&exchange->response.headers, name, value) == 0;
}

bool http_exchange_add_header(struct http_exchange *exchange, const char *name, const char *value)
{
    return exchange->answer == HTTP_ANSWER_NONE &&
           http_headers_add(&exchange->response.headers, name, value) == 0;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", made once a second. */
static const char *http_date(void)
{
    static time_t made;
    static char text[40];
    time_t now = time(NULL);
    if (now != made) {
        struct tm utc;
        gmtime_r(&now, &utc);
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
        made = now;
    }
    return text;
}

/* Will the rest of the request body be short enough to read it only to throw it away? */
static bool can_discard(const struct http_exchange *exchange)
{
    const struct http_head *head = &exchange->head;
    if (exchange->body_complete)
        return true;
    if (head->expect_continue && !exchange->continue_sent && exchange->body_bytes == 0)
        return false; /* nobody knows whether the client will send it */
    return head->framing != HTTP_LENGTH ||
           head->content_length - exchange->body_bytes <= HTTP_DISCARD_BYTES;
}

static bool is_reading(const struct http_exchange *exchange)
{
    return exchange->request == HTTP_REQUEST_READING || exchange->request == HTTP_REQUEST_PAUSED ||
           exchange->request == HTTP_REQUEST_COLLECTING;
}

static void set_framing(struct http_exchange *exchange, int status, enum http_framing framing,
                        uint64_t length)
{
    struct http_head *response = &exchange->response;
    const struct http_head *head = &exchange->head;
    response->status = status;
    response->minor = head->minor;
    response->framing = framing;
    response->content_length = framing == HTTP_LENGTH ? length : 0;
    exchange->mute = !http_response_has_body(head->method, status);
    if (!http_response_has_body("", status))
        response->framing = HTTP_NO_BODY; /* not even a Content-Length */
    else if (response->framing == HTTP_CHUNKED && response->minor == 0)
        response->framing = HTTP_UNTIL_CLOSE;
    exchange->remaining = response->content_length;
    if (!head->keep_alive || response->framing == HTTP_UNTIL_CLOSE ||
        (!is_reading(exchange) && !can_discard(exchange)))
        exchange->close = true;
    response->keep_alive = !exchange->close;
}

/* Appends the head to `out`. False when it cannot be written: the connection is cut then. */
static bool start_answer(struct http_exchange *exchange, int status, enum http_framing framing,
                         uint64_t length, struct buf *out)
{
    set_framing(exchange, status, framing, length);
    if (http_head_write_response(&exchange->response, out) < 0) {
        http_exchange_abort(exchange);
        return false;
    }
    http_headers_done(&exchange->response.headers);
    exchange->answer = HTTP_ANSWER_BEGUN;
    return true;
}

static void add_date(struct http_exchange *exchange)
{
    if (http_headers_find(&exchange->response.headers, "Date") == NULL)
        http_headers_add(&exchange->response.headers, "Date", http_date());
}

/* --- output ----------------------------------------------------------------------------------- */

static void send_parts(struct http_exchange *exchange, const uv_buf_t *parts, unsigned count)
{
    struct http_connection *connection = exchange->connection;
    http_stream_write_parts(connection->stream, parts, count);
    if (http_stream_queued(connection->stream) == 0)
        return;
    if (http_stream_is_full(connection->stream))
        exchange->full = true;
    http_schedule_deadline(&connection->server->schedule, http_connection_deadline(connection));
}

void http_exchange_send_held(struct http_exchange *exchange)
{
    if (exchange->held.length == 0)
        return;
    uv_buf_t part = uv_buf_init(exchange->held.data, (unsigned)exchange->held.length);
    send_parts(exchange, &part, 1);
    buf_done(&exchange->held);
}

/* The answer is complete; what is left of the request is of no interest any more. */
static void finish_answer(struct http_exchange *exchange)
{
    exchange->answer = HTTP_ANSWER_ENDED;
    if (!can_discard(exchange))
        exchange->close = true;
    if (exchange->request < HTTP_REQUEST_DISCARDING)
        http_exchange_set_request(exchange, HTTP_REQUEST_DISCARDING);
    http_connection_wake(exchange->connection);
}

/* --- whole answers ---------------------------------------------------------------------------- */

void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const void *body, size_t length)
{
    if (exchange->answer != HTTP_ANSWER_NONE)
        return;
    if (content_type != NULL)
        http_exchange_set_header(exchange, "Content-Type", content_type);
    add_date(exchange);
    struct buf *head = &exchange->connection->server->scratch;
    buf_clear(head);
    if (!start_answer(exchange, status, HTTP_LENGTH, length, head))
        return;
    struct http_frame frame;
    if (length > 0 && !exchange->mute)
        http_frame_piece(&frame, head, HTTP_LENGTH, body, length);
    else
        http_frame_end(&frame, head, HTTP_LENGTH);
    send_parts(exchange, frame.parts, frame.count);
    finish_answer(exchange);
}

/* Messages may quote what a client sent: anything but printable ASCII is replaced. */
char *http_error_json(const char *code, const char *message)
{
    AUTO_FREE char *clean = mem_dup(message);
    if (!str_is_utf8(clean, strlen(clean)))
        for (char *c = clean; *c != '\0'; c++)
            if (*c < ' ' || *c > '~')
                *c = '?';
    json_t *object = json_pack("{s:s, s:s}", "code", code, "message", clean);
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text != NULL ? text : mem_dup("{}");
}

char *http_refusal_json(int status, const char *message)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {
        {408, "REQUEST_TIMEOUT"}, {413, "REQUEST_TOO_LARGE"},          {431, "HEADERS_TOO_LARGE"},
        {501, "NOT_IMPLEMENTED"}, {505, "HTTP_VERSION_NOT_SUPPORTED"},
    };
    const char *code = "INVALID_REQUEST";
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].status == status)
            code = codes[i].code;
    return http_error_json(code, message);
}

void http_exchange_reply_error(struct http_exchange *exchange, int status, const char *code,
                               const char *format, ...)
{
    char message[ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    AUTO_FREE char *json = http_error_json(code, message);
    http_exchange_reply(exchange, status, JSON_TYPE, json, strlen(json));
}

void http_exchange_refuse(struct http_exchange *exchange, int status, const char *message)
{
    if (exchange->answer != HTTP_ANSWER_NONE) {
        http_exchange_abort(exchange);
        return;
    }
    /* What follows in the input cannot be trusted, or will not come. */
    exchange->close = true;
    http_headers_done(&exchange->response.headers);
    AUTO_FREE char *json = http_refusal_json(status, message);
    http_exchange_reply(exchange, status, JSON_TYPE, json, strlen(json));
}

/* --- streamed answers ------------------------------------------------------------------------- */

void http_exchange_begin_relayed(struct http_exchange *exchange, int status,
                                 enum http_framing framing, uint64_t length)
{
    if (exchange->answer != HTTP_ANSWER_NONE)
        return;
    if (start_answer(exchange, status, framing, length, &exchange->held))
        http_connection_wake(exchange->connection); /* the head goes out even if no body follows */
}

void http_exchange_begin(struct http_exchange *exchange, int status, int64_t length)
{
    if (exchange->answer != HTTP_ANSWER_NONE)
        return;
    add_date(exchange);
    http_exchange_begin_relayed(exchange, status, length < 0 ? HTTP_CHUNKED : HTTP_LENGTH,
                                length < 0 ? 0 : (uint64_t)length);
}

void http_exchange_write(struct http_exchange *exchange, const void *bytes, size_t length)
{
    if (exchange->answer != HTTP_ANSWER_BEGUN || length == 0)
        return;
    enum http_framing framing = exchange->response.framing;
    if (framing == HTTP_LENGTH) {
        if (length > exchange->remaining) {
            http_exchange_abort(exchange);
            return;
        }
        exchange->remaining -= length;
    }
    if (exchange->mute)
        return;
    struct http_frame frame;
    http_frame_piece(&frame, &exchange->held, framing, bytes, length);
    send_parts(exchange, frame.parts, frame.count);
    buf_done(&exchange->held);
}

/* What sendfile() would not take: one piece of the file goes the ordinary way. */
static ssize_t write_file_piece(struct http_exchange *exchange, int fd, uint64_t offset,
                                size_t length)
{
    char bytes[FILE_PIECE_BYTES];
    ssize_t n = pread(fd, bytes, MIN(length, sizeof(bytes)), (off_t)offset);
    if (n < 0)
        return -errno;
    http_exchange_write(exchange, bytes, (size_t)n);
    if (http_stream_queued(exchange->connection->stream) > 0)
        exchange->full = true; /* on_drain comes when the socket has room again */
    return n;
}

ssize_t http_exchange_write_file(struct http_exchange *exchange, int fd, uint64_t offset,
                                 size_t length)
{
    if (exchange->answer != HTTP_ANSWER_BEGUN)
        return -EPIPE;
    if (exchange->response.framing == HTTP_LENGTH && !exchange->mute) {
        length = MIN(length, exchange->remaining);
        http_exchange_send_held(exchange);
        size_t sent = http_stream_send_file(exchange->connection->stream, fd, offset,
                                            MIN(length, (size_t)HTTP_FILE_TURN_BYTES));
        exchange->remaining -= sent;
        if (sent > 0)
            return (ssize_t)sent;
    }
    return write_file_piece(exchange, fd, offset, length);
}

void http_exchange_end(struct http_exchange *exchange)
{
    if (exchange->answer != HTTP_ANSWER_BEGUN)
        return;
    if (exchange->remaining > 0 && !exchange->mute) {
        http_exchange_abort(exchange);
        return;
    }
    struct http_frame frame;
    http_frame_end(&frame, &exchange->held,
                   exchange->mute ? HTTP_NO_BODY : exchange->response.framing);
    if (frame.count > 0)
        send_parts(exchange, frame.parts, frame.count);
    buf_done(&exchange->held);
    finish_answer(exchange);
}

void http_exchange_abort(struct http_exchange *exchange)
{
    if (exchange->answer >= HTTP_ANSWER_CUT)
        return;
    exchange->answer = HTTP_ANSWER_CUT;
    http_connection_wake(exchange->connection);
}

bool http_exchange_retract(struct http_exchange *exchange)
{
    if (exchange->answer != HTTP_ANSWER_BEGUN || exchange->held.length == 0)
        return false;
    buf_done(&exchange->held);
    http_head_done(&exchange->response);
    exchange->answer = HTTP_ANSWER_NONE;
    return true;
}

bool http_exchange_is_begun(const struct http_exchange *exchange)
{
    return exchange->answer != HTTP_ANSWER_NONE;
}

bool http_exchange_is_full(const struct http_exchange *exchange)
{
    return exchange->answer == HTTP_ANSWER_BEGUN && exchange->full;
}
