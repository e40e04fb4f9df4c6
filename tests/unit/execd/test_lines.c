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
static void collect(void *ctx, const char *text, size_t length, uint64_t end)
{
    (void)end;
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
        execd_lines_feed(&lines, input + from, to - from, from, collect, &out);
        from = to;
    }
    execd_lines_finish(&lines, from, collect, &out);
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
static void count(void *ctx, const char *text, size_t length, uint64_t end)
{
    (void)text;
    (void)end;
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
        execd_lines_feed(&lines, piece, sizeof(piece), 0, count, &seen);
        assert_true(lines.partial.length <= EXECD_LINE_MAX);
    }
    assert_int_equal(seen, 3 * EXECD_LINE_MAX);
    execd_lines_finish(&lines, 0, count, &seen);
    assert_int_equal(seen, 4 * EXECD_LINE_MAX);
    execd_lines_done(&lines);
}

/* --- ends and marks --------------------------------------------------------------------------- */

#define RANDOM_BYTES 600
#define RANDOM_MAX   11

struct seen {
    size_t which;
    uint64_t end;
    size_t length;
    size_t missing;
    char text[RANDOM_MAX];
};
struct record {
    struct execd_lines lines[2];
    size_t which;
    struct seen seen[2 * RANDOM_BYTES];
    size_t count;
};

static void remember(void *ctx, const char *text, size_t length, uint64_t end)
{
    struct record *record = ctx;
    size_t missing = record->lines[record->which].missing;
    assert_true(length <= RANDOM_MAX && (length > 0 || missing > 0));
    if (record->count > 0)
        assert_true(end > record->seen[record->count - 1].end); /* both together */
    struct seen *seen = &record->seen[record->count++];
    *seen = (struct seen){record->which, end, length, missing, ""};
    memcpy(seen->text, text, length);
}

static void record_init(struct record *record)
{
    record->count = 0;
    execd_lines_init(&record->lines[0], RANDOM_MAX);
    execd_lines_init(&record->lines[1], RANDOM_MAX);
}

static void record_feed(struct record *record, size_t which, const char *bytes, size_t length,
                        uint64_t position)
{
    record->which = which;
    execd_lines_feed(&record->lines[which], bytes, length, position, remember, record);
}

static void record_finish(struct record *record, uint64_t total)
{
    for (record->which = 0; record->which < 2; record->which++) {
        execd_lines_finish(&record->lines[record->which], total + 1 + record->which, remember,
                           record);
        execd_lines_done(&record->lines[record->which]);
    }
}

/* From the cut on, a resumed pair of splitters says the same as one that saw everything: the same
 * ends, and the same texts but for what the first line of each has lost. */
static void check_resumed(const struct record *whole, const struct record *rest, uint64_t cut,
                          const struct execd_line_mark marks[2])
{
    size_t from = 0;
    while (from < whole->count && whole->seen[from].end <= cut)
        from++;
    assert_int_equal(rest->count, whole->count - from);
    bool fresh[2] = {true, true};
    for (size_t i = 0; i < rest->count; i++) {
        const struct seen *got = &rest->seen[i];
        const struct seen *want = &whole->seen[from + i];
        assert_int_equal(got->which, want->which);
        assert_int_equal(got->end, want->end);
        assert_int_equal(got->length + got->missing, want->length);
        assert_memory_equal(got->text, want->text + got->missing, got->length);
        if (fresh[got->which])
            assert_int_equal(got->missing, marks[got->which].length > want->length
                                               ? want->length
                                               : marks[got->which].length);
        fresh[got->which] = false;
    }
}

static char random_byte(void)
{
    static const char alphabet[] = "abcdefgh\n\r\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff";
    return alphabet[(size_t)random() % (sizeof(alphabet) - 1)];
}

static void test_resume_at_every_point(void **state)
{
    (void)state;
    static struct record whole;
    static struct record rest;
    srandom(4711);
    for (int round = 0; round < 300; round++) {
        char bytes[RANDOM_BYTES];
        size_t which[RANDOM_BYTES] = {0};
        for (size_t i = 0; i < RANDOM_BYTES; i++) {
            bytes[i] = random_byte();
            which[i] = i > 0 && random() % 5 != 0 ? which[i - 1] : (size_t)random() % 2;
        }
        size_t cut = (size_t)random() % RANDOM_BYTES;
        struct execd_line_mark marks[2] = {0};
        record_init(&whole);
        record_init(&rest);
        for (size_t i = 0, n; i < RANDOM_BYTES; i += n) {
            if (i == cut) {
                execd_lines_resume(&rest.lines[0], &marks[0]);
                execd_lines_resume(&rest.lines[1], &marks[1]);
            }
            size_t most = 1 + (size_t)random() % 40;
            for (n = 1;
                 n < most && i + n < RANDOM_BYTES && i + n != cut && which[i + n] == which[i];)
                n++;
            record_feed(&whole, which[i], bytes + i, n, i);
            execd_line_mark_feed(&marks[which[i]], RANDOM_MAX, bytes + i, n, i);
            assert_true(marks[which[i]].length == 0 || marks[which[i]].start <= i + n);
            if (i >= cut)
                record_feed(&rest, which[i], bytes + i, n, i);
        }
        struct execd_line_mark at_cut[2] = {0};
        for (size_t i = 0; i < cut; i++)
            execd_line_mark_feed(&at_cut[which[i]], RANDOM_MAX, bytes + i, 1, i);
        record_finish(&whole, RANDOM_BYTES);
        record_finish(&rest, RANDOM_BYTES);
        check_resumed(&whole, &rest, cut, at_cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_long_lines_are_split),
        cmocka_unit_test(test_characters_are_not_split),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_resume_at_every_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
