#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/conditions.h"

#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define EXACT  "Sun, 06 Nov 1994 08:49:37 GMT"
#define AFTER  "Sun, 06 Nov 1994 08:49:38 GMT"

static const struct execd_version version = {.etag = "\"tag\"", .modified = 784111777};

static void test_dates(void **state)
{
    (void)state;
    char text[EXECD_HTTP_DATE_MAX];
    execd_http_date_write(version.modified, text);
    assert_string_equal(text, EXACT);
    static const char *const good[] = {EXACT, "Sunday, 06-Nov-94 08:49:37 GMT",
                                       "Sun Nov  6 08:49:37 1994"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        time_t date = 0;
        assert_int_equal(execd_http_date_parse(good[i], &date), 0);
        assert_int_equal(date, version.modified);
    }
    static const char *const bad[] = {"", "yesterday", "Sun, 06 Nov 1994 08:49:37 GMT x",
                                      "06 Nov 1994", "1994-11-06"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        time_t date;
        assert_true(execd_http_date_parse(bad[i], &date) < 0);
    }
}

static int check(const char *name, const char *value, const char *name2, const char *value2)
{
    struct http_headers headers;
    http_headers_init(&headers);
    assert_int_equal(http_headers_add(&headers, name, value), 0);
    if (name2 != NULL)
        assert_int_equal(http_headers_add(&headers, name2, value2), 0);
    int status = execd_conditions_check(&headers, &version);
    http_headers_done(&headers);
    return status;
}

static void test_conditions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
        int status;
    } cases[] = {
        {"If-Modified-Since", BEFORE, 0},     {"If-Modified-Since", EXACT, 304},
        {"If-Modified-Since", AFTER, 304},    {"If-Modified-Since", "nonsense", 0},
        {"If-Unmodified-Since", BEFORE, 412}, {"If-Unmodified-Since", EXACT, 0},
        {"If-Unmodified-Since", AFTER, 0},    {"If-Unmodified-Since", "nonsense", 0},
        {"If-None-Match", "\"tag\"", 304},    {"If-None-Match", "W/\"tag\"", 304},
        {"If-None-Match", "*", 304},          {"If-None-Match", "\"x\", \"tag\"", 304},
        {"If-None-Match", "\"x\"", 0},        {"If-None-Match", "tag", 0},
        {"If-None-Match", "\"tag", 0},        {"If-None-Match", "", 0},
        {"If-Match", "\"tag\"", 0},           {"If-Match", "*", 0},
        {"If-Match", "\"x\",\"tag\"", 0},     {"If-Match", "W/\"tag\"", 412},
        {"If-Match", "\"x\"", 412},           {"If-Match", "", 412},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(check(cases[i].name, cases[i].value, NULL, NULL), cases[i].status);
    /* A tag is more exact than a date, and wins. */
    assert_int_equal(check("If-None-Match", "\"x\"", "If-Modified-Since", AFTER), 0);
    assert_int_equal(check("If-Match", "\"tag\"", "If-Unmodified-Since", BEFORE), 0);
    assert_int_equal(check("If-Unmodified-Since", BEFORE, "If-None-Match", "*"), 412);
}

static void test_if_range(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool allowed;
    } cases[] = {{"\"tag\"", true}, {"\"x\"", false}, {"W/\"tag\"", false}, {EXACT, true},
                 {BEFORE, false},   {AFTER, false},   {"", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_headers headers;
        http_headers_init(&headers);
        assert_true(execd_conditions_allow_range(&headers, &version));
        assert_int_equal(http_headers_add(&headers, "If-Range", cases[i].value), 0);
        assert_int_equal(execd_conditions_allow_range(&headers, &version), cases[i].allowed);
        http_headers_done(&headers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_if_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
