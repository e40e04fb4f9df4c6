/* Event streams as the published clients read them: one JSON object per event on one line, then an
 * empty line; no "data:" prefix. Every event carries "type" and "timestamp". The text may be any
 * bytes: what is not UTF-8 becomes U+FFFD. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/server.h"

/* Sets the stream's headers and begins a 200 answer of unknown length. */
void http_sse_begin(struct http_exchange *exchange);

/* Append one event to `out` (for tests and spools) ... */
int http_sse_format_text(struct buf *out, const char *type, const char *text, size_t length);
/* ... with members that are numbers, behind the text (which is left out when it is empty) ... */
struct http_sse_number {
    const char *key; /* a literal */
    int64_t value;
};
int http_sse_format(struct buf *out, const char *type, const char *text, size_t length,
                    const struct http_sse_number *numbers, size_t count);
/* ... or send it. */
void http_sse_send_text(struct http_exchange *exchange, const char *type, const char *text,
                        size_t length);
/* execution_time is left out when it is 0. */
void http_sse_send_complete(struct http_exchange *exchange, int64_t execution_time_ms);
/* traceback holds one line, or none when NULL. */
void http_sse_send_error(struct http_exchange *exchange, const char *ename, const char *evalue,
                         const char *traceback);
