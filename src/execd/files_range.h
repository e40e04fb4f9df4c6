/* Which part of a file a client wants: byte ranges and lines. Pure: no I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The first range of "bytes=a-b", "bytes=a-" or "bytes=-n" within a file of `size` bytes, cut to
 * its end. -EINVAL when malformed, -ERANGE when none of it is in the file. *ret_last is inclusive.
 */
int execd_range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_last);

/* Lines `offset` (from 1) to offset + limit - 1 of the bytes fed, joined by "\n", each without the
 * "\n" or "\r\n" (at the end of the file also "\r") it ends with. A line of any length passes
 * through; nothing is kept but these few words. */
struct execd_line_window {
    uint64_t skip;  /* lines still to be passed over */
    uint64_t limit; /* lines still to be given, the current one included */
    bool in_line;   /* some bytes of the current line were seen */
    bool joined;    /* a "\n" comes before the next line */
    bool cr;        /* a "\r" was seen that may belong to the line's end */
};

void execd_line_window_init(struct execd_line_window *window, uint64_t offset, uint64_t limit);

/* Append what is wanted of these bytes to `out`, which has room for length + 2 more. True when
 * nothing more is wanted. */
bool execd_line_window_feed(struct execd_line_window *window, const char *bytes, size_t length,
                            struct buf *out);
