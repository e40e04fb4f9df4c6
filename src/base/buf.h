/* A growing byte buffer that cannot be created without its maximum.
 *
 * Invariants: data[length] is always '\0' once anything was added (so data is a C string when no
 * NUL was added); length <= max; on failure nothing was added. An empty buffer owns no memory:
 * data is then "" and must not be written to.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct buf {
    char *data;
    size_t length;
    size_t capacity; /* bytes allocated, 0 when data is the shared empty string */
    size_t max;
};

void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf); /* frees; the buffer is empty and usable again, same max */

/* All of these return 0, or -EMSGSIZE when the result would pass max (nothing is added then). */
int buf_add(struct buf *buf, const void *bytes, size_t length);
int buf_add_str(struct buf *buf, const char *string);
int buf_add_char(struct buf *buf, char c);
int buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Room for at least `length` more bytes at data + length; then buf_commit() what was written. */
int buf_reserve(struct buf *buf, size_t length);
void buf_commit(struct buf *buf, size_t length);

void buf_clear(struct buf *buf);                  /* length = 0, memory kept */
void buf_consume(struct buf *buf, size_t length); /* drop from the front */
char *buf_take(struct buf *buf);                  /* caller frees; never NULL; buffer is emptied */
