#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

static void test_set(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(error_set(&err, ERR_INVALID, "port %d is too large", 70000), -EINVAL);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.message, "port 70000 is too large");
}

static void test_set_errno(void **state)
{
    (void)state;
    static const struct {
        int sys;
        enum error_code code;
    } cases[] = {
        {ENOENT, ERR_NOT_FOUND},   {EEXIST, ERR_CONFLICT},    {EACCES, ERR_DENIED},
        {EMSGSIZE, ERR_LIMIT},     {ETIMEDOUT, ERR_TIMEOUT},  {ECONNREFUSED, ERR_UNAVAILABLE},
        {ENOSPC, ERR_UNAVAILABLE}, {ENOSYS, ERR_UNSUPPORTED}, {ENAMETOOLONG, ERR_INVALID},
        {EINVAL, ERR_INTERNAL},    {EIO, ERR_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(error_set_errno(&err, cases[i].sys, "x"), -cases[i].sys);
        assert_int_equal(err.code, cases[i].code);
        assert_int_equal(err.sys, cases[i].sys);
    }
    struct error err = ERROR_INIT;
    error_set_errno(&err, ENOENT, "cannot open '%s'", "/x");
    assert_string_equal(err.message, "cannot open '/x': No such file or directory");
}

static void test_wrap(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    error_set_errno(&err, ENOSPC, "cannot mount overlay");
    assert_int_equal(error_wrap(&err, "cannot start sandbox %d", 7), -ENOSPC);
    assert_string_equal(err.message,
                        "cannot start sandbox 7: cannot mount overlay: No space left on device");
    assert_int_equal(err.code, ERR_UNAVAILABLE);

    error_set(&err, ERR_DENIED, "no");
    assert_int_equal(error_wrap(&err, "login"), -EACCES);
    assert_string_equal(err.message, "login: no");
}

static void test_message_may_be_its_own_argument(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    error_set(&err, ERR_INVALID, "inner");
    error_set(&err, ERR_INTERNAL, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
}

static void test_null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ERR_NOT_FOUND, "x"), -ENOENT);
    assert_int_equal(error_set_errno(NULL, EPERM, "x"), -EPERM);
    assert_true(error_wrap(NULL, "x") < 0);
}

static void test_long_messages_are_cut_between_characters(void **state)
{
    (void)state;
    char text[2 * ERROR_MESSAGE_MAX];
    for (size_t shift = 0; shift < 3; shift++) {
        size_t length = shift;
        memset(text, 'a', shift);
        for (; length + 3 < sizeof(text); length += 3)
            memcpy(text + length, "\xe2\x82\xac", 3);
        text[length] = '\0';
        struct error err = ERROR_INIT;
        error_set(&err, ERR_INVALID, "%s", text);
        size_t got = strlen(err.message);
        assert_true(got < ERROR_MESSAGE_MAX && got > ERROR_MESSAGE_MAX - 8);
        assert_string_equal(err.message + got - 3, "...");
        assert_true(str_is_utf8(err.message, got));
        error_wrap(&err, "context");
        got = strlen(err.message);
        assert_true(got < ERROR_MESSAGE_MAX && str_is_utf8(err.message, got));
        assert_memory_equal(err.message, "context: ", 9);
        assert_string_equal(err.message + got - 3, "...");
    }
}

static void test_code_names(void **state)
{
    (void)state;
    assert_string_equal(error_code_name(ERR_OK), "OK");
    assert_string_equal(error_code_name(ERR_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(error_code_name(ERR_INTERNAL), "INTERNAL");
    assert_string_equal(error_code_name((enum error_code)99), "INTERNAL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_set_errno),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_message_may_be_its_own_argument),
        cmocka_unit_test(test_null_is_allowed),
        cmocka_unit_test(test_long_messages_are_cut_between_characters),
        cmocka_unit_test(test_code_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
