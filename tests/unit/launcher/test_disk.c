#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/disk.h"
#include "launcher/disk_super.h"
#include "launcher/disk_template.h"

#define MIB (1ull << 20)

static char directory[64];
static int dir_fd;

static int make_directory(void **context)
{
    (void)context;
    snprintf(directory, sizeof(directory), "/tmp/launcher-disk-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : 0;
}

static int remove_directory(void **context)
{
    (void)context;
    close(dir_fd);
    return file_remove_tree_at(AT_FDCWD, directory, NULL);
}

static void test_round(void **context)
{
    (void)context;
    assert_int_equal(disk_template_round(16 * MIB), 16 * MIB);
    assert_int_equal(disk_template_round(16 * MIB + 1), 17 * MIB);
    assert_int_equal(disk_template_round(DISK_MAX_BYTES), DISK_MAX_BYTES);
    struct disks disks = {.way = DISK_LOOP};
    assert_int_equal(disk_shape_bytes(&disks, 0), 0);
    assert_int_equal(disk_shape_bytes(&disks, 64 * MIB - 5), 64 * MIB);
    disks.way = DISK_QUOTA;
    assert_int_equal(disk_shape_bytes(&disks, 64 * MIB), 0);
}

static bool has(const char *const *arguments, const char *name, const char *value)
{
    for (; *arguments != NULL; arguments++) {
        if (strcmp(*arguments, name) == 0)
            return value == NULL || (arguments[1] != NULL && strcmp(arguments[1], value) == 0);
    }
    return false;
}

static void test_arguments(void **context)
{
    (void)context;
    const char *arguments[DISK_MKE2FS_ARGS];
    char size[24];
    disk_template_arguments("/usr/sbin/mke2fs", "/x", 64 * MIB, size, arguments);
    assert_string_equal(arguments[0], "/usr/sbin/mke2fs");
    assert_true(has(arguments, "-m", "0"));
    assert_true(has(arguments, "-b", "4096"));
    assert_true(has(arguments, "-i", "8192"));
    assert_true(has(arguments, "/x", "65536k"));
    for (size_t i = 0; arguments[i] != NULL; i++)
        assert_null(strstr(arguments[i], "has_journal"));
}

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void test_super(void **context)
{
    (void)context;
    uint8_t bytes[DISK_SUPER_SIZE] = {0};
    struct disk_super super;
    assert_int_equal(disk_super_parse(bytes, &super), -EINVAL);
    bytes[0x38] = 0x53;
    bytes[0x39] = 0xef;
    assert_int_equal(disk_super_parse(bytes, &super), -EINVAL); /* blocks of 1024 bytes */
    put32(bytes + 0x18, 2);
    put32(bytes + 0x00, 8192);
    put32(bytes + 0x04, 16384);
    put32(bytes + 0x0c, 15000);
    put32(bytes + 0x10, 8181);
    put32(bytes + 0x150, 7);
    memset(bytes + 0x78, 'x', 16);
    bytes[0x3a] = 1;
    assert_int_equal(disk_super_parse(bytes, &super), 0);
    assert_int_equal(super.blocks, 16384); /* not 64bit: the upper half is not read */
    assert_int_equal(super.free_blocks, 15000);
    assert_int_equal(super.inodes, 8192);
    assert_int_equal(super.free_inodes, 8181);
    assert_true(super.clean);
    assert_string_equal(super.label, "xxxxxxxxxxxxxxxx");
    put32(bytes + 0x60, 0x80);
    bytes[0x3a] = 3; /* clean, but with errors */
    assert_int_equal(disk_super_parse(bytes, &super), 0);
    assert_int_equal(super.blocks, 16384 + (7ull << 32));
    assert_false(super.clean);
}

static void write_at(int fd, off_t offset, const char *text)
{
    assert_int_equal(pwrite(fd, text, strlen(text), offset), strlen(text));
}

static void test_copy_is_sparse(void **context)
{
    (void)context;
    AUTO_CLOSE int from = openat(dir_fd, "from", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    AUTO_CLOSE int to = openat(dir_fd, "to", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(from, 64 << 20), 0);
    write_at(from, 1024, "first");
    write_at(from, (64 << 20) - 4, "last");
    assert_int_equal(disk_template_copy_data(from, to, 64 * MIB), 0);
    struct stat st;
    char text[8] = "";
    assert_int_equal(fstat(to, &st), 0);
    assert_int_equal(st.st_size, 64 * MIB);
    assert_true(st.st_blocks * 512 < (off_t)MIB);
    assert_int_equal(pread(to, text, 5, 1024), 5);
    assert_string_equal(text, "first");
    assert_int_equal(pread(to, text, 5, (64 << 20) - 4), 4);
    assert_memory_equal(text, "last", 4);
}

static void make_used_at(int fd, const char *name, time_t seconds)
{
    AUTO_CLOSE int file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_true(file >= 0);
    assert_int_equal(futimens(file, times), 0);
}

static void test_prune_takes_the_oldest(void **context)
{
    (void)context;
    assert_int_equal(mkdirat(dir_fd, "pool", 0700), 0);
    AUTO_CLOSE int pool = openat(dir_fd, "pool", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_used_at(pool, "3.img", 300);
    make_used_at(pool, "1.img", 100);
    make_used_at(pool, "4.img", 400);
    make_used_at(pool, "2.img", 200);
    disk_template_prune(pool, 4);
    assert_int_equal(faccessat(pool, "1.img", F_OK, 0), 0);
    disk_template_prune(pool, 2);
    assert_int_equal(faccessat(pool, "1.img", F_OK, 0), -1);
    assert_int_equal(faccessat(pool, "2.img", F_OK, 0), -1);
    assert_int_equal(faccessat(pool, "3.img", F_OK, 0), 0);
    assert_int_equal(faccessat(pool, "4.img", F_OK, 0), 0);
}

/* A copy, and what its superblock says. */
static struct disk_super copy_of(uint64_t bytes, const char *name)
{
    AUTO_CLOSE int fd = disk_template_copy(dir_fd, bytes, false, dir_fd, name);
    struct disk_super super = {0};
    assert_true(fd >= 0);
    assert_int_equal(disk_super_read(fd, &super), 0);
    return super;
}

static ino_t inode_of(const char *path)
{
    struct stat st;
    assert_int_equal(fstatat(dir_fd, path, &st, 0), 0);
    return st.st_ino;
}

static void test_template_is_made_once(void **context)
{
    (void)context;
    const char *path = DISK_TEMPLATES "/33554432.img";
    assert_int_equal(disk_template_check(dir_fd, 32 * MIB), -ENOENT);
    struct disk_super super = copy_of(32 * MIB, "first");
    assert_int_equal(super.blocks, 32 * MIB / DISK_BLOCK);
    assert_int_equal(super.inodes, 32 * MIB / DISK_BYTES_PER_INODE);
    assert_true(super.free_blocks * DISK_BLOCK > 30 * MIB);
    assert_int_equal(disk_template_check(dir_fd, 32 * MIB), 0);
    ino_t first = inode_of(path);
    copy_of(32 * MIB, "second");
    assert_int_equal(inode_of(path), first);
    /* Damaged ones are made anew: cut short, and overwritten. */
    AUTO_CLOSE int fd = openat(dir_fd, path, O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_true(disk_template_check(dir_fd, 32 * MIB) < 0);
    copy_of(32 * MIB, "third");
    ino_t second = inode_of(path);
    assert_int_not_equal(second, first); /* held open, so its number is not free */
    AUTO_CLOSE int again = openat(dir_fd, path, O_RDWR | O_CLOEXEC);
    write_at(again, DISK_SUPER_OFFSET + 0x38, "nonsense");
    super = copy_of(32 * MIB, "fourth");
    assert_true(super.clean);
    ino_t third = inode_of(path);
    assert_int_not_equal(third, second);
    /* And those of another recipe, which the label names. */
    AUTO_CLOSE int labelled = openat(dir_fd, path, O_RDWR | O_CLOEXEC);
    write_at(labelled, DISK_SUPER_OFFSET + 0x78, "another-recipe");
    copy_of(32 * MIB, "fifth");
    assert_int_not_equal(inode_of(path), third);
}

static void test_templates_are_bounded(void **context)
{
    (void)context;
    char path[64];
    for (uint64_t i = 0; i < DISK_TEMPLATES_MAX + 2; i++)
        copy_of((40 + i) * MIB, "copy");
    unsigned found = 0;
    for (uint64_t i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), DISK_TEMPLATES "/%" PRIu64 ".img", (uint64_t)(i * MIB));
        found += faccessat(dir_fd, path, F_OK, 0) == 0;
    }
    assert_int_equal(found, DISK_TEMPLATES_MAX);
}

static void check_refused(const struct disks *disks, uint64_t bytes, enum error_code code,
                          const char *word)
{
    const struct state state = {.launcher_fd = dir_fd};
    struct error err = ERROR_INIT;
    assert_true(disk_check(disks, &state, bytes, &err) < 0);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.message, word));
}

