#include "execd/event_stream.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/lines.h"
#include "http/sse.h"

#define PING_MS 3000
/* Events of one read are sent together. A line of EXECD_LINE_MAX grows to six times its size when
 * every byte needs an escape, plus the frame of the event. */
#define EVENTS_SEND_BYTES (64 * 1024)
#define EVENTS_MAX        (EVENTS_SEND_BYTES + 6 * EXECD_LINE_MAX + 1024)

struct execd_event_stream {
    struct http_exchange *exchange;
    struct execd_event_stream_events events;
    void *ctx;
    uv_timer_t ping;
    struct execd_lines lines[2]; /* by enum execd_output */
    struct buf formatted;        /* events not sent yet */
    enum execd_output which;     /* of the line being formatted */
    bool show_offsets;
    bool gap_told;
    uint64_t position; /* of the next byte of output */
    uint64_t after;    /* lines that end here or before are not sent */
};

static void free_stream(uv_handle_t *handle)
{
    struct execd_event_stream *stream = handle->data;
    execd_lines_done(&stream->lines[EXECD_STDOUT]);
    execd_lines_done(&stream->lines[EXECD_STDERR]);
    buf_done(&stream->formatted);
    free(stream);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct execd_event_stream *stream = ctx;
    uv_close((uv_handle_t *)&stream->ping, free_stream);
    stream->events.on_close(stream->ctx);
}

static void on_drain(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct execd_event_stream *stream = ctx;
    stream->events.on_drain(stream->ctx);
}

static void on_ping(uv_timer_t *timer)
{
    struct execd_event_stream *stream = timer->data;
    if (!http_exchange_is_full(stream->exchange))
        http_sse_send_text(stream->exchange, "ping", "pong", 4);
}

static void send_events(struct execd_event_stream *stream)
{
    if (stream->formatted.length == 0)
        return;
    http_exchange_write(stream->exchange, stream->formatted.data, stream->formatted.length);
    buf_done(&stream->formatted);
}

static void format_gap(struct execd_event_stream *stream, uint64_t bytes, uint64_t offset)
{
    const struct http_sse_number numbers[] = {
        {"bytes", (int64_t)bytes},
        {"offset", (int64_t)offset},
    };
    http_sse_format(&stream->formatted, "gap", NULL, 0, numbers, ARRAY_LEN(numbers));
}

static void format_line(struct execd_event_stream *stream, const char *text, size_t length,
                        uint64_t end)
{
    const struct http_sse_number offset = {"offset", (int64_t)end};
    http_sse_format(&stream->formatted, stream->which == EXECD_STDOUT ? "stdout" : "stderr", text,
                    length, &offset, stream->show_offsets ? 1 : 0);
}

static void on_line(void *ctx, const char *text, size_t length, uint64_t end)
{
    struct execd_event_stream *stream = ctx;
    if (end <= stream->after)
        return;
    size_t missing = stream->lines[stream->which].missing;
    if (missing > 0 && !stream->gap_told)
        format_gap(stream, missing, end);
    if (length > 0)
        format_line(stream, text, length, end);
    if (stream->formatted.length >= EVENTS_SEND_BYTES)
        send_events(stream);
}

struct execd_event_stream *execd_event_stream_start(struct http_exchange *exchange,
                                                    const char *init_text,
                                                    const struct execd_event_stream_events *events,
                                                    void *ctx)
{
    struct execd_event_stream *stream = mem_alloc(sizeof(*stream));
    stream->exchange = exchange;
    stream->events = *events;
    stream->ctx = ctx;
    uv_timer_init(http_exchange_loop(exchange), &stream->ping);
    stream->ping.data = stream;
    execd_lines_init(&stream->lines[EXECD_STDOUT], EXECD_LINE_MAX);
    execd_lines_init(&stream->lines[EXECD_STDERR], EXECD_LINE_MAX);
    buf_init(&stream->formatted, EVENTS_MAX);
    http_exchange_on_close(exchange, on_close, stream);
    http_exchange_on_drain(exchange, on_drain, stream);
    http_sse_begin(exchange);
    http_sse_format_text(&stream->formatted, "init", init_text, strlen(init_text));
    http_sse_format_text(&stream->formatted, "ping", "pong", 4);
    send_events(stream);
    uv_timer_start(&stream->ping, on_ping, PING_MS, PING_MS);
    return stream;
}

