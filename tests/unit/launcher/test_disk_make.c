/* A disk as a slot makes it, in a process with a mount namespace of its own. Needs root and loop
 * devices; project quota is tested where the file system of /tmp has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/disk.h"
#include "launcher/disk_loop.h"
#include "launcher/disk_template.h"

#define MIB (1ull << 20)

static char directory[64];
static struct state launcher_state;
static struct disks disks;
static bool has_quota;

/* Without udev there is no node that loads it. */
static void load_loop_module(void)
{
    pid_t pid = access("/dev/loop-control", F_OK) == 0 ? -1 : fork();
    if (pid == 0) {
        execl("/sbin/modprobe", "modprobe", "loop", NULL);
        _exit(1);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static int set_up(void **context)
{
    (void)context;
    load_loop_module();
    snprintf(directory, sizeof(directory), "/tmp/launcher-disk-XXXXXX");
    if (geteuid() != 0 || mkdtemp(directory) == NULL)
        return -1;
    launcher_state.launcher_path = directory;
    launcher_state.launcher_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(launcher_state.instance, sizeof(launcher_state.instance), "%08x", (unsigned)getpid());
    disk_open(&disks, &launcher_state);
    if (disks.no_loop[0] != '\0') {
        print_error("%s\n", disks.no_loop);
        return -1;
    }
    has_quota = disks.way == DISK_QUOTA;
    disks.way = DISK_LOOP;
    return mkdirat(launcher_state.launcher_fd, "sandbox", 0700);
}

static int tear_down(void **context)
{
    (void)context;
    close(launcher_state.launcher_fd);
    return file_remove_tree_at(AT_FDCWD, directory, NULL);
}

static int open_sandbox(void)
{
    return openat(launcher_state.launcher_fd, "sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_attached(void)
{
    AUTO_CLOSE int sandbox = open_sandbox();
    AUTO_CLOSE int file = openat(sandbox, DISK_FILE, O_RDONLY | O_CLOEXEC);
    struct disk_device device = {.fd = -1};
    bool found = file >= 0 && disk_loop_find(disks.instance, file, NULL, &device) == 0;
    fd_close(device.fd);
    return found;
}

/* As in a slot: its own namespace, a place to mount on. Returns disk_make()'s answer. A child
 * that waits must not outlive a test that fails. */
static int make_in_child(uint64_t bytes)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    AUTO_CLOSE int sandbox = open_sandbox();
    AUTO_FREE char *path = mem_printf("%s/mount", directory);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    AUTO_CLOSE int mount_points = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (mkdirat(mount_points, STATE_MOUNT_DISK, 0700) < 0 && errno != EEXIST)
        return -errno;
    const struct disk_place place = {
        .launcher_path = directory,
        .sandbox_fd = sandbox,
        .mount_fd = mount_points,
        .range = 1,
        .bytes = bytes,
    };
    return disk_make(&disks, &place);
}

/* Runs `body` with the disk in a child; its answer must be 0. */
static void with_disk(uint64_t bytes, int (*body)(int upper_fd))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int upper = make_in_child(bytes);
        int r = upper < 0 ? -upper : body(upper);
        _exit(r > 255 ? 255 : r);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(is_attached());
}

static uint64_t fill(int fd)
{
    static char block[65536];
    uint64_t written = 0;
    memset(block, 'x', sizeof(block));
    ssize_t n;
    while ((n = write(fd, block, sizeof(block))) > 0)
        written += (uint64_t)n;
    return errno == ENOSPC ? written : 0;
}

static int fill_bytes(int upper)
{
    struct statfs fs;
    if (statfs(directory, &fs) < 0 || fstatfs(upper, &fs) < 0)
        return 1;
    uint64_t available = (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;
    AUTO_CLOSE int fd = openat(upper, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0)
        return 2;
    uint64_t written = fill(fd);
    if (available < 64 * MIB * 9 / 10 || available > 64 * MIB)
        return 3;
    return written < 64 * MIB * 9 / 10 || written > 64 * MIB ? 4 : 0;
}

static int fill_inodes(int upper)
{
    unsigned made = 0;
    char name[16];
    for (;; made++) {
        snprintf(name, sizeof(name), "f%u", made);
        int fd = openat(upper, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    unsigned limit = (unsigned)(16 * MIB / DISK_BYTES_PER_INODE);
    if (errno != ENOSPC)
        return 1;
    return made > limit || made < limit * 9 / 10 ? 2 : 0;
}

static struct disk_usage usage_now(void)
{
    struct disk_usage usage = {0};
    AUTO_CLOSE int sandbox = open_sandbox();
    assert_int_equal(disk_usage(&disks, &launcher_state, 1, sandbox, 0, &usage), 0);
    return usage;
}

static void test_limit_of_bytes(void **context)
{
    (void)context;
    with_disk(64 * MIB, fill_bytes);
    struct disk_usage usage = usage_now();
    assert_true(disk_is_full(&usage));
    assert_int_equal(usage.total_bytes, 64 * MIB);
}

static void test_limit_of_inodes(void **context)
{
    (void)context;
    with_disk(16 * MIB, fill_inodes);
    struct disk_usage usage = usage_now();
    assert_true(disk_is_full(&usage));
    assert_int_equal(usage.used_inodes, usage.total_inodes);
    assert_true(usage.free_bytes > 8 * MIB);
}

static int nothing(int upper)
{
    (void)upper;
    return is_attached() ? 0 : 1;
}

/* The superblock looks right but the mount refuses what it describes. */
static void test_damage_below_the_superblock(void **context)
{
    (void)context;
    char zeros[4096] = {0};
    with_disk(64 * MIB, nothing);
    AUTO_CLOSE int templates =
        openat(launcher_state.launcher_fd, DISK_TEMPLATES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int fd = openat(templates, "67108864.img", O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 4096), sizeof(zeros)); /* descriptors */
    assert_int_equal(disk_template_check(launcher_state.launcher_fd, 64 * MIB), 0);
    with_disk(64 * MIB, nothing);
}

/* The end of the process at any instant frees the device, without any help. */
static void test_killed(void **context)
{
    (void)context;
    int before[2];
    assert_int_equal(pipe(before), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int upper = make_in_child(64 * MIB);
        char answer = upper >= 0 ? 'y' : 'n';
        if (write(before[1], &answer, 1) == 1)
            pause();
        _exit(1);
    }
    char answer = 0;
    assert_int_equal(read(before[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    assert_true(is_attached());
    disk_loop_sweep(disks.instance); /* must not hurt one in use */
    assert_true(is_attached());
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(is_attached());
    close(before[0]);
    close(before[1]);
}

/* One that does not free itself, as an older or a broken program would leave it. */
static void test_sweep(void **context)
{
    (void)context;
    AUTO_CLOSE int sandbox = open_sandbox();
    AUTO_CLOSE int file = openat(sandbox, DISK_FILE, O_RDWR | O_CLOEXEC);
    struct disk_device device = {.fd = -1};
    struct loop_info64 info;
    assert_int_equal(disk_loop_attach(disks.instance, file, &device), 0);
    assert_int_equal(ioctl(device.fd, LOOP_GET_STATUS64, &info), 0);
    info.lo_flags &= ~(uint32_t)LO_FLAGS_AUTOCLEAR;
    assert_int_equal(ioctl(device.fd, LOOP_SET_STATUS64, &info), 0);
    close(device.fd);
    assert_true(is_attached());
    disk_loop_sweep("ffffffff"); /* another instance */
    assert_true(is_attached());
    disk_loop_sweep(disks.instance);
    assert_false(is_attached());
}

static int grow(int upper)
{
    struct error err = ERROR_INIT;
    struct statfs fs;
    AUTO_CLOSE int sandbox = open_sandbox();
    if (disk_grow(&disks, sandbox, 256 * MIB, &err) < 0)
        return disks.can_grow ? 1 : err.sys == EPERM ? 0 : 2;
    if (fstatfs(upper, &fs) < 0 || fs.f_bavail * 4096ull < 256 * MIB * 9 / 10)
        return 3;
    return disk_grow(&disks, sandbox, 256 * MIB, &err) < 0 ? 4 : 0; /* again: nothing to do */
}

static void test_grow(void **context)
{
    (void)context;
    with_disk(64 * MIB, grow);
}

/* The child makes a project, we limit it; as slot and launcher do. */
static int go_on[2], fill_result;

static int fill_project(int upper)
{
    char any;
    if (read(go_on[0], &any, 1) != 1)
        return 1;
    /* As overlayfs does it: with every capability but the one that stands above quota. */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return 2;
    data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
    if (syscall(SYS_capset, &header, data) < 0 || mkdirat(upper, "below", 0700) < 0)
        return 3;
    AUTO_CLOSE int fd = openat(upper, "below/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    uint64_t written = 0;
    static char block[65536];
    ssize_t n;
    while ((n = write(fd, block, sizeof(block))) > 0)
        written += (uint64_t)n;
    if (errno != EDQUOT)
        return 4;
    return written < 64 * MIB * 9 / 10 || written > 64 * MIB ? 5 : 0;
}

static void test_quota(void **context)
{
    (void)context;
    if (!has_quota)
        skip();
    struct error err = ERROR_INIT;
    struct disk_usage usage;
    disks.way = DISK_QUOTA;
    assert_int_equal(pipe(go_on), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int upper = make_in_child(0);
        _exit(upper < 0 ? 100 : fill_project(upper));
    }
    AUTO_CLOSE int sandbox = open_sandbox();
    for (int i = 0; i < 1000 && faccessat(sandbox, DISK_QUOTA_DIR, F_OK, 0) < 0; i++)
        poll(NULL, 0, 10);
    poll(NULL, 0, 200);
    assert_int_equal(disk_limit(&disks, &launcher_state, 1, 64 * MIB, &err), 0);
    assert_int_equal(disk_usage(&disks, &launcher_state, 1, sandbox, pid, &usage), 0);
    assert_false(disk_is_full(&usage));
    assert_int_equal(write(go_on[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &fill_result, 0), pid);
    assert_int_equal(fill_result, 0);
    assert_int_equal(disk_usage(&disks, &launcher_state, 1, sandbox, 0, &usage), 0);
    assert_true(disk_is_full(&usage));
    assert_int_equal(usage.total_bytes, 64 * MIB);
    assert_int_equal(usage.total_inodes, 64 * MIB / DISK_BYTES_PER_INODE);
    assert_true(disk_check_change(&disks, &launcher_state, 1, sandbox, 64 * MIB, 32 * MIB, &err) <
                0);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(
        disk_check_change(&disks, &launcher_state, 1, sandbox, 64 * MIB, 128 * MIB, &err), 0);
    /* The same project again while it has files: not another sandbox's. */
    assert_int_equal(renameat(sandbox, DISK_QUOTA_DIR, sandbox, "old"), 0);
    pid = fork();
    if (pid == 0)
        _exit(make_in_child(0) == -EADDRINUSE ? 0 : 1);
    assert_int_equal(waitpid(pid, &fill_result, 0), pid);
    assert_int_equal(fill_result, 0);
    assert_int_equal(disk_limit(&disks, &launcher_state, 1, 0, &err), 0);
    disks.way = DISK_LOOP;
    close(go_on[0]);
    close(go_on[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_of_bytes),
        cmocka_unit_test(test_limit_of_inodes),
        cmocka_unit_test(test_damage_below_the_superblock),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
