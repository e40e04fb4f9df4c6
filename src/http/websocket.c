/* One timer serves every deadline of a socket: it is set for the earliest, and looks at all of them
 * when it fires. It also stands in for "soon": input that could not be given to the owner at once
 * is taken up by a timer that is due now, since nothing calls back from inside a call.
 *
 * When the peer breaks the protocol the owner hears of it at once, but the connection lives on for
 * a while without one: closing it with unread input would reset it, and the peer might lose the
 * close frame that says what was wrong. */
#include "http/websocket.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MESSAGE_BYTES (1024 * 1024)
#define PING_MS       30000
#define SILENCE_MS    60000
#define STALL_MS      10000
#define CLOSE_MS      5000
/* Input that waits for a paused owner: what came with the request, or one read. */
#define HELD_MAX (256 * 1024)
#define NEVER    UINT64_MAX

enum socket_state {
    SOCKET_OPEN,
    SOCKET_CLOSING,   /* our close is sent, the peer's is awaited; messages are dropped */
    SOCKET_LINGERING, /* no owner any more; everything is dropped until the peer has gone */
    SOCKET_GONE,
};

struct http_websocket {
    struct http_stream *stream;
    const struct http_websocket_events *events;
    void *ctx;
    struct http_websocket_limits limits;
    enum socket_state state;
    bool paused;
    struct http_websocket_reader reader;
    struct buf held; /* input not yet parsed; nothing is read while there is some */
    uv_timer_t timer;
    uint64_t heard_ms; /* since then there is silence */
    uint64_t ping_at_ms;
    uint64_t closing_ms; /* when the close was sent */
    bool owes_pong;      /* a ping came while the output was full; only the last one counts */
    size_t pong_length;
    char pong[HTTP_WEBSOCKET_CONTROL_MAX];
};

static uint64_t now_ms(const struct http_websocket *socket)
{
    return uv_now(socket->timer.loop);
}

/* --- end -------------------------------------------------------------------------------------- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct http_websocket *socket = handle->data;
    http_websocket_reader_done(&socket->reader);
    buf_done(&socket->held);
    free(socket);
}

static void tell_owner(struct http_websocket *socket, int code)
{
    if (socket->state != SOCKET_LINGERING)
        socket->events->on_close(socket->ctx, code);
}

/* The memory lives until the loop has closed the timer, so functions on the stack may look at the
 * state afterwards. */
static void end(struct http_websocket *socket, int code,
                void (*close_stream)(struct http_stream *stream))
{
    close_stream(TAKE_PTR(socket->stream));
    uv_close((uv_handle_t *)&socket->timer, on_timer_closed);
    tell_owner(socket, code);
    socket->state = SOCKET_GONE;
}

static void cut(struct http_websocket *socket)
{
    end(socket, HTTP_WEBSOCKET_NO_CLOSE, http_stream_close);
}

/* --- deadlines -------------------------------------------------------------------------------- */

static uint64_t silence_deadline(const struct http_websocket *socket)
{
    bool waiting = socket->state == SOCKET_OPEN && !socket->paused;
    return waiting ? socket->heard_ms + socket->limits.silence_ms : NEVER;
}

static uint64_t stall_deadline(const struct http_websocket *socket)
{
    if (http_stream_queued(socket->stream) == 0)
        return NEVER;
    return http_stream_last_write_ms(socket->stream) + socket->limits.stall_ms;
}

/* Counted from when the close frame left, however much was before it. */
static uint64_t close_deadline(const struct http_websocket *socket)
{
    if (socket->state == SOCKET_OPEN || http_stream_queued(socket->stream) > 0)
        return NEVER;
    return MAX(socket->closing_ms, http_stream_last_write_ms(socket->stream)) +
           socket->limits.close_ms;
}

static bool has_input(const struct http_websocket *socket)
{
    return socket->held.length > 0 && !socket->paused;
}

static void on_timer(uv_timer_t *timer);

static void schedule(struct http_websocket *socket)
{
    if (socket->state == SOCKET_GONE)
        return;
    uint64_t now = now_ms(socket);
    uint64_t due = MIN(silence_deadline(socket), stall_deadline(socket));
    due = MIN(due, close_deadline(socket));
    if (socket->state == SOCKET_OPEN)
        due = MIN(due, socket->ping_at_ms);
    if (has_input(socket))
        due = now;
    assert(due != NEVER); /* open: a ping; else the close, or the stall before it */
    uv_timer_start(&socket->timer, on_timer, due > now ? due - now : 0, 0);
}

/* --- output ----------------------------------------------------------------------------------- */

