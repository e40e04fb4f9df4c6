/* One client that reads the output of a run (a command's or a session's) as events: `init`, `ping`
 * every three seconds, one `stdout` or `stderr` per line, then exactly one of `execution_complete`
 * and `error`, right after which the answer ends. */
#pragma once

#include "execd/process.h"
#include "execd/spool.h"
#include "http/server.h"

struct execd_event_stream;

struct execd_event_stream_events {
    void (*on_drain)(void *ctx); /* the client takes more again */
    void (*on_close)(void *ctx); /* the client is gone or has everything; the pointer is dead */
};

/* Begins the answer. on_close comes exactly once, never inside a call. */
struct execd_event_stream *execd_event_stream_start(struct http_exchange *exchange,
                                                    const char *init_text,
                                                    const struct execd_event_stream_events *events,
                                                    void *ctx);

void execd_event_stream_output(struct execd_event_stream *stream, enum execd_output which,
                               const char *bytes, size_t length);
bool execd_event_stream_is_full(const struct execd_event_stream *stream); /* wait for on_drain */

/* Each `stdout` and `stderr` carries "offset": the line's end (see execd/lines.h) in the output of
 * both together. The last line of standard output, when nothing ended it, counts as ended by one
 * byte behind all output, that of standard error by a second one. So every line has an offset of
 * its own, and offsets grow: a client that comes back needs to know only the last one it saw. */
void execd_event_stream_show_offsets(struct execd_event_stream *stream);

/* Before any output: it goes on at this point, and lines that end at or before `after` are not
 * sent. `told`: the client knows that output before the point is missing; else a line that has lost
 * its beginning is preceded by a `gap` event. */
void execd_event_stream_resume(struct execd_event_stream *stream,
                               const struct execd_spool_point *point, uint64_t after, bool told);

/* Output is lost: send what there is of unfinished lines and {"type":"gap","bytes":N,"offset":M},
 * then go on at this point, which is M. */
void execd_event_stream_skip(struct execd_event_stream *stream,
                             const struct execd_spool_point *point);

/* Bytes of output so far: the offset of the byte that is to come next. */
uint64_t execd_event_stream_position(const struct execd_event_stream *stream);

/* The last lines and the terminal event; the answer ends. */
void execd_event_stream_finish(struct execd_event_stream *stream,
                               const struct execd_process_result *result);

/* "exit status 7", "signal: killed", or why it never ran, in the words that clients know; "" after
 * success. */
#define EXECD_RESULT_TEXT_MAX ERROR_MESSAGE_MAX
void execd_result_describe(const struct execd_process_result *result,
                           char ret[EXECD_RESULT_TEXT_MAX]);
