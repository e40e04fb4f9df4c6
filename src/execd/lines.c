/* Lines that lie whole in one read, which is nearly all of them, are handed on from the reader's
 * buffer without a copy; only the rest of a read is kept. */
#include "execd/lines.h"

#include <assert.h>
#include <string.h>

#define TAIL_BYTES sizeof(((struct execd_line_mark *)NULL)->tail)

void execd_lines_init(struct execd_lines *lines, size_t max)
{
    assert(max > TAIL_BYTES);
    *lines = (struct execd_lines){.max = max};
    buf_init(&lines->partial, max);
}

void execd_lines_done(struct execd_lines *lines)
{
    buf_done(&lines->partial);
}

void execd_lines_resume(struct execd_lines *lines, const struct execd_line_mark *mark)
{
    buf_done(&lines->partial);
    lines->missing = mark->length;
    lines->after_cr = mark->after_cr;
    memcpy(lines->tail, mark->tail, TAIL_BYTES);
}

/* --- pieces of long lines --------------------------------------------------------------------- */

/* How many of the last bytes are the beginning of a UTF-8 character that is not complete: 0 to 3.
 * Bytes that are not UTF-8 anyway count as complete. */
static size_t cut_character(const char last[TAIL_BYTES])
{
    for (size_t back = 1; back <= TAIL_BYTES; back++) {
        uint8_t byte = (uint8_t)last[TAIL_BYTES - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        size_t needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return needs > back ? back : 0;
    }
    return 0;
}

/* Move the end of `bytes` into a tail of the last bytes seen. */
static void push_tail(char tail[TAIL_BYTES], const char *bytes, size_t length)
{
    if (length >= TAIL_BYTES) {
        memcpy(tail, bytes + length - TAIL_BYTES, TAIL_BYTES);
        return;
    }
    memmove(tail, tail + length, TAIL_BYTES - length);
    memcpy(tail + TAIL_BYTES - length, bytes, length);
}

/* Hand on what is kept, but for a character that is not complete. */
static void hand_on_piece(struct execd_lines *lines, uint64_t end, execd_line_fn *on_line,
                          void *ctx)
{
    struct buf *partial = &lines->partial;
    push_tail(lines->tail, partial->data, partial->length);
    size_t carry = cut_character(lines->tail);
    size_t whole = partial->length > carry ? partial->length - carry : 0;
    size_t carry_missing = carry - (partial->length - whole);
    lines->missing -= carry_missing;
    on_line(ctx, partial->data, whole, end);
    lines->missing = carry_missing;
    buf_consume(partial, whole);
}

/* Keep bytes of a line that has not ended; what passes the maximum is handed on first. */
static void keep(struct execd_lines *lines, const char *bytes, size_t length, uint64_t position,
                 execd_line_fn *on_line, void *ctx)
{
    struct buf *partial = &lines->partial;
    while (length > 0) {
        size_t room = lines->max - lines->missing - partial->length;
        if (room == 0) {
            hand_on_piece(lines, position + 1, on_line, ctx);
            continue;
        }
        size_t part = length < room ? length : room;
        buf_add(partial, bytes, part); /* fits: part <= max - length */
        bytes += part;
        position += part;
        length -= part;
    }
}

/* --- lines ------------------------------------------------------------------------------------ */

static void hand_on_kept(struct execd_lines *lines, uint64_t end, execd_line_fn *on_line, void *ctx)
{
    on_line(ctx, lines->partial.data, lines->partial.length, end);
    lines->missing = 0;
    buf_done(&lines->partial); /* a long line's memory is not kept for the next */
}

static bool is_kept(const struct execd_lines *lines)
{
    return lines->partial.length > 0 || lines->missing > 0;
}

static const char *find_end(const char *bytes, const char *end)
{
    while (bytes < end && *bytes != '\n' && *bytes != '\r')
        bytes++;
    return bytes;
}

void execd_lines_feed(struct execd_lines *lines, const char *bytes, size_t length,
                      uint64_t position, execd_line_fn *on_line, void *ctx)
{
    const char *begin = bytes;
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
        if (stop == end || is_kept(lines) || text > lines->max)
            keep(lines, bytes, text, position + (size_t)(bytes - begin), on_line, ctx);
        if (stop == end)
            return;
        uint64_t line_end = position + (size_t)(stop - begin) + 1;
        if (is_kept(lines))
            hand_on_kept(lines, line_end, on_line, ctx);
        else if (text == 0)
            on_line(ctx, "\n", 1, line_end);
        else
            on_line(ctx, bytes, text, line_end);
        lines->after_cr = *stop == '\r';
        bytes = stop + 1;
    }
}

void execd_lines_finish(struct execd_lines *lines, uint64_t end, execd_line_fn *on_line, void *ctx)
{
    if (is_kept(lines))
        hand_on_kept(lines, end, on_line, ctx);
    lines->after_cr = false;
}

/* --- marks ------------------------------------------------------------------------------------ */

/* As keep(), counting only. */
static void mark_keep(struct execd_line_mark *mark, size_t max, const char *bytes, size_t length,
                      uint64_t position)
{
    size_t taken = 0;
    while (taken < length) {
        size_t room = max - mark->length;
        if (room == 0) {
            size_t carry = cut_character(mark->tail);
            /* Carried bytes that came in an earlier piece: the old start is too early, not wrong.
             */
            if (carry <= taken)
                mark->start = position + taken - carry;
            mark->length = (uint32_t)carry;
            continue;
        }
        size_t part = length - taken < room ? length - taken : room;
        if (mark->length == 0)
            mark->start = position + taken;
        push_tail(mark->tail, bytes + taken, part);
        mark->length += (uint32_t)part;
        taken += part;
    }
}

void execd_line_mark_feed(struct execd_line_mark *mark, size_t max, const char *bytes,
                          size_t length, uint64_t position)
{
    if (bytes == NULL || length == 0)
        return;
    const char *newline = memrchr(bytes, '\n', length);
    const char *from = newline != NULL ? newline + 1 : bytes;
    const char *cr = memrchr(from, '\r', length - (size_t)(from - bytes));
    const char *last = cr != NULL ? cr : newline;
    if (last == NULL) {
        mark->after_cr = false;
        mark_keep(mark, max, bytes, length, position);
        return;
    }
    /* A "\n" right after a "\r" leaves the same state as any other line end. */
    size_t before = (size_t)(last - bytes) + 1;
    *mark = (struct execd_line_mark){.after_cr = *last == '\r' && before == length};
    mark_keep(mark, max, bytes + before, length - before, position + before);
}
