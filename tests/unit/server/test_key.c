#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "server/key.h"

struct fixture {
    char dir[64];
    char *own;
    char *path;
};

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof(*fixture));
    strcpy(fixture->dir, "/tmp/osb-key-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->own = mem_printf("%s/server", fixture->dir);
    fixture->path = mem_printf("%s/api-key", fixture->own);
    assert_int_equal(mkdir(fixture->own, 0700), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(file_remove_tree_at(AT_FDCWD, fixture->dir, NULL), 0);
    free(fixture->own);
    free(fixture->path);
    free(fixture);
    return 0;
}

static void test_made_once(void **state)
{
    struct fixture *fixture = *state;
    AUTO_FREE char *first = NULL;
    AUTO_FREE char *second = NULL;
    bool is_new = false;
    assert_int_equal(server_key_load(fixture->dir, &first, &is_new, NULL), 0);
    assert_true(is_new);
    assert_int_equal(strlen(first), ID_TOKEN_LEN);
    struct stat stat_buf;
    assert_int_equal(stat(fixture->path, &stat_buf), 0);
    assert_int_equal(stat_buf.st_mode & 07777, 0600);
    assert_int_equal(stat_buf.st_size, ID_TOKEN_LEN + 1);
    assert_int_equal(server_key_load(fixture->dir, &second, &is_new, NULL), 0);
    assert_false(is_new);
    assert_string_equal(first, second);
}

static void expect_refusal(struct fixture *fixture, const char *what)
{
    struct error err = ERROR_INIT;
    char *key = NULL;
    bool is_new = false;
    assert_true(server_key_load(fixture->dir, &key, &is_new, &err) < 0);
    assert_null(key);
    if (strstr(err.message, fixture->path) == NULL || strstr(err.message, what) == NULL)
        fail_msg("%s", err.message);
}

static void write_key(struct fixture *fixture, const char *text, mode_t mode)
{
    unlink(fixture->path);
    int fd = open(fixture->path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

#define KEY "0123456789012345678901234567890123456789012"

static void test_readable_by_others(void **state)
{
    struct fixture *fixture = *state;
    static const mode_t modes[] = {0640, 0604, 0644, 0660, 0620};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        write_key(fixture, KEY "\n", modes[i]);
        expect_refusal(fixture, "chmod");
    }
    write_key(fixture, KEY "\n", 0600);
    AUTO_FREE char *key = NULL;
    bool is_new;
    assert_int_equal(server_key_load(fixture->dir, &key, &is_new, NULL), 0);
    assert_string_equal(key, KEY);
}

static void test_owned_by_another(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0)
        skip();
    write_key(fixture, KEY, 0600);
    assert_int_equal(chown(fixture->path, 12345, 12345), 0);
    expect_refusal(fixture, "12345");
}

static void test_damaged(void **state)
{
    struct fixture *fixture = *state;
    static const char *const rows[] = {"", "short\n", KEY "x\n", KEY "\n\n", KEY "\nmore"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        write_key(fixture, rows[i], 0600);
        expect_refusal(fixture, "remove it");
    }
}

static void test_not_a_file(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(symlink("/etc/passwd", fixture->path), 0);
    expect_refusal(fixture, "");
    unlink(fixture->path);
    assert_int_equal(mkfifo(fixture->path, 0600), 0);
    expect_refusal(fixture, "regular");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_made_once), TEST(test_readable_by_others), TEST(test_owned_by_another),
        TEST(test_damaged),   TEST(test_not_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
