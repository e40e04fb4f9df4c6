/* A range header, a size, a window of lines and some text: a range lies within the file and means
 * what it says, and the window gives the same lines as a plain search for them, whatever the pieces
 * in which the text comes. Dates and tags of conditional requests are read, too. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/conditions.h"
#include "execd/files_range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_range(const char *text, uint64_t size)
{
    uint64_t first = 0;
    uint64_t last = 0;
    int r = execd_range_parse(text, size, &first, &last);
    require(r == 0 || r == -EINVAL || r == -ERANGE);
    if (r < 0)
        return;
    require(first <= last && last < size);
    /* Written out again it is the same. */
    char again[64];
    uint64_t first2 = 0;
    uint64_t last2 = 0;
    snprintf(again, sizeof(again), "bytes=%llu-%llu", (unsigned long long)first,
             (unsigned long long)last);
    require(execd_range_parse(again, size, &first2, &last2) == 0);
    require(first2 == first && last2 == last);
}

static void check_conditions(const char *text)
{
    static const char *const names[] = {"If-Match", "If-None-Match", "If-Modified-Since",
                                        "If-Unmodified-Since", "If-Range"};
    const struct execd_version version = {.etag = "\"tag\"", .modified = 784111777};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct http_headers headers;
        http_headers_init(&headers);
        if (http_headers_add(&headers, names[i], text) == 0) {
            int status = execd_conditions_check(&headers, &version);
            require(status == 0 || status == 304 || status == 412);
            execd_conditions_allow_range(&headers, &version);
        }
        http_headers_done(&headers);
    }
}

/* The slow and simple way: line by line. */
static void expected_lines(const char *text, size_t length, uint64_t offset, uint64_t limit,
                           struct buf *out)
{
    uint64_t number = 1;
    const char *end = text + length;
    for (const char *at = text; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        size_t line = (size_t)(stop - at);
        if (line > 0 && at[line - 1] == '\r')
            line--;
        if (number >= offset && number - offset < limit) {
            if (number > offset)
                buf_add_char(out, '\n');
            buf_add(out, at, line);
        }
        at = newline != NULL ? newline + 1 : end;
    }
}

static void check_lines(const char *text, size_t length, uint64_t offset, uint64_t limit,
                        size_t piece)
{
    struct buf expected;
    struct buf got;
    struct execd_line_window window;
    buf_init(&expected, length + 2);
    buf_init(&got, 2 * length + 2);
    expected_lines(text, length, offset, limit, &expected);
    execd_line_window_init(&window, offset, limit);
    for (size_t at = 0; at < length; at += piece) {
        size_t part = MIN(piece, length - at);
        struct buf out;
        buf_init(&out, part + 2);
        bool over = execd_line_window_feed(&window, text + at, part, &out);
        buf_add(&got, out.data, out.length);
        buf_done(&out);
        if (over)
            break;
    }
    require(got.length == expected.length && memcmp(got.data, expected.data, got.length) == 0);
    buf_done(&expected);
    buf_done(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    AUTO_FREE char *text = mem_dup_n((const char *)data + 4, size - 4);
    uint64_t file_size = (uint64_t)data[0] << (data[1] % 57);
    check_range(text, file_size);
    check_conditions(text);
    check_lines(text, size - 4, data[1] % 8 + 1U, data[2] % 8 + 1U, data[3] % 16 + 1U);
    return 0;
}
