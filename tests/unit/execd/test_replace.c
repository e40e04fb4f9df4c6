#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "execd/replace.h"

static int collect(void *ctx, const char *bytes, size_t length)
{
    return buf_add(ctx, bytes, length);
}

static uint64_t run(const char *text, size_t length, size_t piece, const char *old_text,
                    const char *new_text, struct buf *out)
{
    struct execd_replace replace = {
        .old_text = old_text,
        .old_length = strlen(old_text),
        .new_text = new_text,
        .new_length = strlen(new_text),
        .out = collect,
        .ctx = out,
    };
    execd_replace_init(&replace);
    for (size_t i = 0; i < length; i += piece)
        assert_int_equal(execd_replace_feed(&replace, text + i, MIN(piece, length - i)), 0);
    assert_int_equal(execd_replace_finish(&replace), 0);
    execd_replace_done(&replace);
    return replace.count;
}

static void test_table(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *old_text;
        const char *new_text;
        const char *result;
        uint64_t count;
    } cases[] = {
        {"", "a", "b", "", 0},
        {"abc", "x", "y", "abc", 0},
        {"abc", "b", "", "ac", 1},
        {"aaa", "a", "b", "bbb", 3},
        {"aaaaa", "aa", "b", "bba", 2},
        {"aaa", "aaaa", "b", "aaa", 0},
        {"abcabc", "abc", "abcabc", "abcabcabcabc", 2},
        {"ababab", "abab", "x", "xab", 1},
        {"one two", "one two", "three", "three", 1},
        {"a\nb\r\n", "\n", "\r\n", "a\r\nb\r\r\n", 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t piece = 1; piece < 5; piece++) {
            struct buf out;
            buf_init(&out, 1000);
            uint64_t count = run(cases[i].text, strlen(cases[i].text), piece, cases[i].old_text,
                                 cases[i].new_text, &out);
            assert_string_equal(out.data, cases[i].result);
            assert_int_equal(count, cases[i].count);
            buf_done(&out);
        }
    }
}

/* An occurrence at every distance from where the window ends. */
static void test_borders(void **state)
{
    (void)state;
    const size_t size = 64 * 1024 + 300;
    AUTO_FREE char *text = mem_alloc(size);
    for (size_t at = 64 * 1024 - 20; at < 64 * 1024 + 40; at++) {
        memset(text, '.', size);
        for (size_t i = 0; i < 6; i++)
            text[at + i] = "needle"[i];
        struct buf out;
        buf_init(&out, 2 * size);
        assert_int_equal(run(text, size, 4096, "needle", "pin", &out), 1);
        assert_int_equal(out.length, size - 3);
        assert_memory_equal(out.data + at, "pin.", 4);
        buf_done(&out);
    }
}

static void test_long_old_text(void **state)
{
    (void)state;
    const size_t size = 300 * 1024;
    AUTO_FREE char *old_text = mem_alloc(size + 1);
    memset(old_text, 'x', size);
    AUTO_FREE char *text = mem_alloc(3 * size);
    memset(text, 'x', 3 * size);
    text[0] = 'y';
    struct buf out;
    buf_init(&out, 4 * size);
    assert_int_equal(run(text, 3 * size, 10000, old_text, "z", &out), 2);
    assert_int_equal(out.length, 1 + 2 + size - 1);
    assert_memory_equal(out.data, "yzzx", 4);
    buf_done(&out);
}

static int refuse(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    (void)bytes;
    (void)length;
    return -5;
}

static void test_output_that_fails(void **state)
{
    (void)state;
    struct execd_replace replace = {
        .old_text = "a", .old_length = 1, .new_text = "", .out = refuse};
    execd_replace_init(&replace);
    assert_int_equal(execd_replace_feed(&replace, "xa", 2), 0);
    assert_int_equal(execd_replace_finish(&replace), -5);
    execd_replace_done(&replace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_long_old_text),
        cmocka_unit_test(test_output_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
