/* Output bytes to lines, as the event stream wants them: "\n", "\r" and "\r\n" end a line, also
 * when
 * "\r\n" arrives in two pieces; an empty line is handed on as the text "\n". Pure: no I/O.
 *
 * A line longer than EXECD_LINE_MAX is handed on in pieces, never in the middle of a UTF-8
 * character, so that a program that never ends its line cannot make us keep more than that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define EXECD_LINE_MAX (1024 * 1024)

typedef void execd_line_fn(void *ctx, const char *text, size_t length);

struct execd_lines {
    struct buf partial; /* the line that has not ended yet */
    size_t max;         /* EXECD_LINE_MAX; smaller in tests */
    bool after_cr;      /* a "\n" now belongs to the "\r" before it */
};

void execd_lines_init(struct execd_lines *lines, size_t max);
void execd_lines_done(struct execd_lines *lines);

/* `text` is borrowed during the call, never empty and not NUL-terminated. */
void execd_lines_feed(struct execd_lines *lines, const char *bytes, size_t length,
                      execd_line_fn *on_line, void *ctx);
/* The output ended: hand on a last line without an end, if there is one. */
void execd_lines_finish(struct execd_lines *lines, execd_line_fn *on_line, void *ctx);
