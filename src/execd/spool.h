/* The recorded output of one command: the newest bytes of both its outputs, in the order in which
 * they came, so that it can be read again from any place that is still kept.
 *
 * A byte's offset counts all bytes of the command before it, of both outputs. What is kept is
 * always the range from the oldest offset to the total; older bytes are evicted.
 *
 * The first few KiB are in memory. Beyond that there is a file without a name in the first of
 * TMPDIR, /tmp, /var/tmp and / that can be written, used as a ring of `limit_bytes`, so that it
 * never grows beyond that on any file system. Where no file can be made or written, a small ring in
 * memory takes its place: recording never fails, it only keeps less.
 *
 * The file is inside the sandbox, whose programs may be able to write to it: what is read back may
 * be anything, and is checked before it is believed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "execd/lines.h"
#include "execd/process.h"

#define EXECD_SPOOL_BYTES_MIN     (64 * 1024)
#define EXECD_SPOOL_BYTES_MAX     (1024 * 1024 * 1024)
#define EXECD_SPOOL_BYTES_DEFAULT (16 * 1024 * 1024)
/* Of the ring in memory. */
#define EXECD_SPOOL_MEMORY_BYTES (64 * 1024)

struct execd_spool;

/* A place from which lines can be split, and what the splitters hold there. */
struct execd_spool_point {
    uint64_t offset;
    uint64_t raw;                    /* for the spool itself */
    struct execd_line_mark marks[2]; /* by enum execd_output */
};

/* Where a reader is. Only `offset` is for others to look at. */
struct execd_spool_cursor {
    uint64_t offset;
    uint64_t record; /* raw position of the record that holds the byte at `offset` */
    size_t skip;     /* bytes of it before that byte */
};

/* limit_bytes bounds the file, a few bytes of administration per record included. `directory` (may
 * be NULL) is tried first. */
struct execd_spool *execd_spool_new(uint64_t limit_bytes, const char *directory);
struct execd_spool *execd_spool_free(struct execd_spool *spool); /* accepts NULL, returns NULL */

void execd_spool_append(struct execd_spool *spool, enum execd_output which, const char *bytes,
                        size_t length);

/* All of these take NULL for a spool to which nothing was ever appended. */
uint64_t execd_spool_total(const struct execd_spool *spool);
uint64_t execd_spool_oldest(const struct execd_spool *spool);
uint64_t execd_spool_file_bytes(const struct execd_spool *spool); /* 0: it has no file */
size_t execd_spool_memory_bytes(const struct execd_spool *spool);

/* oldest <= offset <= total. 0, or -EIO when the file has been tampered with. */
int execd_spool_seek(struct execd_spool *spool, uint64_t offset, struct execd_spool_cursor *ret);

/* The next bytes, all of one output, at most max, borrowed until the next call of any spool; moves
 * the cursor. Their number, 0 at the end (more may come later), -ESTALE when what the cursor was
 * about to read has been evicted, -EIO when it cannot be read back. */
ssize_t execd_spool_read(struct execd_spool *spool, struct execd_spool_cursor *cursor, size_t max,
                         enum execd_output *ret_which, const char **ret_bytes);

/* The latest place to start from for somebody who wants all lines that end behind `offset`, whole:
 * every such line that is kept from its beginning begins at or after it. Lines that end before, and
 * possibly some without their beginning, are found on the way. */
void execd_spool_find_point(const struct execd_spool *spool, uint64_t offset,
                            struct execd_spool_point *ret);
