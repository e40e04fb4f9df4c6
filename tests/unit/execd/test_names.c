#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/names.h"

static char passwd[] = "/tmp/osb-names-XXXXXX";
static const struct execd_users users = {.passwd_path = passwd, .group_path = "/nowhere/group"};

static void write_users(const char *text)
{
    FILE *file = fopen(passwd, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(passwd);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(passwd);
}

static void test_names(void **state)
{
    (void)state;
    write_users("root:x:0:0:root:/root:/bin/sh\n#no:x:5:5::\n+no:x:6:6::\nbroken\n:x:7:7::\n"
                "bad:x:12a:1::\nme:x:1000:1000::/home/me:/bin/sh\nlater:x:1000:1::/:\nlast:x:8:8");
    struct execd_names names;
    execd_names_init(&names, &users);
    static const struct {
        uint32_t id;
        const char *name;
    } cases[] = {{0, "root"},  {5, "5"},    {6, "6"},   {7, "7"},    {12, "12"},
                 {1000, "me"}, {8, "last"}, {64, "64"}, {0, "root"}, {4294967295U, "4294967295"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(execd_names_get(&names, EXECD_NAMES_USER, cases[i].id), cases[i].name);
    assert_string_equal(execd_names_get(&names, EXECD_NAMES_GROUP, 3), "3");
    execd_names_done(&names);
}

/* What was looked up once is not looked up again. */
static void test_names_are_kept(void **state)
{
    (void)state;
    write_users("one:x:1:1::\n");
    struct execd_names names;
    execd_names_init(&names, &users);
    assert_string_equal(execd_names_get(&names, EXECD_NAMES_USER, 1), "one");
    write_users("other:x:1:1::\n");
    assert_string_equal(execd_names_get(&names, EXECD_NAMES_USER, 1), "one");
    execd_names_done(&names);
}

static void test_parse(void **state)
{
    (void)state;
    write_users("me:x:1000:1000::\n33:x:5:5::\n");
    static const struct {
        const char *text;
        bool known;
        uint32_t id;
    } cases[] = {{"me", true, 1000},       {"33", true, 5},
                 {"34", true, 34},         {"you", false, 0},
                 {"", false, 0},           {"-1", false, 0},
                 {"4294967295", false, 0}, {"4294967294", true, 4294967294U}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint32_t id = 0;
        assert_int_equal(execd_names_parse(&users, EXECD_NAMES_USER, cases[i].text, &id),
                         cases[i].known);
        assert_int_equal(id, cases[i].id);
    }
}

static void test_odd_files(void **state)
{
    (void)state;
    uint32_t id;
    /* A long line hides nothing but itself. */
    FILE *file = fopen(passwd, "we");
    for (int i = 0; i < 300; i++)
        assert_true(fputs("nobody", file) >= 0);
    assert_true(fputs(":x:1:1::\ngood:x:2:2:", file) >= 0);
    for (int i = 0; i < 10000; i++)
        assert_true(fputs("text", file) >= 0);
    assert_true(fputs("\nlast:x:3:3:\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_true(execd_names_parse(&users, EXECD_NAMES_USER, "good", &id) && id == 2);
    assert_true(execd_names_parse(&users, EXECD_NAMES_USER, "last", &id) && id == 3);
    /* A FIFO does not stop us. */
    assert_int_equal(unlink(passwd), 0);
    assert_int_equal(mkfifo(passwd, 0600), 0);
    assert_false(execd_names_parse(&users, EXECD_NAMES_USER, "good", &id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_are_kept),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_odd_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
