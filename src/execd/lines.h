/* Output bytes to lines, as the event stream wants them: "\n", "\r" and "\r\n" end a line, also
 * when "\r\n" arrives in two pieces; an empty line is handed on as the text "\n". Pure: no I/O.
 *
 * A line longer than EXECD_LINE_MAX is handed on in pieces, never in the middle of a UTF-8
 * character, so that a program that never ends its line cannot make us keep more than that.
 *
 * Every line is handed on because of one byte: its "\n" or "\r", or, for a piece of a long line,
 * the first byte that did not fit. The `end` of a line is the position behind that byte. So when
 * two splitters share one count of bytes (standard output and error of one program), no two lines
 * have the same end, and ends only grow in the order in which lines are handed on: "all lines that
 * end behind N" is a sharp question. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define EXECD_LINE_MAX (1024 * 1024)

/* `text` is borrowed during the call, not NUL-terminated, and never empty, but for one case: what
 * is left of a line that began before execd_lines_resume() may be nothing. */
typedef void execd_line_fn(void *ctx, const char *text, size_t length, uint64_t end);

/* Where a splitter stands, without the bytes it holds. */
struct execd_line_mark {
    uint64_t start;  /* with length > 0: a position at or before the unfinished line's first byte */
    uint32_t length; /* bytes of the unfinished line, or of its unfinished piece */
    bool after_cr;
    char tail[3]; /* the last bytes of it */
};

struct execd_lines {
    struct buf partial; /* the line that has not ended yet */
    size_t max;         /* EXECD_LINE_MAX; smaller in tests, at least 4 */
    size_t missing;     /* bytes of that line from before execd_lines_resume() */
    char tail[3];       /* the last of those */
    bool after_cr;      /* a "\n" now belongs to the "\r" before it */
};

void execd_lines_init(struct execd_lines *lines, size_t max);
void execd_lines_done(struct execd_lines *lines);

/* Go on where another splitter was, whose bytes are gone: lines end and are cut as they would have
 * been, only the first has lost its beginning (`missing` tells how much, also inside on_line). What
 * this one held before is dropped. */
void execd_lines_resume(struct execd_lines *lines, const struct execd_line_mark *mark);

/* `position` is that of the first byte. */
void execd_lines_feed(struct execd_lines *lines, const char *bytes, size_t length,
                      uint64_t position, execd_line_fn *on_line, void *ctx);
/* The output ended: hand on a last line without an end, if there is one. */
void execd_lines_finish(struct execd_lines *lines, uint64_t end, execd_line_fn *on_line, void *ctx);

/* The mark of a splitter with this maximum that is fed the same. A zeroed mark is that of a new
 * one. Much cheaper: it looks only for the last line end. */
void execd_line_mark_feed(struct execd_line_mark *mark, size_t max, const char *bytes,
                          size_t length, uint64_t position);
