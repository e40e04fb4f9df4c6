#include "http/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/server.h"

/* --- a stand-in for the server ---------------------------------------------------------------- */

static int replied_status;
static char replied_type[64];
static char replied_body[256];

void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const void *body, size_t length)
{
    (void)exchange;
    replied_status = status;
    strcpy(replied_type, content_type);
    assert_true(length < sizeof(replied_body));
    memcpy(replied_body, body, length);
    replied_body[length] = '\0';
}

void http_exchange_reply_error(struct http_exchange *exchange, int status, const char *code,
                               const char *format, ...)
{
    (void)exchange;
    (void)code;
    (void)format;
    replied_status = status;
}

/* --- parsing ---------------------------------------------------------------------------------- */

static json_t *parse(const char *text)
{
    struct error err = ERROR_INIT;
    json_t *value = http_json_parse(text, strlen(text), &err);
    if (value == NULL)
        fail_msg("%s: %s", text, err.message);
    return value;
}

static void assert_refused(const char *text, size_t length, const char *part)
{
    struct error err = ERROR_INIT;
    json_t *value = http_json_parse(text, length, &err);
    assert_null(value);
    assert_int_equal(err.code, ERR_INVALID);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void test_accepts_any_one_value(void **state)
{
    (void)state;
    static const char *const good[] = {"{}",
                                       " [ ] ",
                                       "1",
                                       "\"x\"",
                                       "null",
                                       "true",
                                       "-1.5e3",
                                       "{\"a\":{\"b\":[1,2,{\"c\":null}]}}",
                                       "\"\\u00e4[[[{{{\""};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        json_decref(parse(good[i]));
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{",
        "{}x",
        "{} {}",
        "[1,]",
        "{\"a\":1,\"a\":2}",
        "nul",
        "'a'",
        "\"\\u0000\"",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "[1}",
        "\"\n\"",
        "{\"a\"}",
        "NaN",
        "01",
        "\"open",
        "\"\\",
        "99999999999999999999",
        "1e999",
        "//x\n1",
        "{1:2}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_refused(bad[i], strlen(bad[i]), "not valid JSON at line 1, column ");
    assert_refused("1\0", 2, "NUL at byte 1");
    assert_refused("[\"\0\"]", 5, "NUL at byte 2");
    assert_refused("[\n\n  x]", 7, "line 3");
    /* jansson repeats the input in its message: it must not come through raw. */
    struct error err = ERROR_INIT;
    assert_null(http_json_parse("[\x1b[31m]", 7, &err));
    assert_null(strchr(err.message, '\x1b'));
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    char text[2 * (HTTP_JSON_DEPTH_MAX + 1)];
    memset(text, '[', HTTP_JSON_DEPTH_MAX);
    memset(text + HTTP_JSON_DEPTH_MAX, ']', HTTP_JSON_DEPTH_MAX);
    struct error err = ERROR_INIT;
    json_t *value = http_json_parse(text, 2 * HTTP_JSON_DEPTH_MAX, &err);
    assert_non_null(value);
    json_decref(value);
    memset(text, '[', HTTP_JSON_DEPTH_MAX + 1);
    memset(text + HTTP_JSON_DEPTH_MAX + 1, ']', HTTP_JSON_DEPTH_MAX + 1);
    assert_refused(text, sizeof(text), "deeper than 32");
    /* Brackets in strings do not count, also behind escaped quotes. */
    json_decref(parse("\"\\\\\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\""));
}

/* [x,x,...] with so many elements; the array itself is one more value. */
static void array_of(struct buf *out, const char *element, size_t count)
{
    buf_clear(out);
    for (size_t i = 0; i < count; i++) {
        buf_add_char(out, i == 0 ? '[' : ',');
        buf_add_str(out, element);
    }
    buf_add_char(out, ']');
}

static void test_values_are_bounded(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct buf text;
    buf_init(&text, 1 << 20);
    array_of(&text, "1", HTTP_JSON_VALUES_MAX - 1);
    json_t *value = http_json_parse(text.data, text.length, &err);
    assert_non_null(value);
    json_decref(value);
    array_of(&text, "1", HTTP_JSON_VALUES_MAX);
    assert_refused(text.data, text.length, "more than 100000 values");
    /* Empty containers count once, full ones with what is in them. */
    array_of(&text, "[ ]", HTTP_JSON_VALUES_MAX - 1);
    value = http_json_parse(text.data, text.length, &err);
    assert_non_null(value);
    json_decref(value);
    array_of(&text, "{\"a\":0}", HTTP_JSON_VALUES_MAX / 2);
    assert_refused(text.data, text.length, "more than 100000 values");
    buf_done(&text);
}

/* --- members ---------------------------------------------------------------------------------- */

static void test_members_present(void **state)
{
    (void)state;
    json_t *object = parse("{\"s\":\"abc\",\"i\":60,\"b\":true,\"o\":{},\"a\":[1]}");
    struct error err = ERROR_INIT;
    const char *string = NULL;
    int64_t integer = 0;
    bool boolean = false;
    json_t *member = NULL;
    assert_int_equal(http_json_string(object, "s", 3, &string, &err), 0);
    assert_string_equal(string, "abc");
    assert_int_equal(http_json_int(object, "i", 60, 60, &integer, &err), 0);
    assert_int_equal(integer, 60);
    assert_int_equal(http_json_bool(object, "b", &boolean, &err), 0);
    assert_true(boolean);
    assert_int_equal(http_json_object(object, "o", &member, &err), 0);
    assert_true(json_is_object(member));
    assert_int_equal(http_json_array(object, "a", &member, &err), 0);
    assert_int_equal(json_array_size(member), 1);
    json_decref(object);
}

static void test_members_absent_or_null(void **state)
{
    (void)state;
    json_t *object = parse("{\"n\":null}");
    static const char *const keys[] = {"n", "absent"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *string = "before";
        int64_t integer = 7;
        bool boolean = true;
        json_t *member = object;
        assert_int_equal(http_json_string(object, keys[i], 1, &string, NULL), 0);
        assert_int_equal(http_json_int(object, keys[i], 0, 1, &integer, NULL), 0);
        assert_int_equal(http_json_bool(object, keys[i], &boolean, NULL), 0);
        assert_int_equal(http_json_object(object, keys[i], &member, NULL), 0);
        assert_int_equal(http_json_array(object, keys[i], &member, NULL), 0);
        assert_string_equal(string, "before");
        assert_int_equal(integer, 7);
        assert_true(boolean);
        assert_ptr_equal(member, object);
    }
    json_decref(object);
}

static void assert_int_message(const char *json, const char *expected)
{
    json_t *object = parse(json);
    struct error err = ERROR_INIT;
    int64_t value = 7;
    assert_true(http_json_int(object, "timeout", 60, 86400, &value, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.message, expected);
    assert_int_equal(value, 7);
    json_decref(object);
}

static void test_members_wrong(void **state)
{
    (void)state;
#define MUST "`timeout` must be an integer from 60 to 86400, not "
    assert_int_message("{\"timeout\":\"abc\"}", MUST "\"abc\"");
    assert_int_message("{\"timeout\":59}", MUST "59");
    assert_int_message("{\"timeout\":86401}", MUST "86401");
    assert_int_message("{\"timeout\":60.5}", MUST "60.5");
    assert_int_message("{\"timeout\":true}", MUST "true");
    assert_int_message("{\"timeout\":{}}", MUST "an object");
    assert_int_message("{\"timeout\":[1]}", MUST "an array");
    /* Long and unfriendly values are cut and escaped. */
    assert_int_message("{\"timeout\":\"\\u001b[1m\\n\\\"\"}", MUST "\"\\x1b[1m\\x0a\\x22\"");
    assert_int_message("{\"timeout\":\"0123456789012345678901234567890123456789"
                       "0123456789012345678901234567890123456789\"}",
                       MUST "\"012345678901234567890123456789012345678901234567890123456789...\"");

    json_t *object = parse("{\"s\":\"abcd\",\"x\":1}");
    struct error err = ERROR_INIT;
    const char *string = NULL;
    bool boolean;
    json_t *member;
    assert_true(http_json_string(object, "s", 3, &string, &err) < 0);
    assert_string_equal(err.message, "`s` must be a string of at most 3 bytes, not 4");
    assert_true(http_json_string(object, "x", 3, &string, &err) < 0);
    assert_string_equal(err.message, "`x` must be a string, not 1");
    assert_null(string);
    assert_true(http_json_bool(object, "x", &boolean, &err) < 0);
    assert_string_equal(err.message, "`x` must be true or false, not 1");
    assert_true(http_json_object(object, "x", &member, &err) < 0);
    assert_string_equal(err.message, "`x` must be an object, not 1");
    assert_true(http_json_array(object, "s", &member, &err) < 0);
    assert_string_equal(err.message, "`s` must be an array, not \"abcd\"");
    json_decref(object);
}

static void test_reply(void **state)
{
    (void)state;
    http_exchange_reply_json(NULL, 202, json_pack("{s:s, s:[i,i]}", "a", "b", "c", 1, 2));
    assert_int_equal(replied_status, 202);
    assert_string_equal(replied_type, "application/json");
    assert_string_equal(replied_body, "{\"a\":\"b\",\"c\":[1,2]}");
    http_exchange_reply_json(NULL, 200, NULL);
    assert_int_equal(replied_status, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_any_one_value), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_depth_is_bounded),      cmocka_unit_test(test_values_are_bounded),
        cmocka_unit_test(test_members_present),       cmocka_unit_test(test_members_absent_or_null),
        cmocka_unit_test(test_members_wrong),         cmocka_unit_test(test_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
