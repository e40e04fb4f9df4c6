#include "http/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

static void assert_decodes(const char *text, bool form, const char *expected)
{
    AUTO_FREE char *decoded = NULL;
    assert_int_equal(url_decode(text, strlen(text), form, &decoded), 0);
    assert_string_equal(decoded, expected);
}

static void test_decode(void **state)
{
    (void)state;
    assert_decodes("", false, "");
    assert_decodes("a%2Fb%c3%A4", false, "a/b\xc3\xa4");
    assert_decodes("a+b%2B", true, "a b+");
    assert_decodes("a+b", false, "a+b");
    assert_decodes("%25%2541", false, "%%41"); /* once, not again */

    static const char *const bad[] = {"%", "%4", "%zz", "a%0", "%00", "x%00y", "%-1", "% 1"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char *decoded = NULL;
        assert_int_equal(url_decode(bad[i], strlen(bad[i]), true, &decoded), -EINVAL);
        assert_null(decoded);
    }
    /* The length is what counts, not a NUL behind it. */
    char *decoded = NULL;
    assert_int_equal(url_decode("%41", 2, false, &decoded), -EINVAL);
    assert_int_equal(url_decode("a\0b", 3, false, &decoded), -EINVAL);
}

static void test_encode(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 32);
    assert_int_equal(url_encode(&out, "az-._~ /%\xc3\xa4+&"), 0);
    assert_string_equal(out.data, "az-._~%20%2F%25%C3%A4%2B%26");
    assert_int_equal(url_encode(&out, "abc///"), -EMSGSIZE);
    assert_string_equal(out.data, "az-._~%20%2F%25%C3%A4%2B%26");
    buf_done(&out);
}

static void test_query(void **state)
{
    (void)state;
    struct url_query query;
    assert_int_equal(url_query_parse("a=1&b&&c=x=y&a=2&d=&=e&p%61th=%2Ftmp+x", &query), 0);
    assert_int_equal(query.count, 7);
    assert_string_equal(url_query_find(&query, "a"), "1");
    assert_string_equal(url_query_find(&query, "b"), "");
    assert_string_equal(url_query_find(&query, "c"), "x=y");
    assert_string_equal(url_query_find(&query, "d"), "");
    assert_string_equal(url_query_find(&query, ""), "e");
    assert_string_equal(url_query_find(&query, "path"), "/tmp x");
    assert_null(url_query_find(&query, "nope"));
    url_query_done(&query);

    assert_int_equal(url_query_parse("", &query), 0);
    assert_int_equal(query.count, 0);
    assert_int_equal(url_query_parse("a=1&b=%zz", &query), -EINVAL);
    assert_int_equal(url_query_parse("a=1&%zz=b", &query), -EINVAL);
}

static void test_query_is_bounded(void **state)
{
    (void)state;
    char text[2 * (URL_QUERY_MAX + 1) + 1];
    struct url_query query;
    for (size_t i = 0; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "a&", 2);
    text[2 * URL_QUERY_MAX] = '\0';
    assert_int_equal(url_query_parse(text, &query), 0);
    assert_int_equal(query.count, URL_QUERY_MAX);
    url_query_done(&query);
    text[2 * URL_QUERY_MAX] = 'a';
    text[2 * URL_QUERY_MAX + 2] = '\0';
    assert_int_equal(url_query_parse(text, &query), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_query_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
