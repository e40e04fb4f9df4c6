#include "execd/files_range.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

/* Digits up to `length`, or *ret_absent when there are none. */
static int parse_position(const char *text, size_t length, bool *ret_absent, uint64_t *ret)
{
    *ret_absent = length == 0;
    if (length == 0)
        return 0;
    AUTO_FREE char *digits = mem_dup_n(text, length);
    int r = str_to_u64(digits, 0, UINT64_MAX, ret);
    if (r == -ERANGE) { /* beyond any file, but well-formed */
        *ret = UINT64_MAX;
        r = 0;
    }
    return r;
}

int execd_range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_last)
{
    if (strncasecmp(header, "bytes=", 6) != 0)
        return -EINVAL;
    const char *text = header + 6;
    text += strspn(text, " \t");
    size_t length = strcspn(text, ", \t");
    const char *dash = memchr(text, '-', length);
    if (dash == NULL)
        return -EINVAL;
    uint64_t first = 0;
    uint64_t last = 0;
    bool no_first;
    bool no_last;
    if (parse_position(text, (size_t)(dash - text), &no_first, &first) < 0 ||
        parse_position(dash + 1, (size_t)(text + length - dash - 1), &no_last, &last) < 0)
        return -EINVAL;
    if ((no_first && no_last) || (!no_first && !no_last && last < first))
        return -EINVAL;
    if (no_first) { /* the last n bytes */
        if (last == 0 || size == 0)
            return -ERANGE;
        first = last < size ? size - last : 0;
        last = size - 1;
    }
    if (first >= size)
        return -ERANGE;
    *ret_first = first;
    *ret_last = no_last || last >= size ? size - 1 : last;
    return 0;
}

void execd_line_window_init(struct execd_line_window *window, uint64_t offset, uint64_t limit)
{
    *window = (struct execd_line_window){.skip = offset - 1, .limit = limit};
}

static void begin_line(struct execd_line_window *window, struct buf *out)
{
    if (window->in_line)
        return;
    window->in_line = true;
    if (window->joined)
        buf_add_char(out, '\n');
    window->joined = true;
}

static void add_text(struct execd_line_window *window, const char *text, size_t length,
                     struct buf *out)
{
    if (length == 0)
        return;
    if (window->cr)
        buf_add_char(out, '\r'); /* it was text after all */
    window->cr = text[length - 1] == '\r';
    buf_add(out, text, length - window->cr);
}

bool execd_line_window_feed(struct execd_line_window *window, const char *bytes, size_t length,
                            struct buf *out)
{
    const char *end = bytes + length;
    while (bytes < end && window->limit > 0) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline != NULL ? newline : end;
        if (window->skip == 0) {
            begin_line(window, out);
            add_text(window, bytes, (size_t)(stop - bytes), out);
        }
        if (newline == NULL)
            return false;
        if (window->skip > 0) {
            window->skip--;
        } else {
            window->limit--;
            window->in_line = false;
            window->cr = false;
        }
        bytes = newline + 1;
    }
    return window->limit == 0;
}
