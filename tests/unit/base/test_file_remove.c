#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static char root[] = "/tmp/test-remove-XXXXXX";
static int root_fd = -1;

/* The attacker: this definition takes the place of libc's, so that a test can change the tree right
 * before any step of the removal. */
static void (*hook)(const char *name, int flags);
static int hook_calls;

static void set_hook(void (*function)(const char *name, int flags))
{
    hook_calls = 0;
    hook = function;
}

int unlinkat(int dir_fd, const char *name, int flags)
{
    if (hook != NULL)
        hook(name, flags);
    return (int)syscall(SYS_unlinkat, dir_fd, name, flags);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(root) == NULL)
        return -1;
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (getuid() == 0 && seteuid(0) < 0) /* a failed test may have stayed somebody else */
        return -1;
    root_fd = fd_close(root_fd);
    return file_remove_tree_at(AT_FDCWD, root, NULL);
}

static void make_file(int dir_fd, const char *name)
{
    AUTO_CLOSE int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static bool exists(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void assert_removed(const char *name)
{
    struct error err = ERROR_INIT;
    if (file_remove_tree_at(root_fd, name, &err) != 0)
        fail_msg("%s", err.message);
    assert_false(exists(root_fd, name));
}

/* A chain of `depth` directories called d, a file and `siblings` more directories in each. */
static void make_chain(int start_fd, int depth, int siblings)
{
    AUTO_CLOSE int fd = fcntl(start_fd, F_DUPFD_CLOEXEC, 0);
    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        for (int k = 0; k < siblings; k++) {
            char name[16];
            snprintf(name, sizeof(name), "s%d", k);
            assert_int_equal(mkdirat(fd, name, 0700), 0);
            AUTO_CLOSE int sibling = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            make_file(sibling, "f");
        }
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        fd_close(fd);
        fd = next;
        make_file(fd, "f");
    }
}

static void test_simple(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(file_remove_tree_at(root_fd, "absent", &err), 0);
    make_file(root_fd, "plain");
    assert_removed("plain");
    assert_int_equal(mkdirat(root_fd, "empty", 0700), 0);
    assert_removed("empty");
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    assert_int_equal(mkdirat(root_fd, "tree/a", 0700), 0);
    make_file(root_fd, "tree/a/x");
    make_file(root_fd, "tree/.hidden");
    assert_int_equal(mkfifoat(root_fd, "tree/fifo", 0600), 0);
    assert_removed("tree");
    assert_int_equal(file_remove_tree_at(root_fd, "", &err), -EINVAL);
    assert_int_equal(file_remove_tree_at(root_fd, ".", &err), -EINVAL);
    assert_int_equal(file_remove_tree_at(root_fd, "..", &err), -EINVAL);
}

static void test_links_are_not_followed(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "keep", 0700), 0);
    make_file(root_fd, "keep/precious");
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    assert_int_equal(symlinkat("../keep", root_fd, "tree/link"), 0);
    assert_int_equal(symlinkat("..", root_fd, "tree/up"), 0);
    assert_int_equal(symlinkat("nowhere", root_fd, "tree/dangling"), 0);
    assert_int_equal(symlinkat("loop", root_fd, "tree/loop"), 0);
    assert_removed("tree");
    assert_int_equal(symlinkat("keep", root_fd, "top"), 0);
    assert_removed("top");
    assert_true(exists(root_fd, "keep/precious"));
    assert_removed("keep");
}

/* 10,000 levels with 64 descriptors to spend, and not a path in it that fits PATH_MAX. */
static void test_deep(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "deep", 0700), 0);
    AUTO_CLOSE int fd = openat(root_fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_chain(fd, 10000, 0);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_removed("deep");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_deep_and_bushy(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "bush", 0700), 0);
    AUTO_CLOSE int fd = openat(root_fd, "bush", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_chain(fd, 100, 3);
    assert_removed("bush");
}

