/* Users and groups from files of our own; a FIFO in their place must not stop us. */
#include <fcntl.h>
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

#include "base/mem.h"
#include "execd/credentials.h"

struct fixture {
    char directory[64];
    char passwd[96];
    char group[96];
    struct execd_users users;
};

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));
    snprintf(f->directory, sizeof(f->directory), "/tmp/osb-test-credentials-XXXXXX");
    if (mkdtemp(f->directory) == NULL)
        return -1;
    snprintf(f->passwd, sizeof(f->passwd), "%s/passwd", f->directory);
    snprintf(f->group, sizeof(f->group), "%s/group", f->directory);
    f->users = (struct execd_users){.passwd_path = f->passwd, .group_path = f->group};
    write_text(f->passwd, "root:x:0:0:root:/root:/bin/sh\n"
                          "broken line\n"
                          "me:x:1000:100:Me:/home/me:/bin/sh\n"
                          "777:x:42:42:a number as a name:/:/bin/sh\n");
    write_text(f->group, "root:x:0:\n"
                         "users:x:100:\n"
                         "audio:x:29:you,me\n"
                         "video:x:44:me\n"
                         "almost:x:45:mee,m\n");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    unlink(f->passwd);
    unlink(f->group);
    rmdir(f->directory);
    free(f);
    return 0;
}

static void test_names(void **state)
{
    struct fixture *f = *state;
    uid_t uid = 7;
    gid_t gid = 7;
    assert_true(execd_users_find_uid(&f->users, "me", &uid));
    assert_int_equal(uid, 1000);
    assert_false(execd_users_find_uid(&f->users, "you", &uid));
    assert_int_equal(uid, 1000);
    assert_true(execd_users_find_gid(&f->users, "video", &gid));
    assert_int_equal(gid, 44);
    assert_true(execd_users_parse_uid(&f->users, "777", &uid)); /* names come first */
    assert_int_equal(uid, 42);
    assert_true(execd_users_parse_uid(&f->users, "778", &uid));
    assert_int_equal(uid, 778);
    assert_false(execd_users_parse_uid(&f->users, "-1", &uid));
    assert_false(execd_users_parse_uid(&f->users, "4294967295", &uid));
    AUTO_FREE char *name = execd_users_find_name(&f->users, 1000);
    AUTO_FREE char *group = execd_users_find_group_name(&f->users, 100);
    AUTO_FREE char *home = execd_users_find_home(&f->users, 1000);
    assert_string_equal(name, "me");
    assert_string_equal(group, "users");
    assert_string_equal(home, "/home/me");
    assert_null(execd_users_find_name(&f->users, 31337));
}

static void test_known_user(void **state)
{
    struct fixture *f = *state;
    struct execd_credentials credentials;
    execd_credentials_from_uid(&credentials, &f->users, 1000, NULL);
    assert_int_equal(credentials.uid, 1000);
    assert_int_equal(credentials.gid, 100);
    assert_int_equal(credentials.group_count, 3);
    assert_int_equal(credentials.groups[0], 100);
    assert_int_equal(credentials.groups[1], 29);
    assert_int_equal(credentials.groups[2], 44);

    gid_t gid = 5;
    execd_credentials_from_uid(&credentials, &f->users, 1000, &gid);
    assert_int_equal(credentials.gid, 5);
}

static void test_unknown_user_is_not_in_group_0(void **state)
{
    struct fixture *f = *state;
    struct execd_credentials credentials;
    execd_credentials_from_uid(&credentials, &f->users, 70000, NULL);
    assert_int_equal(credentials.uid, 70000);
    assert_int_equal(credentials.gid, 70000);
    assert_int_equal(credentials.group_count, 0);
}

static void test_user_text(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct execd_credentials credentials;
    assert_int_equal(execd_credentials_from_user(&credentials, &f->users, "me", &err), 0);
    assert_int_equal(credentials.gid, 100);
    assert_int_equal(execd_credentials_from_user(&credentials, &f->users, "me:video", &err), 0);
    assert_int_equal(credentials.uid, 1000);
    assert_int_equal(credentials.gid, 44);
    assert_int_equal(execd_credentials_from_user(&credentials, &f->users, "12:34", &err), 0);
    assert_int_equal(credentials.uid, 12);
    assert_int_equal(credentials.gid, 34);
    assert_true(execd_credentials_from_user(&credentials, &f->users, "you", &err) < 0);
    assert_non_null(strstr(err.message, "you"));
    assert_true(execd_credentials_from_user(&credentials, &f->users, "me:nothing", &err) < 0);
    assert_non_null(strstr(err.message, "nothing"));
    assert_true(execd_credentials_from_user(&credentials, &f->users, ":video", &err) < 0);
}

static void test_hostile_files(void **state)
{
    struct fixture *f = *state;
    uid_t uid;
    unlink(f->passwd);
    assert_false(execd_users_find_uid(&f->users, "me", &uid));
    assert_int_equal(mkfifo(f->passwd, 0600), 0);
    assert_false(execd_users_find_uid(&f->users, "me", &uid)); /* and returns at all */
    unlink(f->passwd);
    write_text(f->passwd, "me:x:1000:100:Me:/home/me:/bin/sh\n");
    assert_true(execd_users_find_uid(&f->users, "me", &uid));
    assert_int_equal(truncate(f->passwd, 64 * 1024 * 1024), 0);
    assert_false(execd_users_find_uid(&f->users, "me", &uid));
}

/* Entries that libc reads and that would mean "stay root" or a name service. */
static void test_entries_that_do_not_count(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct execd_credentials credentials;
    uid_t uid;
    gid_t gid;
    write_text(f->passwd, "minus:x:4294967295:0::/:\n"
                          "negative:x:-1:0::/:\n"
                          "group:x:7:4294967295::/:\n"
                          "+::0:0:::\n"
                          "+nis::0:0:::\n"
                          "good:x:8:9::/good:\n");
    write_text(f->group, "minus:x:4294967295:good\n+:x:0:good\nlast:x:10:good\n");
    static const char *const names[] = {"minus", "negative", "group", "+", "+nis"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_false(execd_users_find_uid(&f->users, names[i], &uid));
        assert_true(execd_credentials_from_user(&credentials, &f->users, names[i], &err) < 0);
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_false(execd_users_find_gid(&f->users, "minus", &gid));
    assert_int_equal(execd_credentials_from_user(&credentials, &f->users, "good", &err), 0);
    assert_int_equal(credentials.group_count, 2);
    assert_int_equal(credentials.groups[0], 9);
    assert_int_equal(credentials.groups[1], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_known_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_user_is_not_in_group_0, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_user_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_entries_that_do_not_count, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
