/* Real control groups of this machine. Needs root, and is skipped where there are no controllers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/cgroup.h"

#define MIB       (1u << 20)
#define WAIT_MS   10000
#define SLOT      "slot-0"
#define STATE_DIR "/"

static struct cgroups groups;
static char parent[32];

static bool wait_for(bool (*is_true)(void))
{
    for (int waited = 0; waited < WAIT_MS; waited += 5) {
        if (is_true())
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return false;
}

static int set_up(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    if (geteuid() != 0)
        return 0;
    snprintf(parent, sizeof(parent), "osb-unit-%d", (int)getpid());
    if (cgroup_open(&groups, parent, "00000000", STATE_DIR, true, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (groups.count == 0)
        return 0;
    char *paths[CGROUP_CONTROLLERS + 1];
    unsigned count = groups.count;
    for (unsigned i = 0; i < count; i++)
        paths[i] = mem_dup(groups.items[i].path);
    if (groups.cpuset != NULL)
        paths[count++] = mem_dup(groups.cpuset);
    cgroup_close(&groups);
    int left = 0;
    for (unsigned i = 0; i < count; i++) {
        left += access(paths[i], F_OK) == 0;
        *strrchr(paths[i], '/') = '\0';
        left += rmdir(paths[i]) < 0;
        free(paths[i]);
    }
    return left == 0 ? 0 : -1;
}

static void need(enum cgroup_controller controller)
{
    if (groups.count == 0 || groups.of[controller] < 0)
        skip();
}

static void read_group(enum cgroup_controller controller, const char *file, char ret[256])
{
    char path[128];
    snprintf(path, sizeof(path), SLOT "/%s", file);
    int fd = openat(groups.items[groups.of[controller]].fd, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, ret, 255);
    assert_true(n > 0);
    ret[n] = '\0';
    close(fd);
}

static void expect(enum cgroup_controller controller, const char *v1, const char *v2,
                   const char *text)
{
    char found[256];
    read_group(controller, groups.v2 ? v2 : v1, found);
    found[strcspn(found, "\n")] = '\0';
    assert_string_equal(found, text);
}

/* A child that is in `work`, as what execd starts is, and does as it is told. */
static pid_t start(void (*job)(void))
{
    int fds[CGROUP_WORK_FDS_MAX];
    unsigned count;
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(cgroup_open_work(&groups, SLOT, fds, &count), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool joined = cgroup_join(&groups, SLOT) == 0;
        for (unsigned i = 0; i < count; i++)
            joined = joined && write(fds[i], "0", 1) == 1;
        if (!joined)
            _exit(99);
        job();
        (void)!write(ready[1], "1", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    struct pollfd poll_fd = {.fd = ready[0], .events = POLLIN};
    poll(&poll_fd, 1, WAIT_MS);
    close(ready[0]);
    return pid;
}

static void nothing(void)
{
}

static char *take_memory_that_can_move(void)
{
    char *memory = mmap(NULL, 24 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; memory != MAP_FAILED && i < 24 * MIB; i += 512) /* no two pages alike */
        memory[i] = (char)(random() + 1);
    return memory;
}

static void take_swappable_memory(void)
{
    take_memory_that_can_move();
}

/* It cannot be moved out of the way to a swap file. */
static void take_memory(void)
{
    mlock(take_memory_that_can_move(), 24 * MIB);
}

#define READ_FILE "/var/tmp/osb-unit-cgroup-read"

static void read_from_disk(void)
{
    void *page = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open(READ_FILE, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (read(fd, page, MIB) != (ssize_t)MIB)
        _exit(97);
}

static void fork_often(void)
{
    for (int i = 0; i < 20; i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
}

static bool is_gone(void)
{
    return cgroup_remove(&groups, SLOT) == 0;
}

static bool is_reaped(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return waitpid(-1, NULL, WNOHANG) < 0;
}

static void finish(void)
{
    assert_int_equal(cgroup_kill(&groups, SLOT), 0);
    assert_true(wait_for(is_reaped));
    assert_true(wait_for(is_gone));
    assert_int_equal(cgroup_remove(&groups, SLOT), 0); /* absent is success */
}

/* After a failure, too. */
static int clear(void **state)
{
    (void)state;
    if (groups.count == 0)
        return 0;
    cgroup_freeze(&groups, SLOT, false);
    cgroup_kill(&groups, SLOT);
    return wait_for(is_reaped) && wait_for(is_gone) ? 0 : -1;
}

static void test_limits_are_set_and_lifted(void **state)
{
    (void)state;
    need(CGROUP_MEMORY);
    struct cgroup_limits limits = {.memory_bytes = 64 * MIB, .cpu_millis = 500, .pids = 33};
    const struct cgroup_limits none = {0};
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    expect(CGROUP_PIDS, "pids.max", "work/pids.max", "4096");
    assert_int_equal(cgroup_limit_new(&groups, SLOT, &limits), 0);
    expect(CGROUP_MEMORY, "memory.limit_in_bytes", "work/memory.max", "67108864");
    expect(CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max", groups.v2 ? "50000 100000" : "50000");
    expect(CGROUP_PIDS, "pids.max", "work/pids.max", "33");
    limits.memory_bytes = 128 * MIB; /* up */
    limits.cpu_millis = 5;           /* another period */
    assert_int_equal(cgroup_limit(&groups, SLOT, &limits), 0);
    expect(CGROUP_MEMORY, "memory.limit_in_bytes", "work/memory.max", "134217728");
    expect(CGROUP_CPU, "cpu.cfs_quota_us", "work/cpu.max", groups.v2 ? "1000 200000" : "1000");
    limits.memory_bytes = 32 * MIB; /* and down */
    assert_int_equal(cgroup_limit(&groups, SLOT, &limits), 0);
    expect(CGROUP_MEMORY, "memory.limit_in_bytes", "work/memory.max", "33554432");
    assert_int_equal(cgroup_limit(&groups, SLOT, &none), 0);
    expect(CGROUP_MEMORY, "memory.limit_in_bytes", "work/memory.max",
           groups.v2 ? "max" : "9223372036854771712");
    expect(CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max", groups.v2 ? "max 100000" : "-1");
    expect(CGROUP_PIDS, "pids.max", "work/pids.max", "4096");
    finish();
}

static void test_io_limits(void **state)
{
    (void)state;
    need(CGROUP_IO);
    if (!groups.device.found)
        skip();
    char text[256];
    struct cgroup_limits limits = {.io_read_bps = 1 << 20, .io_read_iops = 100};
    const struct cgroup_limits none = {0};
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    assert_int_equal(cgroup_limit(&groups, SLOT, &limits), 0);
    read_group(CGROUP_IO, groups.v2 ? "io.max" : "blkio.throttle.read_bps_device", text);
    assert_non_null(strstr(text, "1048576"));
    if (!groups.v2) {
        limits.io_write_bps = 4096;
        assert_int_equal(cgroup_limit(&groups, SLOT, &limits), -ENOTSUP);
    }
    assert_int_equal(cgroup_limit(&groups, SLOT, &none), 0);
    char path[64];
    snprintf(path, sizeof(path), SLOT "/%s",
             groups.v2 ? "io.max" : "blkio.throttle.read_bps_device");
    CLEANUP(buf_done) struct buf left;
    buf_init(&left, 4096);
    assert_int_equal(file_read_at(groups.items[groups.of[CGROUP_IO]].fd, path, &left, NULL), 0);
    assert_null(strstr(left.data != NULL ? left.data : "", "1048576"));
    finish();
}

static void check_memory_in_use(void (*job)(void))
{
    struct cgroup_limits limits = {.memory_bytes = 64 * MIB};
    struct cgroup_usage usage;
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    assert_int_equal(cgroup_limit_new(&groups, SLOT, &limits), 0);
    start(job);
    limits.memory_bytes = 8 * MIB;
    assert_int_equal(cgroup_limit(&groups, SLOT, &limits), -EBUSY);
    expect(CGROUP_MEMORY, "memory.limit_in_bytes", "work/memory.max", "67108864");
    limits.memory_bytes = 32 * MIB;
    assert_int_equal(cgroup_limit(&groups, SLOT, &limits), 0);
    assert_int_equal(cgroup_usage(&groups, SLOT, &usage), 0);
    assert_in_range(usage.memory_peak_bytes, 24 * MIB, 64 * MIB);
    assert_int_equal(usage.oom_kills, 0);
    assert_int_equal(usage.pids, 1);
    assert_true(usage.cpu_ns > 0);
    finish();
}

static void test_memory_in_use_is_not_taken_away(void **state)
{
    (void)state;
    need(CGROUP_MEMORY);
    check_memory_in_use(take_memory);
}

/* Where there is swap the kernel first moves it there, and then finds that this counts as well. */
static void test_memory_in_the_swap_is_not_taken_away(void **state)
{
    (void)state;
    need(CGROUP_MEMORY);
    check_memory_in_use(take_swappable_memory);
}

static void test_reading_is_counted(void **state)
{
    (void)state;
    need(CGROUP_IO);
    struct stat root, folder;
    if (!groups.device.found || stat(STATE_DIR, &root) < 0 || stat("/var/tmp", &folder) < 0 ||
        root.st_dev != folder.st_dev)
        skip();
    AUTO_FREE char *data = mem_alloc(MIB);
    int fd = open(READ_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, data, MIB), 0);
    assert_int_equal(fsync(fd), 0);
    close(fd);
    struct cgroup_usage usage;
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    start(read_from_disk);
    unlink(READ_FILE);
    assert_int_equal(cgroup_meter(&groups, SLOT, &usage), 0);
    assert_in_range(usage.io_read_bytes, MIB, 2 * MIB);
    assert_in_range(usage.io_read_ops, 1, 1000);
    assert_int_equal(cgroup_meter(&groups, "slot-77", &usage), -ENOENT);
    finish();
}

static void test_hits_are_counted(void **state)
{
    (void)state;
    need(CGROUP_MEMORY);
    need(CGROUP_PIDS);
    struct cgroup_limits limits = {.memory_bytes = 16 * MIB, .pids = 10};
    struct cgroup_usage usage;
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    assert_int_equal(cgroup_limit_new(&groups, SLOT, &limits), 0);
    int status = 0;
    pid_t pid = start(take_memory);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    limits.memory_bytes = 0; /* the next are not to be killed, however large this program is */
    assert_int_equal(cgroup_limit(&groups, SLOT, &limits), 0);
    start(fork_often);
    assert_int_equal(cgroup_usage(&groups, SLOT, &usage), 0);
    assert_int_equal(usage.oom_kills, 1);
    assert_true(usage.memory_refused > 0);
    assert_true(usage.pids_refused > 0);
    assert_int_equal(usage.pids, 10);
    finish();
}

static bool is_frozen(void)
{
    bool frozen = false;
    assert_int_equal(cgroup_frozen(&groups, SLOT, &frozen), 0);
    return frozen;
}

static bool is_thawed(void)
{
    return !is_frozen();
}

static void test_freezing(void **state)
{
    (void)state;
    if (groups.count == 0 || (!groups.v2 && groups.of[CGROUP_FREEZER] < 0))
        skip();
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    start(nothing);
    assert_false(is_frozen());
    assert_int_equal(cgroup_freeze(&groups, SLOT, true), 0);
    assert_true(wait_for(is_frozen));
    assert_int_equal(cgroup_freeze(&groups, SLOT, false), 0);
    assert_true(wait_for(is_thawed));
    assert_int_equal(cgroup_freeze(&groups, SLOT, true), 0);
    assert_true(wait_for(is_frozen));
    finish(); /* kills what is frozen */
}

static void *found_names[8];
static unsigned found_count;

static void note(void *context, const char *name)
{
    (void)context;
    assert_true(strncmp(name, "slot-", 5) == 0);
    if (strcmp(name, SLOT) == 0)
        found_count++;
}

/* Nobody makes groups below ours; if somebody does, they go with the rest. */
static void test_stray_groups(void **state)
{
    (void)state;
    need(CGROUP_MEMORY);
    assert_int_equal(cgroup_make(&groups, SLOT), 0);
    const struct cgroup_hierarchy *memory = &groups.items[groups.of[CGROUP_MEMORY]];
    const char *work = groups.v2 ? SLOT "/work" : SLOT;
    char path[64];
    snprintf(path, sizeof(path), "%s/stray", work);
    assert_int_equal(mkdirat(memory->fd, path, 0755), 0);
    snprintf(path, sizeof(path), "%s/stray/deeper", work);
    assert_int_equal(mkdirat(memory->fd, path, 0755), 0);
    assert_int_equal(mkdirat(memory->fd, "other", 0755), 0);
    found_count = 0;
    cgroup_each(&groups, note, found_names);
    assert_int_equal(found_count, groups.count);
    assert_int_equal(unlinkat(memory->fd, "other", AT_REMOVEDIR), 0);
    finish();
}

static void test_names_go_on(void **state)
{
    (void)state;
    need(CGROUP_MEMORY);
    struct cgroups again;
    struct error err = ERROR_INIT;
    char name[CGROUP_NAME_MAX];
    assert_int_equal(mkdirat(groups.items[0].fd, "slot-41", 0755), 0);
    assert_int_equal(cgroup_open(&again, parent, "00000000", STATE_DIR, true, &err), 0);
    cgroup_new_name(&again, name);
    assert_string_equal(name, "slot-42");
    assert_int_equal(cgroup_remove(&groups, "slot-41"), 0);
    free(again.cpuset);
    for (unsigned i = 0; i < again.count; i++) { /* not cgroup_close(): the groups are in use */
        close(again.items[i].fd);
        free(again.items[i].path);
    }
}

/* The kernel's answer decides; what must not happen is that a descriptor is there without effect.
 */
static void test_quick_moves(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    int fd = cgroup_quick_open();
    if (fd < 0)
        skip();
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 65536);
    assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/cgroup", &text, NULL), 0);
    assert_non_null(strstr(text.data, ":name=opensandbox:/"));
    CLEANUP(buf_done) struct buf mounts;
    buf_init(&mounts, MIB);
    assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/mountinfo", &mounts, NULL), 0);
    assert_null(strstr(mounts.data, "opensandbox,favordynmods"));
    close(fd);
}

#define TEST(name) cmocka_unit_test_teardown(name, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_limits_are_set_and_lifted),
        TEST(test_io_limits),
        TEST(test_memory_in_use_is_not_taken_away),
        TEST(test_memory_in_the_swap_is_not_taken_away),
        TEST(test_reading_is_counted),
        TEST(test_hits_are_counted),
        TEST(test_freezing),
        TEST(test_stray_groups),
        TEST(test_names_go_on),
        TEST(test_quick_moves),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
