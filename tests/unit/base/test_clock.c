#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/macros.h"

static void test_format(void **state)
{
    (void)state;
    char text[CLOCK_RFC3339_MAX];
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00Z"},
        {1767323045123, "2026-01-02T03:04:05.123Z"},
        {1767323045000, "2026-01-02T03:04:05Z"},
        {1767323045007, "2026-01-02T03:04:05.007Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        clock_format_rfc3339(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_format_ns(void **state)
{
    (void)state;
    char text[CLOCK_RFC3339_MAX];
    clock_format_rfc3339_ns(1767323045, 123456789, text);
    assert_string_equal(text, "2026-01-02T03:04:05.123456789Z");
    clock_format_rfc3339_ns(1767323045, 5, text);
    assert_string_equal(text, "2026-01-02T03:04:05.000000005Z");
    clock_format_rfc3339_ns(1767323045, 0, text);
    assert_string_equal(text, "2026-01-02T03:04:05Z");
    /* A sandbox can give its files any time at all. */
    clock_format_rfc3339_ns(INT64_MAX, 0, text);
    assert_string_equal(text, "9999-12-31T23:59:59Z");
    clock_format_rfc3339_ns(INT64_MIN, 0, text);
    assert_string_equal(text, "0000-01-01T00:00:00Z");
}

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-02T03:04:05.123Z", 1767323045123},
        {"2026-01-02t03:04:05.123z", 1767323045123},
        {"2026-01-02 03:04:05.123", 1767323045123},
        {"2026-01-02T03:04:05", 1767323045000},
        {"2026-01-02T03:04:05.1Z", 1767323045100},
        {"2026-01-02T03:04:05.123999999Z", 1767323045123},
        {"2026-01-02T05:04:05+02:00", 1767323045000},
        {"2026-01-01T21:34:05-05:30", 1767323045000},
        {"2026-01-02T03:04:05-00:00", 1767323045000},
        {"2000-02-29T00:00:00Z", 951782400000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
        {"1970-01-01T01:00:00+01:00", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = -1;
        assert_int_equal(clock_parse_rfc3339(cases[i].text, &ms), 0);
        assert_int_equal(ms, cases[i].ms);
    }
}

static void test_parse_refuses(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "2026-01-02",
        "2026-01-02T03:04Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05.1234567890Z",
        "2026-01-02T03:04:60Z", /* leap seconds are not instants of Unix time */
        "2026-01-02T03:60:05Z",
        "2026-01-02T24:04:05Z",
        "2026-02-29T03:04:05Z",
        "1900-02-29T03:04:05Z",
        "2100-02-29T03:04:05Z", /* a century that is no leap year */
        "2026-04-31T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-13-02T03:04:05Z",
        "2026-01-00T03:04:05Z",
        "2026-01-32T03:04:05Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00", /* 1969 in UTC */
        "9999-12-31T23:59:59-01:00", /* 10000 in UTC */
        "10000-01-01T00:00:00Z",
        "2026-01-02T03:04:05Zx",
        "2026-01-02T03:04:05+0200",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+02:60",
        "2026-01-02T03:04:05+02:00x",
        "2026-01-02X03:04:05Z",
        " 2026-01-02T03:04:05Z",
        "2026-1-2T03:04:05Z",
        "+026-01-02T03:04:05Z",
        "2026-01-02T03:04:05 Z",
    };
    int64_t ms = 42;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        if (clock_parse_rfc3339(wrong[i], &ms) != -EINVAL)
            fail_msg("'%s' was accepted", wrong[i]);
    }
    assert_int_equal(clock_parse_rfc3339(NULL, &ms), -EINVAL);
    assert_int_equal(ms, 42);
}

static void test_round_trip(void **state)
{
    (void)state;
    /* A prime step, so that all days, months and fractions come by. */
    for (int64_t ms = 0; ms < INT64_C(253402300799999); ms += INT64_C(7919000000017)) {
        char text[CLOCK_RFC3339_MAX];
        int64_t back;
        clock_format_rfc3339(ms, text);
        assert_int_equal(clock_parse_rfc3339(text, &back), 0);
        assert_int_equal(back, ms);
    }
}

static void test_now(void **state)
{
    (void)state;
    assert_true(clock_unix_ms() > INT64_C(1600000000000));
    uint64_t first = clock_monotonic_ns();
    assert_true(clock_monotonic_ns() >= first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),     cmocka_unit_test(test_format_ns),
        cmocka_unit_test(test_parse),      cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
