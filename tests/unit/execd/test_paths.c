#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "execd/paths.h"

static void fill(struct execd_env *env)
{
    execd_env_init(env);
    execd_env_set(env, "HOME", "/home/me");
    execd_env_set(env, "DIR", "/data");
    execd_env_set(env, "EMPTY", "");
    execd_env_set(env, "TILDE", "~");
}

static void test_expand(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *expected;
    } cases[] = {
        {"/a/b", "/a/b"},
        {"/", "/"},
        {"//", "/"},
        {"/a//b///c/", "/a/b/c"},
        {"/./a/././b/.", "/a/b"},
        {"/a/../b", "/a/../b"}, /* depends on what /a is */
        {"a", "/some/dir/a"},
        {".", "/some/dir"},
        {"./x", "/some/dir/x"},
        {"$DIR", "/data"},
        {"$DIR/x", "/data/x"},
        {"${DIR}x", "/datax"},
        {"/a${EMPTY}b", "/ab"},
        {"/a$DIR", "/a/data"},
        {"$HOME/x", "/home/me/x"},
        {"~", "/home/me"},
        {"~/", "/home/me"},
        {"~/x", "/home/me/x"},
        {"$TILDE/x", "/home/me/x"},
        {"~other/x", "/some/dir/~other/x"},
        {"/a/~", "/a/~"},
        {"/cost$5", "/cost$5"},
        {"/a$", "/a$"},
        {"/$$DIR", "/$/data"},
        {"/.hidden", "/.hidden"},
        {"/..a", "/..a"},
    };
    struct execd_env env;
    fill(&env);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        AUTO_FREE char *path = NULL;
        assert_int_equal(execd_path_expand(cases[i].path, &env, "/some/dir", &path, &err), 0);
        assert_string_equal(path, cases[i].expected);
    }
    execd_env_done(&env);
}

static void check_refused(const char *path, const struct execd_env *env, const char *reason)
{
    struct error err = ERROR_INIT;
    char *result = NULL;
    assert_true(execd_path_expand(path, env, "/", &result, &err) < 0);
    assert_null(result);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.message, reason));
}

static void test_refused(void **state)
{
    (void)state;
    struct execd_env env;
    fill(&env);
    check_refused("", &env, "empty");
    check_refused("$EMPTY", &env, "empty after expansion");
    check_refused("/$ONE/${TWO}", &env, "ONE, TWO");
    check_refused("/${DIR", &env, "${NAME}");
    check_refused("/${}", &env, "${NAME}");
    check_refused("/${D IR}", &env, "${NAME}");

    char longer[PATH_MAX + 10];
    memset(longer, 'a', sizeof(longer));
    longer[0] = '/';
    longer[PATH_MAX] = '\0';
    check_refused(longer, &env, "longer than");
    execd_env_unset(&env, "HOME");
    check_refused("~/x", &env, "HOME");
    execd_env_done(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
