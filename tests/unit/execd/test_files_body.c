#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/macros.h"
#include "execd/files_body.h"

static void test_permissions(void **state)
{
    (void)state;
    const char *text = "{\"/a\":{\"owner\":\"me\",\"group\":\"\",\"mode\":644,\"other\":[1]},"
                       "\"/b\":{\"owner\":null,\"group\":\"us\",\"mode\":0},\"/c\":null}";
    struct execd_body body;
    assert_int_equal(execd_body_parse_permissions(text, strlen(text), &body, NULL), 0);
    assert_int_equal(body.count, 3);
    assert_string_equal(body.items[0].path, "/a");
    assert_string_equal(body.items[0].permission.owner, "me");
    assert_null(body.items[0].permission.group);
    assert_true(body.items[0].permission.has_mode);
    assert_int_equal(body.items[0].permission.mode, 0644);
    assert_null(body.items[1].permission.owner);
    assert_string_equal(body.items[1].permission.group, "us");
    assert_false(body.items[1].permission.has_mode);
    assert_string_equal(body.items[2].path, "/c");
    execd_body_done(&body);
}

static void test_moves(void **state)
{
    (void)state;
    const char *text = "[{\"src\":\"a\",\"dest\":\"b\"},{\"dest\":\"d\",\"src\":\"c\",\"x\":1}]";
    struct execd_body body;
    assert_int_equal(execd_body_parse_moves(text, strlen(text), &body, NULL), 0);
    assert_int_equal(body.count, 2);
    assert_string_equal(body.items[1].path, "c");
    assert_string_equal(body.items[1].dest, "d");
    execd_body_done(&body);
    assert_int_equal(execd_body_parse_moves("[]", 2, &body, NULL), 0);
    assert_int_equal(body.count, 0);
    execd_body_done(&body);
}

static void test_replacements(void **state)
{
    (void)state;
    const char *text = "{\"f\":{\"old\":\"a\",\"new\":\"\"},\"g\":{\"old\":\"b\",\"new\":null}}";
    struct execd_body body;
    assert_int_equal(execd_body_parse_replacements(text, strlen(text), &body, NULL), 0);
    assert_int_equal(body.count, 2);
    assert_int_equal(body.items[0].old_length, 1);
    assert_int_equal(body.items[0].new_length, 0);
    assert_string_equal(body.items[1].new_text, "");
    execd_body_done(&body);
}

typedef int parse_fn(const char *text, size_t length, struct execd_body *ret, struct error *err);

static void refuse(parse_fn *parse, const char *text, const char *part)
{
    struct execd_body body = {0};
    struct error err = ERROR_INIT;
    assert_true(parse(text, strlen(text), &body, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    assert_null(body.items);
    if (strstr(err.message, part) == NULL)
        fail_msg("%s: %s", text, err.message);
}

static void test_refused(void **state)
{
    (void)state;
    refuse(execd_body_parse_permissions, "", "JSON");
    refuse(execd_body_parse_permissions, "[]", "object");
    refuse(execd_body_parse_permissions, "null", "object");
    refuse(execd_body_parse_permissions, "{\"a\":5}", "\"a\"");
    refuse(execd_body_parse_permissions, "{\"a\":{\"mode\":\"644\"}}", "`mode`");
    refuse(execd_body_parse_permissions, "{\"a\":{\"mode\":888}}", "888");
    refuse(execd_body_parse_permissions, "{\"a\":{\"mode\":-1}}", "`mode`");
    refuse(execd_body_parse_permissions, "{\"a\":{\"mode\":77777}}", "`mode`");
    refuse(execd_body_parse_permissions, "{\"a\":{\"mode\":6.5}}", "`mode`");
    refuse(execd_body_parse_permissions, "{\"a\":{\"owner\":5}}", "`owner`");
    refuse(execd_body_parse_permissions, "{\"a\":{\"group\":[]}}", "`group`");
    refuse(execd_body_parse_permissions, "{\"a\":{},\"a\":{}}", "JSON");
    refuse(execd_body_parse_permissions, "{\"a\\u0000b\":{}}", "JSON");
    refuse(execd_body_parse_moves, "{}", "array");
    refuse(execd_body_parse_moves, "[5]", "item 1");
    refuse(execd_body_parse_moves, "[null]", "item 1");
    refuse(execd_body_parse_moves, "[{\"src\":\"a\",\"dest\":\"b\"},{\"src\":\"a\"}]", "item 2");
    refuse(execd_body_parse_moves, "[{\"dest\":\"a\"}]", "`src`");
    refuse(execd_body_parse_moves, "[{\"src\":\"\",\"dest\":\"b\"}]", "`src`");
    refuse(execd_body_parse_moves, "[{\"src\":null,\"dest\":\"b\"}]", "`src`");
    refuse(execd_body_parse_replacements, "{\"a\":{}}", "`old`");
    refuse(execd_body_parse_replacements, "{\"a\":null}", "\"a\"");
    refuse(execd_body_parse_replacements, "{\"a\":{\"old\":\"\",\"new\":\"x\"}}", "`old`");
    refuse(execd_body_parse_replacements, "{\"a\":{\"old\":\"x\",\"new\":5}}", "`new`");
}

static void test_limits(void **state)
{
    (void)state;
    struct buf text;
    struct execd_body body = {0};
    struct error err = ERROR_INIT;
    buf_init(&text, 8 << 20);
    buf_add_char(&text, '{');
    for (int i = 0; i <= EXECD_BODY_ITEMS_MAX; i++)
        buf_printf(&text, "%s\"%d\":{}", i > 0 ? "," : "", i);
    buf_add_char(&text, '}');
    assert_true(execd_body_parse_permissions(text.data, text.length, &body, &err) < 0);
    assert_non_null(strstr(err.message, "1025"));
    buf_clear(&text);
    buf_add_str(&text, "{\"a\":{\"old\":\"");
    for (int i = 0; i <= EXECD_BODY_OLD_MAX_BYTES; i++)
        buf_add_char(&text, 'x');
    buf_add_str(&text, "\"}}");
    assert_true(execd_body_parse_replacements(text.data, text.length, &body, &err) < 0);
    assert_non_null(strstr(err.message, "1048577"));
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permissions),  cmocka_unit_test(test_moves),
        cmocka_unit_test(test_replacements), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
