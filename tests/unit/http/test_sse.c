#include "http/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/mem.h"
#include "http/json.h"

/* --- a stand-in for the server ---------------------------------------------------------------- */

static struct {
    char calls[512];
    struct buf body;
    int writes;
} sent;

bool http_exchange_set_header(struct http_exchange *exchange, const char *name, const char *value)
{
    (void)exchange;
    size_t used = strlen(sent.calls);
    snprintf(sent.calls + used, sizeof(sent.calls) - used, "%s: %s|", name, value);
    return true;
}

void http_exchange_begin(struct http_exchange *exchange, int status, int64_t length)
{
    (void)exchange;
    size_t used = strlen(sent.calls);
    snprintf(sent.calls + used, sizeof(sent.calls) - used, "begin %d %d", status, (int)length);
}

void http_exchange_write(struct http_exchange *exchange, const void *bytes, size_t length)
{
    (void)exchange;
    sent.writes++;
    assert_int_equal(buf_add(&sent.body, bytes, length), 0);
}

void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const void *body, size_t length)
{
    (void)exchange;
    (void)status;
    (void)content_type;
    (void)body;
    (void)length;
    fail();
}

void http_exchange_reply_error(struct http_exchange *exchange, int status, const char *code,
                               const char *format, ...)
{
    (void)exchange;
    (void)status;
    (void)code;
    (void)format;
    fail();
}

static int reset(void **state)
{
    (void)state;
    sent.calls[0] = '\0';
    sent.writes = 0;
    buf_init(&sent.body, 1 << 25);
    return 0;
}

