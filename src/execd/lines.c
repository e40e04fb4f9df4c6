/* Lines that lie whole in one read, which is nearly all of them, are handed on from the reader's
 * buffer without a copy; only the rest of a read is kept. */
#include "execd/lines.h"

#include <stdint.h>
#include <string.h>

void execd_lines_init(struct execd_lines *lines, size_t max)
{
    *lines = (struct execd_lines){.max = max};
    buf_init(&lines->partial, max);
}

void execd_lines_done(struct execd_lines *lines)
{
    buf_done(&lines->partial);
}

static void emit(const char *text, size_t length, execd_line_fn *on_line, void *ctx)
{
    if (length == 0)
        on_line(ctx, "\n", 1);
    else
        on_line(ctx, text, length);
}

/* How many of these bytes to hand on so that no UTF-8 character is cut: all of them, or up to three
 * fewer when they end inside one. Bytes that are not UTF-8 anyway are cut where they are. */
static size_t whole_characters(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back < length; back++) {
        uint8_t byte = (uint8_t)text[length - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        size_t needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return needs > back ? length - back : length;
    }
    return length;
}

/* Keep bytes of a line that has not ended; what passes the maximum is handed on first. */
static void keep(struct execd_lines *lines, const char *bytes, size_t length,
                 execd_line_fn *on_line, void *ctx)
{
    struct buf *partial = &lines->partial;
    while (length > 0) {
        size_t room = lines->max - partial->length;
        if (room == 0) {
            size_t whole = whole_characters(partial->data, partial->length);
            on_line(ctx, partial->data, whole);
            buf_consume(partial, whole);
            continue;
        }
        size_t part = length < room ? length : room;
        buf_add(partial, bytes, part); /* fits: part <= max - length */
        bytes += part;
        length -= part;
    }
}

static const char *find_end(const char *bytes, const char *end)
{
    while (bytes < end && *bytes != '\n' && *bytes != '\r')
        bytes++;
    return bytes;
}

void execd_lines_feed(struct execd_lines *lines, const char *bytes, size_t length,
                      execd_line_fn *on_line, void *ctx)
{
    const char *end = bytes + length;
    while (bytes < end) {
        if (lines->after_cr) {
            lines->after_cr = false;
            if (*bytes == '\n') {
                bytes++;
                continue;
            }
        }
        const char *stop = find_end(bytes, end);
        size_t text = (size_t)(stop - bytes);
        if (stop == end || lines->partial.length > 0 || text > lines->max)
            keep(lines, bytes, text, on_line, ctx);
        if (stop == end)
            return;
        if (lines->partial.length > 0) {
            emit(lines->partial.data, lines->partial.length, on_line, ctx);
            buf_done(&lines->partial); /* a long line's memory is not kept for the next */
        } else {
            emit(bytes, text, on_line, ctx);
        }
        lines->after_cr = *stop == '\r';
        bytes = stop + 1;
    }
}

void execd_lines_finish(struct execd_lines *lines, execd_line_fn *on_line, void *ctx)
{
    if (lines->partial.length > 0)
        on_line(ctx, lines->partial.data, lines->partial.length);
    buf_done(&lines->partial);
    lines->after_cr = false;
}
