#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static char root[] = "/tmp/test-file-XXXXXX";
static int root_fd = -1;

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
    root_fd = fd_close(root_fd);
    return file_remove_tree_at(AT_FDCWD, root, NULL);
}

static int count_entries(void)
{
    int count = 0;
    DIR *dir = opendir(root);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2;
}

static void test_read(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 12);
    assert_int_equal(file_write_atomic_at(root_fd, "ten", "0123456789", 10, 0600, &err), 0);
    assert_int_equal(buf_add_str(&buf, "> "), 0);
    assert_int_equal(file_read_at(root_fd, "ten", &buf, &err), 0); /* fits to the byte */
    assert_string_equal(buf.data, "> 0123456789");

    buf_clear(&buf);
    buf_add_str(&buf, ">> ");
    assert_true(file_read_at(root_fd, "ten", &buf, &err) < 0);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.message, "'ten' is larger than the 9 bytes allowed");
    assert_string_equal(buf.data, ">> ");

    assert_int_equal(file_read_at(root_fd, "absent", &buf, &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.message, "cannot open 'absent': No such file or directory");
    assert_int_equal(file_read_at(root_fd, ".", &buf, &err), -EISDIR);
}

static void test_read_large_and_proc(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    AUTO_FREE char *bytes = mem_alloc(100000);
    for (size_t i = 0; i < 100000; i++)
        bytes[i] = (char)(i * 7);
    assert_int_equal(file_write_atomic_at(root_fd, "large", bytes, 100000, 0600, &err), 0);
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 100000);
    assert_int_equal(file_read_at(root_fd, "large", &buf, &err), 0);
    assert_int_equal(buf.length, 100000);
    assert_memory_equal(buf.data, bytes, 100000);

    buf_clear(&buf); /* a file whose size says 0 */
    assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/status", &buf, &err), 0);
    assert_memory_equal(buf.data, "Name:", 5);

    struct buf empty;
    buf_init(&empty, 0);
    assert_int_equal(file_read_at(AT_FDCWD, "/dev/null", &empty, &err), 0);
    assert_int_equal(empty.length, 0);
}

static void test_write_atomic(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    int before = count_entries();
    mode_t old = umask(0077);
    assert_int_equal(file_write_atomic_at(root_fd, "file", "one", 3, 0644, &err), 0);
    umask(old);
    struct stat st;
    assert_int_equal(fstatat(root_fd, "file", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    ino_t first = st.st_ino;
    assert_int_equal(linkat(root_fd, "file", root_fd, "kept", 0), 0);

    assert_int_equal(file_write_atomic_at(root_fd, "file", "two", 3, 0600, &err), 0);
    assert_int_equal(fstatat(root_fd, "file", &st, 0), 0);
    assert_int_not_equal(st.st_ino, first); /* replaced, not written into */
    assert_int_equal(st.st_mode & 07777, 0600);
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 100);
    assert_int_equal(file_read_at(root_fd, "file", &buf, &err), 0);
    assert_int_equal(file_read_at(root_fd, "kept", &buf, &err), 0);
    assert_string_equal(buf.data, "twoone");

    /* Failures leave nothing behind. */
    assert_int_equal(mkdirat(root_fd, "dir", 0700), 0);
    assert_true(file_write_atomic_at(root_fd, "dir", "x", 1, 0600, &err) < 0);
    assert_non_null(strstr(err.message, "cannot replace 'dir'"));
    assert_int_equal(file_write_atomic_at(root_fd, "none/file", "x", 1, 0600, &err), -ENOENT);
    assert_int_equal(count_entries(), before + 3);
}

static void test_write_atomic_paths(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    AUTO_FREE char *path = mem_printf("%s/absolute", root);
    assert_int_equal(file_write_atomic_at(AT_FDCWD, path, "a", 1, 0600, &err), 0);
    assert_int_equal(faccessat(root_fd, "absolute", R_OK, 0), 0);
    assert_int_equal(mkdirat(root_fd, "sub", 0700), 0);
    assert_int_equal(file_write_atomic_at(root_fd, "sub/file", "b", 1, 0600, &err), 0);
    assert_int_equal(faccessat(root_fd, "sub/file", R_OK, 0), 0);
}

static void test_write_replaces_a_link_not_its_target(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(file_write_atomic_at(root_fd, "target", "old", 3, 0600, &err), 0);
    assert_int_equal(symlinkat("target", root_fd, "link"), 0);
    assert_int_equal(file_write_atomic_at(root_fd, "link", "new", 3, 0600, &err), 0);
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 100);
    assert_int_equal(file_read_at(root_fd, "target", &buf, &err), 0);
    assert_string_equal(buf.data, "old");
}

static void test_write_all(void **state)
{
    (void)state;
    assert_int_equal(file_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(file_write_all(-1, "", 0), 0);
}

static void test_make_dirs(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct stat st;
    AUTO_FREE char *path = mem_printf("%s/a//b/c/", root);
    mode_t old = umask(0);
    assert_int_equal(file_make_dirs(path, 0750, &err), 0);
    assert_int_equal(fstatat(root_fd, "a/b/c", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(file_make_dirs(path, 0700, &err), 0); /* kept as they are */
    umask(old);
    assert_int_equal(fstatat(root_fd, "a", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(file_make_dirs("/", 0700, &err), 0);

    assert_int_equal(file_write_atomic_at(root_fd, "plain", "", 0, 0600, &err), 0);
    AUTO_FREE char *file = mem_printf("%s/plain", root);
    AUTO_FREE char *below = mem_printf("%s/plain/x", root);
    assert_int_equal(file_make_dirs(file, 0700, &err), -ENOTDIR);
    assert_int_equal(file_make_dirs(below, 0700, &err), -ENOTDIR);
    assert_int_equal(file_make_dirs("", 0700, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_read_large_and_proc),
        cmocka_unit_test(test_write_atomic),
        cmocka_unit_test(test_write_atomic_paths),
        cmocka_unit_test(test_write_replaces_a_link_not_its_target),
        cmocka_unit_test(test_write_all),
        cmocka_unit_test(test_make_dirs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