static int release(void **state)
{
    (void)state;
    buf_done(&sent.body);
    return 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* The event without its timestamp, which must be last, plausible and followed by an empty line. */
static char *without_timestamp(const char *event)
{
    static const char key[] = "\"timestamp\":";
    const char *found = strstr(event, key);
    char *end;
    assert_non_null(found);
    int64_t timestamp = strtoll(found + strlen(key), &end, 10);
    assert_string_equal(end, "}\n\n");
    assert_in_range(timestamp, clock_unix_ms() - 60000, clock_unix_ms());
    return strndup(event, (size_t)(found - event));
}

static void assert_text(const char *text, size_t length, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    assert_int_equal(http_sse_format_text(&out, "stdout", text, length), 0);
    AUTO_FREE char *event = without_timestamp(out.data);
    AUTO_FREE char *wanted = mem_printf("{\"type\":\"stdout\",\"text\":\"%s\",", expected);
    assert_string_equal(event, wanted);

    struct error err = ERROR_INIT;
    json_t *parsed = http_json_parse(out.data, out.length, &err);
    if (length > 0 && memchr(text, '\0', length) == NULL)
        assert_non_null(parsed);
    json_decref(parsed);
    buf_done(&out);
}

static void test_escapes(void **state)
{
    (void)state;
#define TEXT(input, output) assert_text(input, sizeof(input) - 1, output)
    TEXT("hello", "hello");
    TEXT("\"\\\n\r\t\b\f/", "\\\"\\\\\\n\\r\\t\\b\\f/");
    TEXT("\x01\x1f\x1b[0m\x7f", "\\u0001\\u001f\\u001b[0m\x7f");
    TEXT("a\0b", "a\\u0000b");
    TEXT("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    /* Line ends for clients that split with Unicode rules. */
    TEXT("a\xc2\x85"
         "b\xe2\x80\xa8"
         "c\xe2\x80\xa9",
         "a\\u0085b\\u2028c\\u2029");
    TEXT("\xc2\x84\xe2\x80\xa7", "\xc2\x84\xe2\x80\xa7");
}

#define R "\xef\xbf\xbd"

static void test_invalid_utf8(void **state)
{
    (void)state;
    TEXT("\xff", R);
    TEXT("a\x80z", "a" R "z");
    TEXT("\xc0\xaf", R R); /* overlong: two single bytes */
    TEXT("\xe0\x80\x80", R R R);
    TEXT("\xed\xa0\x80", R R R);       /* a surrogate */
    TEXT("\xf4\x90\x80\x80", R R R R); /* above U+10FFFF */
    TEXT("\xf5\x80", R R);
    /* Maximal subparts: the examples of the Unicode standard, table 3-8 and 3-11. */
    TEXT("\xf1\x80\x80\xe1\x80\xc2"
         "b\x80"
         "c\x80\xbf"
         "d",
         R R R "b" R "c" R R "d");
    TEXT("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
         "A",
         R R R R "A");
    /* Cut at the end. */
    TEXT("\xe2\x82", R);
    TEXT("\xf0\x9f\x98", R);
    TEXT("\xc3", R);
}

static void test_every_byte_pair_is_valid_json(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 4096);
    for (int first = 1; first < 256; first++) {
        for (int second = 1; second < 256; second++) {
            char text[3] = {(char)first, (char)second, 'x'};
            buf_clear(&out);
            assert_int_equal(http_sse_format_text(&out, "t", text, 3), 0);
            json_t *parsed = http_json_parse(out.data, out.length, NULL);
            assert_non_null(parsed);
            json_decref(parsed);
        }
    }
    buf_done(&out);
}

static void test_format_is_all_or_nothing(void **state)
{
    (void)state;
    struct buf out;
    for (size_t max = 0; max < 90; max++) {
        buf_init(&out, max);
        buf_add_str(&out, "x");
        int r = http_sse_format_text(&out, "stdout", "a\nb\xff", 4);
        if (r < 0) {
            assert_int_equal(r, -EMSGSIZE);
            assert_string_equal(out.data, max > 0 ? "x" : "");
        } else {
            assert_true(out.length <= max);
        }
        assert_true(r == 0 || max < 80);
        buf_done(&out);
    }
    buf_init(&out, 256);
    assert_int_equal(http_sse_format_text(&out, "stdout", "", 0), 0);
    AUTO_FREE char *event = without_timestamp(out.data);
    assert_string_equal(event, "{\"type\":\"stdout\",");
    buf_done(&out);
}

static void test_begin(void **state)
{
    (void)state;
    http_sse_begin(NULL);
    assert_string_equal(sent.calls, "Content-Type: text/event-stream|Cache-Control: no-cache|"
                                    "X-Accel-Buffering: no|begin 200 -1");
    assert_int_equal(sent.writes, 0);
}

static void test_send(void **state)
{
    (void)state;
    http_sse_send_text(NULL, "stderr", "x\n", 2);
    assert_int_equal(sent.writes, 1);
    AUTO_FREE char *text = without_timestamp(sent.body.data);
    assert_string_equal(text, "{\"type\":\"stderr\",\"text\":\"x\\n\",");

    buf_clear(&sent.body);
    http_sse_send_complete(NULL, 12);
    AUTO_FREE char *complete = without_timestamp(sent.body.data);
    assert_string_equal(complete, "{\"type\":\"execution_complete\",\"execution_time\":12,");
    buf_clear(&sent.body);
    http_sse_send_complete(NULL, 0);
    AUTO_FREE char *instant = without_timestamp(sent.body.data);
    assert_string_equal(instant, "{\"type\":\"execution_complete\",");

    buf_clear(&sent.body);
    http_sse_send_error(NULL, "CommandExecError", "7", "exit \"7\"");
    AUTO_FREE char *error = without_timestamp(sent.body.data);
    assert_string_equal(error, "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\","
                               "\"evalue\":\"7\",\"traceback\":[\"exit \\\"7\\\"\"]},");
    buf_clear(&sent.body);
    http_sse_send_error(NULL, "E", "", NULL);
    AUTO_FREE char *bare = without_timestamp(sent.body.data);
    assert_string_equal(bare, "{\"type\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"\","
                              "\"traceback\":[]},");
    assert_int_equal(sent.writes, 5);
}

static void test_worst_case_fits(void **state)
{
    (void)state;
    AUTO_FREE char *text = mem_alloc(1 << 20);
    memset(text, 1, 1 << 20);
    http_sse_send_text(NULL, "stdout", text, 1 << 20);
    assert_true(sent.body.length > 6 << 20);
    assert_memory_equal(sent.body.data + sent.body.length - 3, "}\n\n", 3);
    buf_clear(&sent.body);
    text[(1 << 20) - 1] = '\0';
    http_sse_send_error(NULL, text, text, text);
    assert_memory_equal(sent.body.data + sent.body.length - 3, "}\n\n", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(test_every_byte_pair_is_valid_json),
        cmocka_unit_test(test_format_is_all_or_nothing),
        cmocka_unit_test_setup_teardown(test_begin, reset, release),
        cmocka_unit_test_setup_teardown(test_send, reset, release),
        cmocka_unit_test_setup_teardown(test_worst_case_fits, reset, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