static void test_check(void **context)
{
    (void)context;
    const struct state state = {.launcher_fd = dir_fd};
    struct disks disks = {.way = DISK_LOOP};
    struct error err = ERROR_INIT;
    struct statfs fs;
    assert_int_equal(disk_check(&disks, &state, 0, &err), 0);
    assert_int_equal(disk_check(&disks, &state, DISK_MIN_BYTES, &err), 0);
    check_refused(&disks, DISK_MIN_BYTES - 1, ERR_INVALID, "16Mi");
    check_refused(&disks, DISK_MAX_BYTES + 1, ERR_INVALID, "1Pi");
    assert_int_equal(fstatfs(dir_fd, &fs), 0);
    uint64_t total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_frsize;
    assert_int_equal(disk_check(&disks, &state, total, &err), 0);
    check_refused(&disks, total + 1, ERR_INVALID, "state directory");

    struct disks none = {.no_quota = "quota is away", .no_loop = "loops are away"};
    check_refused(&none, 64 * MIB, ERR_UNSUPPORTED, "quota is away");
    check_refused(&none, 64 * MIB, ERR_UNSUPPORTED, "loops are away");
    assert_int_equal(disk_check(&none, &state, 0, &err), 0);
}

static void test_full(void **context)
{
    (void)context;
    struct disk_usage usage = {.free_bytes = DISK_FULL_BYTES, .total_inodes = 10, .used_inodes = 9};
    assert_false(disk_is_full(&usage));
    usage.free_bytes = DISK_FULL_BYTES - 1;
    assert_true(disk_is_full(&usage));
    usage.free_bytes = DISK_FULL_BYTES;
    usage.used_inodes = 10;
    assert_true(disk_is_full(&usage));
    usage.total_inodes = 0; /* not counted */
    assert_false(disk_is_full(&usage));
}