static void send_frame(struct http_websocket *socket, enum http_websocket_opcode opcode,
                       const uv_buf_t *parts, unsigned count)
{
    uint8_t head[HTTP_WEBSOCKET_HEAD_MAX];
    uv_buf_t all[1 + HTTP_WEBSOCKET_PARTS_MAX];
    uint64_t length = 0;
    assert(count <= HTTP_WEBSOCKET_PARTS_MAX);
    for (unsigned i = 0; i < count; i++) {
        all[1 + i] = parts[i];
        length += parts[i].len;
    }
    size_t head_length = http_websocket_write_head(opcode, length, head);
    all[0] = uv_buf_init((char *)head, (unsigned)head_length);
    http_stream_write_parts(socket->stream, all, 1 + count);
    if (http_stream_queued(socket->stream) > 0)
        schedule(socket);
}

static uv_buf_t part_of(const char *bytes, size_t length)
{
    /* uv_buf_t is not const, but nothing writes through it here. */
    return (uv_buf_t){.base = (char *)(uintptr_t)bytes, .len = length};
}

void http_websocket_send_text(struct http_websocket *socket, const char *text, size_t length)
{
    uv_buf_t part = part_of(text, length);
    if (socket->state == SOCKET_OPEN)
        send_frame(socket, HTTP_WEBSOCKET_TEXT, &part, 1);
}

void http_websocket_send_binary(struct http_websocket *socket, const uv_buf_t *parts,
                                unsigned count)
{
    if (socket->state == SOCKET_OPEN)
        send_frame(socket, HTTP_WEBSOCKET_BINARY, parts, count);
}

bool http_websocket_is_full(const struct http_websocket *socket)
{
    return socket->state == SOCKET_OPEN && http_stream_is_full(socket->stream);
}

/* HTTP_WEBSOCKET_NO_CODE sends an empty frame. */
static void send_close(struct http_websocket *socket, int code, const char *reason)
{
    char bytes[HTTP_WEBSOCKET_CONTROL_MAX + 1] = {(char)(code >> 8), (char)(code & 0xff)};
    snprintf(bytes + 2, sizeof(bytes) - 2, "%s", reason); /* and no more than fits */
    size_t length = strlen(bytes + 2);
    uv_buf_t part = part_of(bytes, code == HTTP_WEBSOCKET_NO_CODE ? 0 : 2 + length);
    socket->closing_ms = now_ms(socket);
    send_frame(socket, HTTP_WEBSOCKET_CLOSE, &part, 1);
}

static void send_pong(struct http_websocket *socket)
{
    uv_buf_t part = part_of(socket->pong, socket->pong_length);
    socket->owes_pong = false;
    send_frame(socket, HTTP_WEBSOCKET_PONG, &part, 1);
}

/* --- input ------------------------------------------------------------------------------------ */

static void update_reading(struct http_websocket *socket)
{
    if (socket->state == SOCKET_GONE)
        return;
    if (socket->paused || socket->held.length > 0)
        http_stream_read_stop(socket->stream);
    else
        http_stream_read_start(socket->stream);
}

static void fail(struct http_websocket *socket, int code)
{
    if (socket->state != SOCKET_OPEN) { /* our close was sent already */
        cut(socket);
        return;
    }
    const char *reason = "not allowed by the protocol";
    if (code == HTTP_WEBSOCKET_BAD_TEXT)
        reason = "text that is not UTF-8";
    else if (code == HTTP_WEBSOCKET_TOO_LARGE)
        reason = "message too large";
    send_close(socket, code, reason);
    http_stream_shutdown(socket->stream);
    tell_owner(socket, code);
    socket->state = SOCKET_LINGERING;
    socket->paused = false;
}

static void handle_ping(struct http_websocket *socket, const struct http_websocket_event *event)
{
    memcpy(socket->pong, event->bytes, event->length);
    socket->pong_length = event->length;
    socket->owes_pong = http_stream_is_full(socket->stream);
    if (!socket->owes_pong)
        send_pong(socket);
}

static void handle_event(struct http_websocket *socket, const struct http_websocket_event *event)
{
    bool open = socket->state == SOCKET_OPEN;
    switch (event->opcode) {
    case HTTP_WEBSOCKET_CLOSE:
        if (open)
            send_close(socket, event->code, "");
        end(socket, event->code, http_stream_close_after_write);
        break;
    case HTTP_WEBSOCKET_PING:
        if (open)
            handle_ping(socket, event);
        break;
    case HTTP_WEBSOCKET_PONG:
        break; /* that it came is all there is to know */
    default:
        if (open)
            socket->events->on_message(socket->ctx, event->opcode == HTTP_WEBSOCKET_TEXT,
                                       event->bytes, event->length);
        break;
    }
}

/* How many bytes were taken; fewer than there were when the owner paused or the socket has ended.
 */
static size_t parse(struct http_websocket *socket, const char *bytes, size_t length)
{
    const char *at = bytes;
    size_t left = length;
    while (socket->state <= SOCKET_CLOSING && !socket->paused) {
        struct http_websocket_event event;
        int r = http_websocket_reader_next(&socket->reader, &at, &left, &event);
        if (r == 0)
            break;
        if (r > 0)
            handle_event(socket, &event);
        else
            fail(socket, -r);
    }
    return socket->state >= SOCKET_LINGERING ? length : length - left;
}

