/* Clients that get a command's events. Each has its own place in the output.
 *
 * A reader that is up to date is fed what comes, directly; once its client takes no more, or when
 * it came late, it reads the record instead, a bounded piece per turn of the loop, until it is up
 * to date again. A foreground command is held up meanwhile. A background command is not: what its
 * readers have not read when it is evicted is replaced by one `gap` event. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/command_internal.h"
#include "execd/reply.h"
#include "execd/request.h"

/* Events are up to some eighty times as long as the output they tell of (empty lines), so a reader
 * is asked after every few KiB whether its client is full. */
#define FEED_BYTES     (8 * 1024)
#define FEEDS_PER_TURN 32

struct execd_command_reader {
    TAILQ_ENTRY(execd_command_reader) link;
    struct execd_command *command;
    struct execd_event_stream *stream;
    struct execd_spool_cursor cursor;
    bool has_cursor; /* else the cursor is to be looked up from the stream's position */
    bool finished;   /* the terminal event was sent */
    uv_idle_t turn;
};

static bool is_behind(const struct execd_command_reader *reader)
{
    return execd_event_stream_position(reader->stream) < execd_spool_total(reader->command->spool);
}

/* Hold up a foreground command as long as one of its readers is not ready for more. */
static void hold_or_go_on(struct execd_command *command)
{
    if (command->background || command->process == NULL)
        return;
    const struct execd_command_reader *reader;
    TAILQ_FOREACH(reader, &command->readers, link)
    {
        if (is_behind(reader) || execd_event_stream_is_full(reader->stream)) {
            execd_process_pause(command->process);
            return;
        }
    }
    execd_process_resume(command->process);
}

static void finish(struct execd_command_reader *reader)
{
    struct execd_process_result result;
    execd_command_result(reader->command, &result);
    reader->finished = true;
    execd_event_stream_finish(reader->stream, &result);
}

/* --- reading the record ----------------------------------------------------------------------- */

/* What the reader was about to read is gone. */
static void skip_gap(struct execd_command_reader *reader, bool unreadable)
{
    const struct execd_spool *spool = reader->command->spool;
    struct execd_spool_point point;
    uint64_t next = unreadable ? execd_spool_total(spool) : execd_spool_oldest(spool);
    execd_spool_find_point(spool, next, &point);
    if (point.offset < next) { /* only when the record cannot be read: there is no going back */
        point.offset = next;
        point.marks[0] = point.marks[1] = (struct execd_line_mark){0};
    }
    execd_event_stream_skip(reader->stream, &point);
    reader->has_cursor = false;
}

static void read_piece(struct execd_command_reader *reader)
{
    struct execd_spool *spool = reader->command->spool;
    uint64_t position = execd_event_stream_position(reader->stream);
    if (position < execd_spool_oldest(spool)) {
        skip_gap(reader, false);
        return;
    }
    if (!reader->has_cursor && execd_spool_seek(spool, position, &reader->cursor) < 0) {
        skip_gap(reader, true);
        return;
    }
    reader->has_cursor = true;
    enum execd_output which;
    const char *bytes;
    ssize_t n = execd_spool_read(spool, &reader->cursor, FEED_BYTES, &which, &bytes);
    if (n > 0)
        execd_event_stream_output(reader->stream, which, bytes, (size_t)n);
    else
        skip_gap(reader, true);
}

static void on_turn(uv_idle_t *idle)
{
    struct execd_command_reader *reader = idle->data;
    for (int i = 0; i < FEEDS_PER_TURN && is_behind(reader); i++) {
        if (execd_event_stream_is_full(reader->stream)) {
            uv_idle_stop(idle); /* until on_drain */
            return;
        }
        read_piece(reader);
    }
    if (is_behind(reader))
        return;
    uv_idle_stop(idle);
    if (reader->command->process == NULL)
        finish(reader);
    else
        hold_or_go_on(reader->command);
}

static void on_drain(void *ctx)
{
    struct execd_command_reader *reader = ctx;
    if (reader->finished)
        return;
    if (is_behind(reader))
        uv_idle_start(&reader->turn, on_turn);
    else
        hold_or_go_on(reader->command);
}

/* --- as it comes ------------------------------------------------------------------------------ */

