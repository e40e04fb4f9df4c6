#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "execd/env.h"

static void test_set_replaces(void **state)
{
    (void)state;
    struct execd_env env;
    execd_env_init(&env);
    assert_null(execd_env_array(&env)[0]);
    assert_int_equal(execd_env_set(&env, "A", "1"), 0);
    assert_int_equal(execd_env_set(&env, "AB", "2"), 0);
    assert_int_equal(execd_env_set(&env, "A", "3"), 0);
    assert_int_equal(execd_env_set_pair(&env, "C=x=y"), 0);
    assert_int_equal(env.count, 3);
    assert_string_equal(execd_env_find(&env, "A"), "3");
    assert_string_equal(execd_env_find(&env, "AB"), "2");
    assert_string_equal(execd_env_find(&env, "C"), "x=y");
    assert_null(execd_env_find(&env, "B"));
    assert_null(execd_env_array(&env)[3]);

    execd_env_unset(&env, "AB");
    execd_env_unset(&env, "NOT_THERE");
    assert_int_equal(env.count, 2);
    assert_null(execd_env_find(&env, "AB"));
    assert_null(execd_env_array(&env)[2]);
    execd_env_done(&env);
}

static void test_refused(void **state)
{
    (void)state;
    struct execd_env env;
    execd_env_init(&env);
    assert_int_equal(execd_env_set(&env, "", "1"), -EINVAL);
    assert_int_equal(execd_env_set(&env, "A=B", "1"), -EINVAL);
    assert_int_equal(execd_env_set_pair(&env, "A"), -EINVAL);
    assert_int_equal(execd_env_set_pair(&env, "=x"), -EINVAL);

    AUTO_FREE char *value = mem_alloc(EXECD_STRING_MAX + 1);
    memset(value, 'x', EXECD_STRING_MAX - 2);
    assert_int_equal(execd_env_set(&env, "A", value), 0);
    value[EXECD_STRING_MAX - 2] = 'x';
    assert_int_equal(execd_env_set(&env, "A", value), -E2BIG);
    assert_int_equal(env.count, 1);
    execd_env_done(&env);
}

static void test_count_is_bounded(void **state)
{
    (void)state;
    struct execd_env env;
    execd_env_init(&env);
    for (int i = 0; i < EXECD_ENV_MAX; i++) {
        AUTO_FREE char *name = mem_printf("N%d", i);
        assert_int_equal(execd_env_set(&env, name, ""), 0);
    }
    assert_int_equal(execd_env_set(&env, "ONE_MORE", ""), -E2BIG);
    assert_int_equal(execd_env_set(&env, "N7", "replaced"), 0);
    execd_env_done(&env);
}

static void test_copy_is_apart(void **state)
{
    (void)state;
    struct execd_env a;
    struct execd_env b;
    execd_env_init(&a);
    execd_env_init(&b);
    execd_env_set(&a, "A", "1");
    execd_env_copy(&b, &a);
    execd_env_set(&b, "A", "2");
    assert_string_equal(execd_env_find(&a, "A"), "1");
    assert_string_equal(execd_env_find(&b, "A"), "2");
    execd_env_done(&a);
    execd_env_done(&b);
}

static void test_file(void **state)
{
    (void)state;
    static const char text[] = "# comment\n"
                               "\n"
                               "PLAIN=value\r\n"
                               "  PATH=$PATH:/opt/bin\n"
                               "malformed line\n"
                               "=nameless\n"
                               "PLAIN=later wins\n"
                               "UNSET=[${NOTHING}]\n"
                               "OLD=$PLAIN\n"
                               "LAST=no newline";
    struct execd_env env;
    execd_env_init(&env);
    execd_env_set(&env, "PATH", "/bin");
    execd_env_set(&env, "PLAIN", "before");
    execd_env_add_file(&env, text, strlen(text));
    assert_string_equal(execd_env_find(&env, "PLAIN"), "later wins");
    assert_string_equal(execd_env_find(&env, "PATH"), "/bin:/opt/bin");
    assert_string_equal(execd_env_find(&env, "UNSET"), "[]");
    assert_string_equal(execd_env_find(&env, "OLD"), "before");
    assert_string_equal(execd_env_find(&env, "LAST"), "no newline");
    assert_int_equal(env.count, 5);
    execd_env_done(&env);
}

static void test_file_quotes(void **state)
{
    (void)state;
    static const char text[] = "SINGLE='$PATH \\n \"x\"'\n"
                               "LINES='one\ntwo=2\n'\n"
                               "DOUBLE=\"it's\\t\\\"$PATH\\\"\\\\n\"  # said\n"
                               "EMPTY=''\r\n"
                               "NONE=\n"
                               "OPEN='not closed\n"
                               "MORE='a' b\n"
                               "HASH='a'#b\n"
                               "ESCAPED=\"\\$PATH\"\n"
                               "END=\"to the last byte\"";
    static const char *const expected[][2] = {
        {"SINGLE", "$PATH \\n \"x\""},
        {"LINES", "one\ntwo=2\n"},
        {"DOUBLE", "it's\t\"/bin\"\\n"},
        {"EMPTY", ""},
        {"NONE", ""},
        {"OPEN", "'not closed"},
        {"MORE", "'a' b"},
        {"HASH", "'a'#b"},
        {"ESCAPED", "$PATH"},
        {"END", "to the last byte"},
    };
    struct execd_env env;
    execd_env_init(&env);
    execd_env_set(&env, "PATH", "/bin");
    execd_env_add_file(&env, text, strlen(text));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_string_equal(execd_env_find(&env, expected[i][0]), expected[i][1]);
    assert_int_equal(env.count, ARRAY_LEN(expected) + 1);
    execd_env_done(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_replaces),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_count_is_bounded),
        cmocka_unit_test(test_copy_is_apart),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
