#include "http/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <errno.h>

#include "base/macros.h"

static void test_keeps_order_and_spelling(void **state)
{
    (void)state;
    struct http_headers headers;
    http_headers_init(&headers);
    assert_int_equal(http_headers_add(&headers, "Set-Cookie", "a=1"), 0);
    assert_int_equal(http_headers_add(&headers, "X-Thing", " \t padded\t "), 0);
    assert_int_equal(http_headers_add(&headers, "set-cookie", "b=2, c"), 0);

    assert_int_equal(headers.count, 3);
    assert_string_equal(headers.items[0].name, "Set-Cookie");
    assert_string_equal(headers.items[2].name, "set-cookie");
    assert_string_equal(headers.items[2].value, "b=2, c");
    assert_string_equal(http_headers_find(&headers, "x-thing"), "padded");
    assert_string_equal(http_headers_find(&headers, "SET-COOKIE"), "a=1");
    assert_int_equal(http_headers_count(&headers, "Set-Cookie"), 2);
    assert_null(http_headers_find(&headers, "X-Thin"));
    http_headers_done(&headers);
    assert_int_equal(headers.count, 0);
    assert_int_equal(http_headers_add(&headers, "Again", ""), 0);
    assert_string_equal(http_headers_find(&headers, "again"), "");
    http_headers_done(&headers);
}

static void test_refuses_what_could_split_a_message(void **state)
{
    (void)state;
    static const char *const names[] = {"",         "a b", "a:",  "a\r\n",
                                        "\xc3\xa4", "a\t", "(a)", "a\x7f"};
    static const char *const values[] = {"a\r\nb", "a\rb", "a\nb", "\x01", "a\x7f", "a\x1b[0m"};
    struct http_headers headers;
    http_headers_init(&headers);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(http_headers_add(&headers, names[i], "x"), -EINVAL);
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        assert_int_equal(http_headers_add(&headers, "X", values[i]), -EINVAL);
    assert_int_equal(headers.count, 0);
    assert_int_equal(http_headers_add(&headers, "X", "tab\tand \xc3\xa4"), 0);
    assert_int_equal(http_headers_set(&headers, "x", "bad\n"), -EINVAL);
    assert_string_equal(http_headers_find(&headers, "X"), "tab\tand \xc3\xa4");
    http_headers_done(&headers);
}

static void test_set_replaces_all(void **state)
{
    (void)state;
    struct http_headers headers;
    http_headers_init(&headers);
    http_headers_add(&headers, "A", "1");
    http_headers_add(&headers, "B", "2");
    http_headers_add(&headers, "a", "3");
    /* Its own value: must survive being freed. */
    assert_int_equal(http_headers_set(&headers, "a", http_headers_find(&headers, "A")), 0);
    assert_int_equal(headers.count, 2);
    assert_string_equal(headers.items[0].value, "1");
    assert_string_equal(headers.items[1].value, "2");
    assert_int_equal(http_headers_set(&headers, "C", "new"), 0);
    assert_string_equal(http_headers_find(&headers, "c"), "new");
    http_headers_remove(&headers, "b");
    assert_int_equal(headers.count, 2);
    assert_string_equal(headers.items[1].name, "C");
    http_headers_done(&headers);
}

static void test_count_is_bounded(void **state)
{
    (void)state;
    struct http_headers headers;
    http_headers_init(&headers);
    for (int round = 0; round < 2; round++) {
        for (int i = (int)headers.count; i < HTTP_HEADER_COUNT_MAX; i++) {
            char name[32];
            snprintf(name, sizeof(name), "%s-%d", i % 3 ? "Keep" : "Drop", i);
            assert_int_equal(http_headers_add(&headers, i % 3 ? name : "Drop", name), 0);
        }
        assert_int_equal(http_headers_add(&headers, "One", "more"), -E2BIG);
        http_headers_remove(&headers, "drop");
        assert_int_equal(http_headers_count(&headers, "Drop"), 0);
        assert_string_equal(http_headers_find(&headers, "Keep-127"), "Keep-127");
    }
    http_headers_done(&headers);
}

static void test_tokens(void **state)
{
    (void)state;
    struct http_headers headers;
    http_headers_init(&headers);
    http_headers_add(&headers, "Connection", "keep-alive , Upgrade");
    http_headers_add(&headers, "Connection", ",,x,");
    assert_true(http_headers_has_token(&headers, "connection", "upgrade"));
    assert_true(http_headers_has_token(&headers, "connection", "Keep-Alive"));
    assert_true(http_headers_has_token(&headers, "connection", "x"));
    assert_false(http_headers_has_token(&headers, "connection", "alive"));
    assert_false(http_headers_has_token(&headers, "connection", "upgrad"));
    assert_false(http_headers_has_token(&headers, "connection", "close"));
    assert_false(http_headers_has_token(&headers, "absent", "x"));
    http_headers_done(&headers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_order_and_spelling),
        cmocka_unit_test(test_refuses_what_could_split_a_message),
        cmocka_unit_test(test_set_replaces_all),
        cmocka_unit_test(test_count_is_bounded),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
