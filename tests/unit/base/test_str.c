#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

static void test_equal(void **state)
{
    (void)state;
    assert_true(str_equal("a", "a"));
    assert_false(str_equal("a", "A"));
    assert_true(str_equal(NULL, NULL));
    assert_false(str_equal(NULL, ""));
    assert_false(str_equal("", NULL));
    assert_true(str_equal_nocase("Content-TYPE", "content-type"));
    assert_false(str_equal_nocase("abc", "abcd"));
    assert_false(str_equal_nocase("abcd", "abc"));
    assert_false(str_equal_nocase("[", "{")); /* 0x20 apart, but no letters */
    assert_false(str_equal_nocase("\xc4", "\xe4"));
    assert_true(str_equal_nocase(NULL, NULL));
    assert_false(str_equal_nocase("", NULL));
}

static void test_starts_and_blank(void **state)
{
    (void)state;
    assert_true(str_starts_with("abc", "ab"));
    assert_true(str_starts_with("abc", ""));
    assert_false(str_starts_with("ab", "abc"));
    assert_true(str_is_blank(NULL));
    assert_true(str_is_blank(" \t\r\n"));
    assert_false(str_is_blank(" x "));
    assert_false(str_is_blank("\xc2\xa0"));
}

static void test_to_u64(void **state)
{
    (void)state;
    uint64_t value = 99;
    static const char *const wrong[] = {"", " 1", "1 ", "+1", "-1", "0x1", "1a", "1.0", "\xd9\xa1"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_int_equal(str_to_u64(wrong[i], 0, UINT64_MAX, &value), -EINVAL);
    assert_int_equal(str_to_u64(NULL, 0, 1, &value), -EINVAL);
    assert_int_equal(str_to_u64("18446744073709551616", 0, UINT64_MAX, &value), -ERANGE);
    assert_int_equal(str_to_u64("99999999999999999999999", 0, UINT64_MAX, &value), -ERANGE);
    assert_int_equal(str_to_u64("99999999999999999999999x", 0, UINT64_MAX, &value), -EINVAL);
    assert_int_equal(str_to_u64("4", 5, 10, &value), -ERANGE);
    assert_int_equal(str_to_u64("11", 5, 10, &value), -ERANGE);
    assert_int_equal(value, 99);
    assert_int_equal(str_to_u64("18446744073709551615", 0, UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(str_to_u64("0005", 5, 10, &value), 0);
    assert_int_equal(value, 5);
}

static void test_to_i64(void **state)
{
    (void)state;
    int64_t value = 99;
    static const char *const wrong[] = {"", "-", "--1", "- 1", "+1", "1-"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_int_equal(str_to_i64(wrong[i], INT64_MIN, INT64_MAX, &value), -EINVAL);
    assert_int_equal(str_to_i64("9223372036854775808", INT64_MIN, INT64_MAX, &value), -ERANGE);
    assert_int_equal(str_to_i64("-9223372036854775809", INT64_MIN, INT64_MAX, &value), -ERANGE);
    assert_int_equal(str_to_i64("-6", -5, 5, &value), -ERANGE);
    assert_int_equal(value, 99);
    assert_int_equal(str_to_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(str_to_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(str_to_i64("-5", -5, 5, &value), 0);
    assert_int_equal(value, -5);
}

static void test_equal_secret(void **state)
{
    (void)state;
    assert_true(str_equal_secret("token", "token"));
    assert_false(str_equal_secret("tokem", "token"));
    assert_false(str_equal_secret("xoken", "token"));
    assert_false(str_equal_secret("toke", "token"));
    assert_false(str_equal_secret("token!", "token"));
    assert_false(str_equal_secret("", "token"));
    assert_false(str_equal_secret("token", ""));
    assert_false(str_equal_secret("token\xff", "token\x7f"));
    assert_false(str_equal_secret(NULL, "token"));
    assert_false(str_equal_secret("token", NULL));
    assert_false(str_equal_secret(NULL, NULL));
}

static void test_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {
        "",
        "ascii",
        "\x7f",
        "\xc2\x80",         /* U+0080 */
        "\xdf\xbf",         /* U+07FF */
        "\xe0\xa0\x80",     /* U+0800 */
        "\xed\x9f\xbf",     /* U+D7FF */
        "\xee\x80\x80",     /* U+E000 */
        "\xef\xbf\xbf",     /* U+FFFF */
        "\xf0\x90\x80\x80", /* U+10000 */
        "\xf4\x8f\xbf\xbf", /* U+10FFFF */
    };
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc3",             /* cut */
        "\xc3(",            /* continuation missing */
        "\xe2\x82",         /* cut */
        "\xf0\x90\x80",     /* cut */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xed\xbf\xbf",     /* surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xfe",
        "\xff",
        "ok\xff",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(str_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(str_is_utf8(bad[i], strlen(bad[i])));
    assert_true(str_is_utf8("a\0b", 3));
    assert_true(str_is_utf8(NULL, 0));
}

static void test_utf8_next(void **state)
{
    (void)state;
    uint32_t code = 7;
    assert_int_equal(str_utf8_next("", 0, &code), 0);
    assert_int_equal(str_utf8_next("\xff", 1, &code), 0);
    assert_int_equal(code, 7);
    assert_int_equal(str_utf8_next("\xe2\x82\xac!", 4, &code), 3);
    assert_int_equal(code, 0x20ac);
    assert_int_equal(str_utf8_next("\xf0\x9f\x98\x80", 4, &code), 4);
    assert_int_equal(code, 0x1f600);
    assert_int_equal(str_utf8_next("\xf0\x9f\x98\x80", 3, &code), 0);
}

static void test_hex_value(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdef";
    for (int c = 1; c < 256; c++) {
        const char *lower = strchr(digits, c >= 'A' && c <= 'F' ? c + 'a' - 'A' : c);
        assert_int_equal(str_hex_value((char)c), lower != NULL ? lower - digits : -1);
    }
    assert_int_equal(str_hex_value('\0'), -1);
}

static void test_plain_path(void **state)
{
    (void)state;
    static const char *const good[] = {"/a", "/a/b.c", "/..a/b..", "/a/...", "/a b/c=d"};
    static const char *const bad[] = {"",      "/",      "a",     "a/b",  "/a/",
                                      "//a",   "/a//b",  "/.",    "/..",  "/a/.",
                                      "/a/..", "/a/./b", "/../a", "/./a", "/a/../b"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(str_is_plain_path(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (str_is_plain_path(bad[i]))
            fail_msg("%s", bad[i]);
    char path[PATH_MAX + 1];
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[PATH_MAX] = '\0';
    assert_false(str_is_plain_path(path));
    path[PATH_MAX - 1] = '\0';
    assert_true(str_is_plain_path(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex_value),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_starts_and_blank),
        cmocka_unit_test(test_to_u64),
        cmocka_unit_test(test_to_i64),
        cmocka_unit_test(test_equal_secret),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_utf8_next),
        cmocka_unit_test(test_plain_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