static void test_wide(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "wide", 0700), 0);
    AUTO_CLOSE int fd = openat(root_fd, "wide", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "entry-%d", i);
        if (i % 10 == 0)
            assert_int_equal(mkdirat(fd, name, 0700), 0);
        else
            make_file(fd, name);
    }
    assert_removed("wide");
}

/* As root, and as somebody who must first give himself the rights. */
static void remove_mode_000(void)
{
    static const mode_t modes[] = {0000, 0400, 0500, 0100, 0200};
    assert_int_equal(mkdirat(root_fd, "modes", 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        char name[32], inner[48];
        snprintf(name, sizeof(name), "modes/%zu", i);
        snprintf(inner, sizeof(inner), "%s/in", name);
        assert_int_equal(mkdirat(root_fd, name, 0700), 0);
        assert_int_equal(mkdirat(root_fd, inner, 0700), 0);
        AUTO_CLOSE int fd = openat(root_fd, inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        make_chain(fd, 40, 1); /* deep enough to be moved */
        for (int k = 0; k < 40; k++) {
            AUTO_CLOSE int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            assert_true(next >= 0);
            assert_int_equal(fchmod(fd, modes[i]), 0);
            fd_close(fd);
            fd = TAKE_FD(next);
        }
        assert_int_equal(fchmodat(root_fd, inner, modes[i], 0), 0);
        assert_int_equal(fchmodat(root_fd, name, modes[i], 0), 0);
    }
    assert_removed("modes");
}

static void test_mode_000(void **state)
{
    (void)state;
    remove_mode_000();
}

static void test_mode_000_as_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(fchown(root_fd, 65534, 65534), 0);
    assert_int_equal(seteuid(65534), 0);
    remove_mode_000();
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(fchown(root_fd, 0, 0), 0);
}

/* What cannot be removed is reported; the rest goes all the same. */
static void test_mount_points_are_not_entered(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "outside", 0700), 0);
    make_file(root_fd, "outside/precious");
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    assert_int_equal(mkdirat(root_fd, "tree/a", 0700), 0);
    assert_int_equal(mkdirat(root_fd, "tree/a/mount", 0700), 0);
    make_file(root_fd, "tree/a/file");
    make_file(root_fd, "tree/z");
    AUTO_FREE char *source = mem_printf("%s/outside", root);
    AUTO_FREE char *target = mem_printf("%s/tree/a/mount", root);
    if (mount(source, target, NULL, MS_BIND, NULL) < 0)
        skip();
    struct error err = ERROR_INIT;
    int r = file_remove_tree_at(root_fd, "tree", &err);
    assert_int_equal(umount2(target, MNT_DETACH), 0);
    assert_true(r < 0);
    assert_string_equal(err.message,
                        "cannot remove a directory in 'tree': Invalid cross-device link");
    assert_true(exists(root_fd, "outside/precious"));
    assert_false(exists(root_fd, "tree/a/file"));
    assert_false(exists(root_fd, "tree/z"));
    assert_removed("tree");
    assert_removed("outside");
}

static void test_path_through_another_mount(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    make_file(root_fd, "tree/file");
    AUTO_FREE char *path = mem_printf("/proc/self/fd/%d/tree", root_fd);
    struct error err = ERROR_INIT;
    if (file_remove_tree_at(AT_FDCWD, path, &err) != 0)
        fail_msg("%s", err.message);
    assert_false(exists(root_fd, "tree"));
    assert_int_equal(file_remove_tree_at(root_fd, "no/such/parent", &err), 0);
    assert_int_equal(file_remove_tree_at(root_fd, "tree/", &err), 0);
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    assert_int_equal(file_remove_tree_at(root_fd, "tree/", &err), -EINVAL);
    assert_int_equal(file_remove_tree_at(root_fd, "tree/..", &err), -EINVAL);
    assert_removed("tree");
}

