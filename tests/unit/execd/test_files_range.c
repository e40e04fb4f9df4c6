#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/files.h"
#include "execd/files_range.h"

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t size;
        int result;
        uint64_t first;
        uint64_t last;
    } cases[] = {
        {"bytes=0-9", 100, 0, 0, 9},
        {"bytes=0-0", 100, 0, 0, 0},
        {"bytes=10-", 100, 0, 10, 99},
        {"bytes=-10", 100, 0, 90, 99},
        {"bytes=-1000", 100, 0, 0, 99},
        {"bytes=99-", 100, 0, 99, 99},
        {"bytes=50-1000", 100, 0, 50, 99},
        {"BYTES=1-2", 100, 0, 1, 2},
        {"bytes=1-2,5-6", 100, 0, 1, 2}, /* the first is served */
        {"bytes= 1-2 , 5-6", 100, 0, 1, 2},
        {"bytes=0-99999999999999999999999", 100, 0, 0, 99},
        {"bytes=100-", 100, -ERANGE, 0, 0},
        {"bytes=99999999999999999999999-", 100, -ERANGE, 0, 0},
        {"bytes=-0", 100, -ERANGE, 0, 0},
        {"bytes=0-", 0, -ERANGE, 0, 0},
        {"bytes=-5", 0, -ERANGE, 0, 0},
        {"bytes=9-3", 100, -EINVAL, 0, 0},
        {"bytes=-", 100, -EINVAL, 0, 0},
        {"bytes=", 100, -EINVAL, 0, 0},
        {"bytes=5", 100, -EINVAL, 0, 0},
        {"bytes=a-b", 100, -EINVAL, 0, 0},
        {"bytes=1-2-3", 100, -EINVAL, 0, 0},
        {"bytes=--3", 100, -EINVAL, 0, 0},
        {"bytes=+1-2", 100, -EINVAL, 0, 0},
        {"lines=1-2", 100, -EINVAL, 0, 0},
        {"", 100, -EINVAL, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t first = 0;
        uint64_t last = 0;
        int r = execd_range_parse(cases[i].header, cases[i].size, &first, &last);
        assert_int_equal(r, cases[i].result);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(last, cases[i].last);
    }
}

/* Cut at every point: the result must not depend on how the bytes come. */
static void check_window(const char *input, uint64_t offset, uint64_t limit, const char *expected)
{
    size_t length = strlen(input);
    for (size_t cut = 0; cut <= length; cut++) {
        struct execd_line_window window;
        struct buf out;
        buf_init(&out, 1024);
        execd_line_window_init(&window, offset, limit);
        if (!execd_line_window_feed(&window, input, cut, &out))
            execd_line_window_feed(&window, input + cut, length - cut, &out);
        assert_string_equal(out.data, expected);
        buf_done(&out);
    }
}

static void test_line_window(void **state)
{
    (void)state;
    check_window("a\nb\nc\n", 1, UINT64_MAX, "a\nb\nc");
    check_window("a\nb\nc", 1, UINT64_MAX, "a\nb\nc");
    check_window("a\nb\nc\n", 2, 1, "b");
    check_window("a\nb\nc\n", 2, 2, "b\nc");
    check_window("a\nb\nc\n", 3, 9, "c");
    check_window("a\nb\nc\n", 4, 1, "");
    check_window("a\nb\nc\n", INT64_MAX, 1, "");
    check_window("", 1, 1, "");
    check_window("\n", 1, 1, "");
    check_window("a\n\nb\n", 1, 3, "a\n\nb");
    check_window("a\n\n", 1, 5, "a\n");
    check_window("a\r\nb\r\n", 1, 5, "a\nb");
    check_window("a\rb\r\n", 1, 5, "a\rb");
    check_window("a\r", 1, 5, "a");
    check_window("a\r\r\nb", 1, 5, "a\r\nb");
    check_window("\r\n\r\n", 1, 2, "\n");
}

static void test_line_window_says_when_it_is_over(void **state)
{
    (void)state;
    struct execd_line_window window;
    struct buf out;
    buf_init(&out, 64);
    execd_line_window_init(&window, 1, 1);
    assert_false(execd_line_window_feed(&window, "a", 1, &out));
    assert_true(execd_line_window_feed(&window, "\nb", 2, &out));
    assert_string_equal(out.data, "a");
    buf_done(&out);
}

static void test_mode_digits(void **state)
{
    (void)state;
    mode_t mode = 1;
    assert_int_equal(execd_files_mode_from_digits(755, &mode), 0);
    assert_int_equal(mode, 0755);
    assert_int_equal(execd_files_mode_from_digits(4755, &mode), 0);
    assert_int_equal(mode, 0755);
    assert_int_equal(execd_files_mode_from_digits(7, &mode), 0);
    assert_int_equal(mode, 07);
    assert_int_equal(execd_files_mode_from_digits(0, &mode), 0);
    assert_int_equal(mode, 0);
    assert_int_equal(execd_files_mode_from_digits(758, &mode), -EINVAL);
    assert_int_equal(execd_files_mode_from_digits(10000, &mode), -EINVAL);
    assert_int_equal(execd_files_mode_from_digits(-1, &mode), -EINVAL);
    assert_int_equal(execd_files_mode_to_digits(0100755), 755);
    assert_int_equal(execd_files_mode_to_digits(04640), 640);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_line_window),
        cmocka_unit_test(test_line_window_says_when_it_is_over),
        cmocka_unit_test(test_mode_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
