#include <dirent.h>
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

#include "base/buf.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/mem.h"
#include "execd/walk.h"
#include "execd/walk_names.h"

static char folder[] = "/tmp/osb-walk-XXXXXX";

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/osb-walk-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return file_remove_tree_at(AT_FDCWD, folder, NULL);
}

static void make(const char *name, bool directory)
{
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    if (directory)
        assert_int_equal(mkdir(path, 0755), 0);
    else
        assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
}

static struct execd_walk *walk_new(bool leaving, const atomic_bool *gone)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return execd_walk_new(fd, folder, leaving, gone);
}

/* The whole walk as text: relative paths, "-" before those that are left. */
static char *walk_text(bool leaving)
{
    atomic_bool gone = false;
    struct error err = ERROR_INIT;
    struct buf text;
    buf_init(&text, 1 << 20);
    struct execd_walk *walk = walk_new(leaving, &gone);
    struct execd_walk_entry entry;
    int r;
    while ((r = execd_walk_next(walk, &entry, &err)) > 0) {
        buf_printf(&text, "%s%s ", entry.leaving ? "-" : "", entry.relative);
        struct stat st;
        assert_int_equal(fstatat(entry.dir_fd, entry.name, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(strlen(entry.path), entry.path_length);
        if (!entry.leaving && S_ISDIR(st.st_mode))
            assert_int_equal(execd_walk_enter(walk, false, &err), 1);
    }
    assert_int_equal(r, 0);
    execd_walk_free(walk);
    return buf_take(&text);
}

static void make_tree(void)
{
    make("b", true);
    make("b/2", false);
    make("b/1", true);
    make("b/1/x", false);
    make("a", false);
    make("c", true);
    make("B", false);
    make("b.c", false);
    AUTO_FREE char *link = mem_printf("%s/l", folder);
    assert_int_equal(symlink("b", link), 0);
}

static void test_order(void **state)
{
    (void)state;
    make_tree();
    AUTO_FREE char *text = walk_text(false);
    assert_string_equal(text, "B a b b/1 b/1/x b/2 b.c c l ");
}

static void test_leaving(void **state)
{
    (void)state;
    make_tree();
    AUTO_FREE char *text = walk_text(true);
    assert_string_equal(text, "B a b b/1 b/1/x -b/1 b/2 -b b.c c -c l ");
}

static void test_nothing(void **state)
{
    (void)state;
    AUTO_FREE char *text = walk_text(true);
    assert_string_equal(text, "");
    execd_walk_free(NULL);
}

/* Directories that are not entered are passed by. */
static void test_not_entering(void **state)
{
    (void)state;
    make_tree();
    atomic_bool gone = false;
    struct execd_walk *walk = walk_new(false, &gone);
    struct execd_walk_entry entry;
    size_t count = 0;
    while (execd_walk_next(walk, &entry, NULL) > 0) {
        assert_int_equal(entry.depth, 1);
        count++;
    }
    assert_int_equal(count, 6);
    execd_walk_free(walk);
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

#define DEEP 3000

/* Far deeper than PATH_MAX; behind each directory comes a file, which is found on the way back. */
static void test_depth(void **state)
{
    (void)state;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdirat(fd, "dir", 0755), 0);
        fd_close(openat(fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        int next = openat(fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(fd);
        fd = next;
    }
    fd_close(fd);
    atomic_bool gone = false;
    size_t before = open_files();
    struct execd_walk *walk = walk_new(false, &gone);
    struct execd_walk_entry entry;
    size_t files = 0;
    size_t most = 0;
    while (execd_walk_next(walk, &entry, NULL) > 0) {
        if (strcmp(entry.name, "dir") == 0) {
            assert_int_equal(execd_walk_enter(walk, false, NULL), 1);
            most = MAX(most, entry.depth);
        } else {
            assert_int_equal(entry.depth, DEEP - files);
            assert_int_equal(faccessat(entry.dir_fd, entry.name, F_OK, 0), 0);
            files++;
        }
        if (entry.depth % 500 == 0)
            assert_true(open_files() < before + 20);
    }
    assert_int_equal(files, DEEP);
    assert_int_equal(most, DEEP);
    execd_walk_free(walk);
    assert_int_equal(open_files(), before);
}

/* A directory that is moved away while we are in it: what is left of its parent is still found. */
static void test_moved_away(void **state)
{
    (void)state;
    AUTO_FREE char *deep = mem_printf("%s/a", folder);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mkdir(deep, 0755), 0);
        char *next = mem_printf("%s/a", deep);
        free(deep);
        deep = next;
    }
    make("a/b", false);
    atomic_bool gone = false;
    struct execd_walk *walk = walk_new(false, &gone);
    struct execd_walk_entry entry;
    bool found = false;
    AUTO_FREE char *from = mem_printf("%s/a/a", folder);
    AUTO_FREE char *to = mem_printf("%s/moved", folder);
    while (execd_walk_next(walk, &entry, NULL) > 0) {
        if (entry.depth == 20)
            assert_int_equal(rename(from, to), 0);
        found |= strcmp(entry.relative, "a/b") == 0;
        if (entry.name[0] != 'b')
            assert_true(execd_walk_enter(walk, false, NULL) >= 0);
        if (strcmp(entry.name, "moved") == 0)
            break;
    }
    assert_true(found);
    execd_walk_free(walk);
}

static void test_gone(void **state)
{
    (void)state;
    make_tree();
    atomic_bool gone = true;
    struct error err = ERROR_INIT;
    struct execd_walk *walk = walk_new(false, &gone);
    struct execd_walk_entry entry;
    assert_true(execd_walk_next(walk, &entry, &err) < 0);
    execd_walk_free(walk);
}

/* --- names ------------------------------------------------------------------------------------ */

#define NAMES 3000

static void check_names(size_t limit)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FREE char *scratch = mem_alloc(EXECD_WALK_READ_BYTES);
    atomic_bool gone = false;
    struct execd_walk_names names = {0};
    char last[256] = "";
    size_t count = 0;
    size_t readings = 0;
    do {
        AUTO_FREE char *after = count > 0 ? mem_dup(last) : NULL;
        assert_int_equal(execd_walk_names_fill(&names, fd, after, limit, scratch, &gone), 0);
        struct execd_walk_name name;
        while (execd_walk_names_next(&names, &name)) {
            char expected[32];
            snprintf(expected, sizeof(expected), "name-%06zu", count++);
            assert_string_equal(name.name, expected);
            assert_int_equal(name.type, DT_REG);
            snprintf(last, sizeof(last), "%s", name.name);
        }
        assert_true(execd_walk_names_bytes(&names) <= 2 * limit + 1024);
        readings++;
    } while (!names.complete);
    assert_int_equal(count, NAMES);
    assert_int_equal(readings == 1, limit > NAMES * 32);
    execd_walk_names_done(&names);
    fd_close(fd);
}

static void test_names_in_little_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "name-%06zu", i * 7919 % NAMES);
        make(name, false);
    }
    check_names(4096);
    check_names(10000);
    check_names(1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaving, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_entering, setup, teardown),
        cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_in_little_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
