/* The raw look at the lines of a head, trailer or multipart part head, before anything is made of
 * them: every byte is checked against the grammar as it arrives, so that a line two readers could
 * end or split at different places is refused at its first wrong byte, however the input was cut.
 *
 * Refused: bare CR, bare LF, control characters, folded lines (leading white space), an empty field
 * name, a byte in a name that is not a token character (space before the colon among them), a field
 * line without a colon. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* What a parser still has to eat. */
struct http_input {
    const char *bytes;
    size_t length;
};

static inline void http_input_skip(struct http_input *in, size_t count)
{
    in->bytes += count;
    in->length -= count;
}

enum http_scan_state {
    HTTP_SCAN_START_LINE,
    HTTP_SCAN_LINE_BEGIN,
    HTTP_SCAN_NAME,
    HTTP_SCAN_VALUE,
    HTTP_SCAN_LINE_CR, /* CR seen at the end of a line: LF must follow */
    HTTP_SCAN_LAST_CR, /* the same for the empty line that ends the block */
    HTTP_SCAN_DONE,
};

struct http_scan {
    const char *what; /* "head", for messages; a literal */
    enum http_scan_state state;
    uint32_t bytes;
    uint32_t bytes_max;
    uint16_t fields;
    uint16_t fields_max;
};

/* start_line: the block begins with one line that is not a field. */
void http_scan_init(struct http_scan *scan, const char *what, bool start_line, uint32_t bytes_max,
                    uint16_t fields_max);

/* Returns how many bytes belong to the block: all of them unless it ended (state HTTP_SCAN_DONE).
 * Negative with ERR_INVALID or ERR_LIMIT on a violation. */
ssize_t http_scan_feed(struct http_scan *scan, const char *bytes, size_t length, struct error *err);

/* 1*tchar of RFC 9110. */
bool http_is_token(const char *bytes, size_t length);
/* Nothing but visible characters, space, tab and bytes from 0x80 up. */
bool http_is_field_text(const char *bytes, size_t length);