static void feed(struct execd_command_reader *reader, enum execd_output which, const char *bytes,
                 size_t length)
{
    while (length > 0 && !execd_event_stream_is_full(reader->stream)) {
        size_t part = MIN(length, (size_t)FEED_BYTES);
        execd_event_stream_output(reader->stream, which, bytes, part);
        bytes += part;
        length -= part;
    }
    reader->has_cursor = false;
}

void execd_command_feed_readers(struct execd_command *command, enum execd_output which,
                                const char *bytes, size_t length, uint64_t offset)
{
    struct execd_command_reader *reader;
    TAILQ_FOREACH(reader, &command->readers, link)
    {
        if (execd_event_stream_position(reader->stream) == offset)
            feed(reader, which, bytes, length);
    }
    hold_or_go_on(command);
}

void execd_command_finish_readers(struct execd_command *command)
{
    struct execd_command_reader *reader;
    TAILQ_FOREACH(reader, &command->readers, link)
    {
        if (!is_behind(reader))
            finish(reader);
    }
}

/* --- coming and going ------------------------------------------------------------------------- */

static void free_reader(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_close(void *ctx)
{
    struct execd_command_reader *reader = ctx;
    struct execd_command *command = reader->command;
    struct execd *execd = command->execd;
    TAILQ_REMOVE(&command->readers, reader, link);
    command->reader_count--;
    execd->commands->streams--;
    uv_close((uv_handle_t *)&reader->turn, free_reader);
    hold_or_go_on(command); /* nobody listens: it runs on, recorded */
    execd_command_release(command);
    execd_end_check(execd);
}

void execd_command_attach(struct execd_command *command, struct http_exchange *exchange,
                          uint64_t after, bool show_offsets)
{
    static const struct execd_event_stream_events events = {
        .on_drain = on_drain,
        .on_close = on_close,
    };
    struct execd_command_reader *reader = mem_alloc(sizeof(*reader));
    reader->command = command;
    uv_idle_init(http_exchange_loop(exchange), &reader->turn);
    reader->turn.data = reader;
    TAILQ_INSERT_TAIL(&command->readers, reader, link);
    command->reader_count++;
    command->execd->commands->streams++;
    execd_command_hold(command);

    struct execd_spool_point point;
    execd_spool_find_point(command->spool, after, &point);
    reader->stream = execd_event_stream_start(exchange, command->id, &events, reader);
    if (show_offsets)
        execd_event_stream_show_offsets(reader->stream);
    execd_event_stream_resume(reader->stream, &point, after,
                              after < execd_spool_oldest(command->spool));
    if (is_behind(reader) || command->process == NULL)
        uv_idle_start(&reader->turn, on_turn);
    hold_or_go_on(command);
}

/* --- GET /command/{id}/stream ----------------------------------------------------------------- */

/* The largest offset a client can have seen: see execd_event_stream_show_offsets(). */
static uint64_t largest_offset(const struct execd_command *command)
{
    return execd_spool_total(command->spool) + (command->process == NULL ? 2 : 0);
}

static int read_offset(const struct execd_command *command, const char *text, uint64_t *ret,
                       struct error *err)
{
    uint64_t max = largest_offset(command);
    if (text == NULL || str_to_u64(text, 0, max, ret) == 0)
        return 0;
    return error_set(err, ERR_INVALID,
                     "`offset` must be a whole number from 0 to %" PRIu64
                     ", where the output ends now, not \"%.40s\"",
                     max, text);
}

void execd_command_handle_stream(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *ctx)
{
    const struct execd *execd = ctx;
    struct execd_command *command = execd_command_find_route(execd, exchange, match);
    if (command == NULL)
        return;
    struct url_query query;
    if (!execd_request_query(exchange, &query))
        return;
    struct error err = ERROR_INIT;
    uint64_t after = 0;
    int r = read_offset(command, url_query_find(&query, "offset"), &after, &err);
    url_query_done(&query);
    if (r == 0 && command->reader_count >= EXECD_COMMAND_STREAMS_MAX)
        r = error_set(&err, ERR_UNAVAILABLE,
                      "%d clients read the events of this command, which is the limit",
                      EXECD_COMMAND_STREAMS_MAX);
    if (r < 0) {
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
        return;
    }
    uint64_t oldest = execd_spool_oldest(command->spool);
    if (after < oldest) {
        char bytes[24];
        snprintf(bytes, sizeof(bytes), "%" PRIu64, oldest - after);
        http_exchange_set_header(exchange, EXECD_EVICTED_HEADER, bytes);
    }
    execd_command_attach(command, exchange, after, true);
}
