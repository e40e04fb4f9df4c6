/* Any bytes in any pieces: the lines are the same as for the bytes in one piece, none is empty or
 * too long, and the window of lines never gives more than it was given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "execd/files_range.h"
#include "execd/lines.h"

#define LINE_MAX_BYTES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void collect(void *ctx, const char *text, size_t length)
{
    require(length > 0 && length <= LINE_MAX_BYTES);
    require(buf_add(ctx, text, length) == 0 && buf_add_char(ctx, '|') == 0);
}

static void split(const char *bytes, size_t length, size_t piece, struct buf *out)
{
    struct execd_lines lines;
    execd_lines_init(&lines, LINE_MAX_BYTES);
    for (size_t i = 0; i < length; i += piece)
        execd_lines_feed(&lines, bytes + i, length - i < piece ? length - i : piece, collect, out);
    execd_lines_finish(&lines, collect, out);
    execd_lines_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const char *bytes = (const char *)data + 3;
    size_t length = size - 3;
    struct buf whole;
    struct buf pieces;
    struct buf window_text;
    buf_init(&whole, 4 * length + 16);
    buf_init(&pieces, 4 * length + 16);
    buf_init(&window_text, length + 2);
    split(bytes, length, length + 1, &whole);
    split(bytes, length, data[0] % 7 + 1U, &pieces);
    require(whole.length == pieces.length && memcmp(whole.data, pieces.data, whole.length) == 0);

    struct execd_line_window window;
    execd_line_window_init(&window, data[1] + 1U, data[2] + 1U);
    execd_line_window_feed(&window, bytes, length, &window_text);
    require(window_text.length <= length);
    buf_done(&whole);
    buf_done(&pieces);
    buf_done(&window_text);
    return 0;
}
