/* Any bytes in any pieces: the lines and their ends are the same as for the bytes in one piece,
 * none is empty or too long, a mark says what the splitter holds, and the window of lines never
 * gives more than it was given. */
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

struct lines_seen {
    struct buf text;
    uint64_t end; /* of the last one */
};

static void collect(void *ctx, const char *text, size_t length, uint64_t end)
{
    struct lines_seen *seen = ctx;
    require(length > 0 && length <= LINE_MAX_BYTES);
    require(end > seen->end);
    seen->end = end;
    require(buf_add(&seen->text, text, length) == 0 &&
            buf_printf(&seen->text, "|%llu|", (unsigned long long)end) == 0);
}

static void split(const char *bytes, size_t length, size_t piece, struct lines_seen *seen)
{
    struct execd_lines lines;
    struct execd_line_mark mark = {0};
    execd_lines_init(&lines, LINE_MAX_BYTES);
    for (size_t i = 0; i < length; i += piece) {
        size_t part = length - i < piece ? length - i : piece;
        execd_lines_feed(&lines, bytes + i, part, i, collect, seen);
        execd_line_mark_feed(&mark, LINE_MAX_BYTES, bytes + i, part, i);
        require(mark.length == lines.partial.length && mark.after_cr == lines.after_cr);
    }
    execd_lines_finish(&lines, length + 1, collect, seen);
    execd_lines_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const char *bytes = (const char *)data + 3;
    size_t length = size - 3;
    struct lines_seen whole = {0};
    struct lines_seen pieces = {0};
    struct buf window_text;
    buf_init(&whole.text, 32 * length + 64);
    buf_init(&pieces.text, 32 * length + 64);
    buf_init(&window_text, length + 2);
    split(bytes, length, length + 1, &whole);
    split(bytes, length, data[0] % 7 + 1U, &pieces);
    require(whole.text.length == pieces.text.length &&
            memcmp(whole.text.data, pieces.text.data, whole.text.length) == 0);

    struct execd_line_window window;
    execd_line_window_init(&window, data[1] + 1U, data[2] + 1U);
    execd_line_window_feed(&window, bytes, length, &window_text);
    require(window_text.length <= length);
    buf_done(&whole.text);
    buf_done(&pieces.text);
    buf_done(&window_text);
    return 0;
}