static void parse_held(struct http_websocket *socket)
{
    buf_consume(&socket->held, parse(socket, socket->held.data, socket->held.length));
    if (socket->held.length == 0)
        buf_done(&socket->held);
    update_reading(socket);
}

static void on_data(void *ctx, const char *bytes, size_t length)
{
    struct http_websocket *socket = ctx;
    socket->heard_ms = now_ms(socket);
    size_t taken = parse(socket, bytes, length);
    if (taken < length && buf_add(&socket->held, bytes + taken, length - taken) < 0)
        cut(socket); /* cannot be: nothing is read while something is held */
    update_reading(socket);
    schedule(socket);
}

/* --- what sets it going ----------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct http_websocket *socket = timer->data;
    uint64_t now = now_ms(socket);
    if (now >= silence_deadline(socket) || now >= stall_deadline(socket) ||
        now >= close_deadline(socket)) {
        cut(socket);
        return;
    }
    if (has_input(socket))
        parse_held(socket);
    if (socket->state == SOCKET_OPEN && now >= socket->ping_at_ms) {
        socket->ping_at_ms = now + socket->limits.ping_ms;
        send_frame(socket, HTTP_WEBSOCKET_PING, NULL, 0);
    }
    schedule(socket);
}

/* A peer that has closed its direction can never close the WebSocket properly. */
static void on_end(void *ctx)
{
    cut(ctx);
}

static void on_error(void *ctx, int status)
{
    (void)status;
    cut(ctx);
}

static void on_drain(void *ctx)
{
    struct http_websocket *socket = ctx;
    if (socket->state == SOCKET_OPEN && socket->owes_pong)
        send_pong(socket);
    if (socket->state == SOCKET_OPEN)
        socket->events->on_drain(socket->ctx);
    schedule(socket);
}

static const struct http_stream_events stream_events = {
    .on_data = on_data,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_error = on_error,
};

/* --- for the owner ---------------------------------------------------------------------------- */

void http_websocket_pause(struct http_websocket *socket)
{
    if (socket->state != SOCKET_OPEN || socket->paused)
        return;
    socket->paused = true;
    update_reading(socket);
}

void http_websocket_resume(struct http_websocket *socket)
{
    if (!socket->paused)
        return;
    socket->paused = false;
    socket->heard_ms = now_ms(socket);
    update_reading(socket);
    schedule(socket);
}

void http_websocket_close(struct http_websocket *socket, int code, const char *reason)
{
    if (socket->state != SOCKET_OPEN)
        return;
    send_close(socket, code, reason);
    socket->state = SOCKET_CLOSING;
    socket->paused = false;
    update_reading(socket);
    schedule(socket);
}

static struct http_websocket_limits effective(const struct http_websocket_limits *limits)
{
    struct http_websocket_limits ret = {0};
    if (limits != NULL)
        ret = *limits;
    if (ret.message_bytes == 0)
        ret.message_bytes = MESSAGE_BYTES;
    if (ret.ping_ms == 0)
        ret.ping_ms = PING_MS;
    if (ret.silence_ms == 0)
        ret.silence_ms = SILENCE_MS;
    if (ret.stall_ms == 0)
        ret.stall_ms = STALL_MS;
    if (ret.close_ms == 0)
        ret.close_ms = CLOSE_MS;
    return ret;
}

static void send_head(struct http_websocket *socket, const char *accept)
{
    char head[256];
    int length = snprintf(head, sizeof(head),
                          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                          "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                          accept);
    http_stream_write(socket->stream, head, (size_t)length);
}

struct http_websocket *http_websocket_start(struct http_exchange *exchange,
                                            const struct http_websocket_limits *limits,
                                            const struct http_websocket_events *events, void *ctx)
{
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    char accept[HTTP_WEBSOCKET_ACCEPT_LEN + 1];
    http_websocket_accept_value(http_headers_find(headers, "Sec-WebSocket-Key"), accept);
    uv_loop_t *loop = http_exchange_loop(exchange);
    const char *rest;
    size_t rest_length;
    struct http_stream *stream = http_exchange_take_stream(exchange, &rest, &rest_length);
    assert(stream != NULL); /* http_websocket_check() has looked at all that it depends on */

    struct http_websocket *socket = mem_alloc(sizeof(*socket));
    socket->stream = stream;
    socket->events = events;
    socket->ctx = ctx;
    socket->limits = effective(limits);
    http_websocket_reader_init(&socket->reader, socket->limits.message_bytes);
    buf_init(&socket->held, HELD_MAX);
    uv_timer_init(loop, &socket->timer);
    socket->timer.data = socket;
    socket->heard_ms = now_ms(socket);
    socket->ping_at_ms = socket->heard_ms + socket->limits.ping_ms;
    http_stream_set_events(stream, &stream_events, socket);
    send_head(socket, accept);
    buf_add(&socket->held, rest, rest_length); /* fits: the server holds less */
    update_reading(socket);
    schedule(socket);
    return socket;
}
