/* The line splitter: a table of inputs, each fed whole, byte by byte and cut at every point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/macros.h"
#include "execd/lines.h"

/* Lines are collected as "<a><b>". */
static void collect(void *ctx, const char *text, size_t length)
{
    struct buf *out = ctx;
    assert_true(length > 0);
    assert_int_equal(buf_add_char(out, '<'), 0);
    assert_int_equal(buf_add(out, text, length), 0);
    assert_int_equal(buf_add_char(out, '>'), 0);
}

static void check_pieces(const char *input, const size_t *cuts, size_t cut_count, size_t max,
                         const char *expected)
{
    struct buf out;
    struct execd_lines lines;
    size_t from = 0;
    buf_init(&out, 64 * 1024);
    execd_lines_init(&lines, max);
    for (size_t i = 0; i <= cut_count; i++) {
        size_t to = i < cut_count ? cuts[i] : strlen(input);
        execd_lines_feed(&lines, input + from, to - from, collect, &out);
        from = to;
    }
    execd_lines_finish(&lines, collect, &out);
    assert_string_equal(out.data, expected);
    execd_lines_done(&lines);
    buf_done(&out);
}

static void check(const char *input, size_t max, const char *expected)
{
    size_t length = strlen(input);
    check_pieces(input, NULL, 0, max, expected);
    for (size_t a = 0; a <= length; a++) {
        for (size_t b = a; b <= length; b++)
            check_pieces(input, (const size_t[]){a, b}, 2, max, expected);
    }
    size_t cuts[64];
    assert_true(length <= ARRAY_LEN(cuts));
    for (size_t i = 0; i < length; i++)
        cuts[i] = i;
    check_pieces(input, cuts, length, max, expected);
}

static void test_line_ends(void **state)
{
    (void)state;
    static const struct {
        const char *input;
        const char *expected;
    } cases[] = {
        {"", ""},
        {"a", "<a>"},
        {"a\n", "<a>"},
        {"a\nb", "<a><b>"},
        {"a\n\nb\n", "<a><\n><b>"},
        {"\n", "<\n>"},
        {"\n\n", "<\n><\n>"},
        {"a\r\nb\r\n", "<a><b>"},
        {"a\rb", "<a><b>"},
        {"10%\r20%\r100%\n", "<10%><20%><100%>"},
        {"\r\n", "<\n>"},
        {"\r\r\n", "<\n><\n>"},
        {"a\n\rb", "<a><\n><b>"},
        {"a\r\n\r\nb", "<a><\n><b>"},
        {"\ra", "<\n><a>"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(cases[i].input, EXECD_LINE_MAX, cases[i].expected);
}

static void test_long_lines_are_split(void **state)
{
    (void)state;
    check("abcdefgh\n", 8, "<abcdefgh>"); /* exactly the maximum: no empty line after it */
    check("abcdefgh", 8, "<abcdefgh>");
    check("abcdefghi\nj\n", 8, "<abcdefgh><i><j>");
    check("abcdefghijklmnopq", 8, "<abcdefgh><ijklmnop><q>");
    check("abcdefghijklmnop\r\nq", 8, "<abcdefgh><ijklmnop><q>");
}

static void test_characters_are_not_split(void **state)
{
    (void)state;
    check("abcdefg\xc3\xa4"
          "b",
          8,
          "<abcdefg><\xc3\xa4"
          "b>");
    check("abcde\xe2\x82\xac"
          "b\n",
          8, "<abcde\xe2\x82\xac><b>");
    check("abcdef\xe2\x82\xac\n", 8, "<abcdef><\xe2\x82\xac>");
    check("abcde\xf0\x9f\x98\x80\n", 8, "<abcde><\xf0\x9f\x98\x80>");
    /* Not UTF-8 at all: cut somewhere, nothing lost, nothing kept for ever. */
    check("\x80\x80\x80\x80\x80\x80\x80\x80\x80", 8, "<\x80\x80\x80\x80\x80\x80\x80\x80><\x80>");
}

/* A line that never ends is handed on while it comes, and never more than the maximum is kept. */
static void count(void *ctx, const char *text, size_t length)
{
    (void)text;
    assert_true(length <= EXECD_LINE_MAX);
    *(size_t *)ctx += length;
}

static void test_endless_line(void **state)
{
    (void)state;
    char piece[65536];
    memset(piece, 'x', sizeof(piece));
    struct execd_lines lines;
    size_t seen = 0;
    execd_lines_init(&lines, EXECD_LINE_MAX);
    for (int i = 0; i < 64; i++) { /* 4 MiB */
        execd_lines_feed(&lines, piece, sizeof(piece), count, &seen);
        assert_true(lines.partial.length <= EXECD_LINE_MAX);
    }
    assert_int_equal(seen, 3 * EXECD_LINE_MAX);
    execd_lines_finish(&lines, count, &seen);
    assert_int_equal(seen, 4 * EXECD_LINE_MAX);
    execd_lines_done(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_long_lines_are_split),
        cmocka_unit_test(test_characters_are_not_split),
        cmocka_unit_test(test_endless_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