static void check_change(const struct disks *disks, uint64_t from, uint64_t to,
                         enum error_code code, const char *word)
{
    const struct state state = {.launcher_fd = dir_fd};
    struct error err = ERROR_INIT;
    int r = disk_check_change(disks, &state, 1, dir_fd, from, to, &err);
    assert_int_equal(err.code, code);
    assert_int_equal(r < 0, code != ERR_OK);
    assert_non_null(strstr(err.message, word));
}

static void test_change(void **context)
{
    (void)context;
    struct disks disks = {.way = DISK_LOOP, .can_grow = true};
    check_change(&disks, 0, 64 * MIB, ERR_CONFLICT, "without a disk limit");
    make_used_at(dir_fd, DISK_FILE, 0);
    check_change(&disks, 64 * MIB, 64 * MIB, ERR_OK, "");
    check_change(&disks, 64 * MIB, 128 * MIB, ERR_OK, "");
    check_change(&disks, 64 * MIB, 63 * MIB, ERR_CONFLICT, "shrink");
    check_change(&disks, 64 * MIB, 0, ERR_CONFLICT, "shrink");
    check_change(&disks, 64 * MIB, 5, ERR_INVALID, "16Mi");
    disks.can_grow = false;
    check_change(&disks, 64 * MIB, 128 * MIB, ERR_UNSUPPORTED, "CAP_SYS_RESOURCE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_super),
        cmocka_unit_test(test_copy_is_sparse),
        cmocka_unit_test(test_prune_takes_the_oldest),
        cmocka_unit_test(test_template_is_made_once),
        cmocka_unit_test(test_templates_are_bounded),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_change),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