void execd_event_stream_output(struct execd_event_stream *stream, enum execd_output which,
                               const char *bytes, size_t length)
{
    stream->which = which;
    execd_lines_feed(&stream->lines[which], bytes, length, stream->position, on_line, stream);
    stream->position += length;
    send_events(stream);
}

void execd_event_stream_show_offsets(struct execd_event_stream *stream)
{
    stream->show_offsets = true;
}

uint64_t execd_event_stream_position(const struct execd_event_stream *stream)
{
    return stream->position;
}

static void go_on_at(struct execd_event_stream *stream, const struct execd_spool_point *point)
{
    stream->position = point->offset;
    for (size_t i = 0; i < ARRAY_LEN(stream->lines); i++)
        execd_lines_resume(&stream->lines[i], &point->marks[i]);
}

void execd_event_stream_resume(struct execd_event_stream *stream,
                               const struct execd_spool_point *point, uint64_t after, bool told)
{
    stream->after = after;
    stream->gap_told = told;
    go_on_at(stream, point);
}

/* Unfinished lines at the end of what is known of them: standard output's first. */
static void finish_lines(struct execd_event_stream *stream)
{
    for (size_t i = 0; i < ARRAY_LEN(stream->lines); i++) {
        stream->which = i == EXECD_STDOUT ? EXECD_STDOUT : EXECD_STDERR;
        execd_lines_finish(&stream->lines[i], stream->position + 1 + i, on_line, stream);
    }
}

void execd_event_stream_skip(struct execd_event_stream *stream,
                             const struct execd_spool_point *point)
{
    bool show_offsets = stream->show_offsets;
    stream->show_offsets = false; /* they did not end there */
    finish_lines(stream);
    stream->show_offsets = show_offsets;
    format_gap(stream, point->offset - stream->position, point->offset);
    send_events(stream);
    stream->gap_told = true;
    go_on_at(stream, point);
}

bool execd_event_stream_is_full(const struct execd_event_stream *stream)
{
    return http_exchange_is_full(stream->exchange);
}

/* --- the end ---------------------------------------------------------------------------------- */

void execd_result_describe(const struct execd_process_result *result,
                           char ret[EXECD_RESULT_TEXT_MAX])
{
    ret[0] = '\0';
    if (!result->started) {
        snprintf(ret, EXECD_RESULT_TEXT_MAX, "%s", result->error.message);
    } else if (result->exit.signal != 0) {
        const char *name = sigdescr_np(result->exit.signal);
        if (name == NULL)
            snprintf(ret, EXECD_RESULT_TEXT_MAX, "signal: signal %d", result->exit.signal);
        else
            snprintf(ret, EXECD_RESULT_TEXT_MAX, "signal: %s", name);
        for (char *c = ret; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
    } else if (result->exit.code != 0) {
        snprintf(ret, EXECD_RESULT_TEXT_MAX, "exit status %d", result->exit.code);
    }
}

static void send_result(struct execd_event_stream *stream,
                        const struct execd_process_result *result)
{
    char traceback[EXECD_RESULT_TEXT_MAX];
    char code[16] = "-1";
    execd_result_describe(result, traceback);
    if (traceback[0] == '\0') {
        http_sse_send_complete(stream->exchange, (int64_t)result->duration_ms);
        return;
    }
    if (result->started && result->exit.signal == 0)
        snprintf(code, sizeof(code), "%d", result->exit.code);
    http_sse_send_error(stream->exchange, "CommandExecError", result->started ? code : traceback,
                        traceback);
}

void execd_event_stream_finish(struct execd_event_stream *stream,
                               const struct execd_process_result *result)
{
    uv_timer_stop(&stream->ping);
    finish_lines(stream);
    send_events(stream);
    send_result(stream, result);
    http_exchange_end(stream->exchange);
}
