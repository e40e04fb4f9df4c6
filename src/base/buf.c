#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_CAPACITY 64

/* Shared by all empty buffers and never written to: every write goes through buf_reserve(). */
static char empty[1];

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.data = empty, .max = max};
}

void buf_done(struct buf *buf)
{
    if (buf->capacity > 0)
        free(buf->data);
    buf_init(buf, buf->max);
}

int buf_reserve(struct buf *buf, size_t length)
{
    /* One byte is for the NUL, so SIZE_MAX itself is out of reach whatever max says. */
    size_t limit = MIN(buf->max, SIZE_MAX - 1);
    if (length > limit - buf->length)
        return -EMSGSIZE;
    size_t needed = buf->length + length + 1;
    if (needed <= buf->capacity)
        return 0;
    size_t doubled = buf->capacity > limit / 2 ? limit + 1 : buf->capacity * 2;
    size_t capacity = MAX(doubled, (size_t)FIRST_CAPACITY);
    capacity = MIN(capacity, limit + 1);
    capacity = MAX(capacity, needed);
    buf->data = mem_resize_array(buf->capacity > 0 ? buf->data : NULL, capacity, 1);
    buf->capacity = capacity;
    buf->data[buf->length] = '\0';
    return 0;
}

void buf_commit(struct buf *buf, size_t length)
{
    if (length == 0)
        return;
    assert(buf->capacity > buf->length && length < buf->capacity - buf->length);
    buf->length += length;
    buf->data[buf->length] = '\0';
}

int buf_add(struct buf *buf, const void *bytes, size_t length)
{
    if (length == 0)
        return 0;
    int r = buf_reserve(buf, length);
    if (r < 0)
        return r;
    memcpy(buf->data + buf->length, bytes, length);
    buf_commit(buf, length);
    return 0;
}

int buf_add_str(struct buf *buf, const char *string)
{
    return buf_add(buf, string, strlen(string));
}

int buf_add_char(struct buf *buf, char c)
{
    return buf_add(buf, &c, 1);
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return -EMSGSIZE; /* the text is over INT_MAX, so it is over any sensible max */
    int r = buf_reserve(buf, (size_t)length);
    if (r < 0)
        return r;
    va_start(args, format);
    vsnprintf(buf->data + buf->length, (size_t)length + 1, format, args);
    va_end(args);
    buf_commit(buf, (size_t)length);
    return 0;
}

void buf_clear(struct buf *buf)
{
    buf->length = 0;
    if (buf->capacity > 0)
        buf->data[0] = '\0';
}

void buf_consume(struct buf *buf, size_t length)
{
    assert(length <= buf->length);
    if (length == 0)
        return;
    buf->length -= length;
    memmove(buf->data, buf->data + length, buf->length + 1);
}

char *buf_take(struct buf *buf)
{
    char *data = buf->capacity > 0 ? buf->data : mem_dup("");
    buf_init(buf, buf->max);
    return data;
}