static void make_outside(void)
{
    assert_int_equal(mkdirat(root_fd, "outside", 0700), 0);
    assert_int_equal(mkdirat(root_fd, "outside/dir", 0700), 0);
    make_file(root_fd, "outside/precious");
    make_file(root_fd, "outside/dir/precious");
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    assert_int_equal(mkdirat(root_fd, "tree/victim", 0700), 0);
    assert_int_equal(mkdirat(root_fd, "tree/victim/dir", 0700), 0);
    make_file(root_fd, "tree/victim/dir/file");
    AUTO_FREE char *target = mem_printf("%s/outside", root);
    assert_int_equal(symlinkat(target, root_fd, "link"), 0);
}

static void assert_outside_intact(void)
{
    assert_true(hook_calls > 0);
    hook = NULL;
    assert_true(exists(root_fd, "outside/precious"));
    assert_true(exists(root_fd, "outside/dir/precious"));
    assert_removed("outside");
    assert_removed("link"); /* the link itself, or the directory it was exchanged with */
}

/* The directory becomes a link in the instant between being seen and being opened. */
static void exchange_before_open(const char *name, int flags)
{
    if (strcmp(name, "victim") == 0 && (flags & AT_REMOVEDIR) != 0 && hook_calls++ == 0)
        assert_int_equal(renameat2(root_fd, "tree/victim", root_fd, "link", RENAME_EXCHANGE), 0);
}

static void test_directory_replaced_by_link_before_open(void **state)
{
    (void)state;
    make_outside();
    set_hook(exchange_before_open);
    assert_removed("tree");
    assert_outside_intact();
}

/* The directory we are in is moved, and a link waits under its old name. */
static void exchange_while_inside(const char *name, int flags)
{
    (void)flags;
    if (strcmp(name, "file") == 0 && hook_calls++ == 0)
        assert_int_equal(renameat2(root_fd, "tree/victim", root_fd, "link", RENAME_EXCHANGE), 0);
}

static void test_directory_replaced_by_link_while_inside(void **state)
{
    (void)state;
    make_outside();
    set_hook(exchange_while_inside);
    assert_removed("tree");
    assert_outside_intact();
}

/* The directory we are in is moved out of the tree: going up from there would lead to its new
 * neighbours. */
static void move_out_while_inside(const char *name, int flags)
{
    (void)flags;
    if (strcmp(name, "file") == 0 && hook_calls++ == 0)
        assert_int_equal(renameat(root_fd, "tree/victim", root_fd, "outside/victim"), 0);
}

static void test_directory_moved_out_while_inside(void **state)
{
    (void)state;
    make_outside();
    set_hook(move_out_while_inside);
    assert_removed("tree");
    assert_outside_intact();
}

/* Somebody who adds entries for ever makes the removal fail, not run for ever. */
static void add_entry(const char *name, int flags)
{
    if (strcmp(name, "tree") == 0 && (flags & AT_REMOVEDIR) != 0) {
        AUTO_FREE char *path = mem_printf("tree/new-%d", hook_calls++);
        make_file(root_fd, path);
    }
}

static void test_endless_additions_are_given_up(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(root_fd, "tree", 0700), 0);
    set_hook(add_entry);
    struct error err = ERROR_INIT;
    assert_int_equal(file_remove_tree_at(root_fd, "tree", &err), -ENOTEMPTY);
    assert_string_equal(err.message, "cannot remove a directory in 'tree': Directory not empty");
    hook = NULL;
    assert_removed("tree");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_links_are_not_followed),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_deep_and_bushy),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_mode_000),
        cmocka_unit_test(test_mode_000_as_user),
        cmocka_unit_test(test_mount_points_are_not_entered),
        cmocka_unit_test(test_path_through_another_mount),
        cmocka_unit_test(test_directory_replaced_by_link_before_open),
        cmocka_unit_test(test_directory_replaced_by_link_while_inside),
        cmocka_unit_test(test_directory_moved_out_while_inside),
        cmocka_unit_test(test_endless_additions_are_given_up),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
