/* What is written and read on version 1, on a tree of plain files that stands for all hierarchies.
 */
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/cgroup.h"

struct tree {
    char path[64];
    struct cgroups groups;
};

static void put(struct tree *tree, const char *file, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "slot-1/%s", file);
    int fd = openat(tree->groups.items[0].fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void expect(struct tree *tree, const char *file, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "slot-1/%s", file);
    CLEANUP(buf_done) struct buf found;
    buf_init(&found, 4096);
    assert_int_equal(file_read_at(tree->groups.items[0].fd, path, &found, NULL), 0);
    assert_string_equal(found.data, text);
}

static int set_up(void **state)
{
    struct tree *tree = mem_alloc(sizeof(*tree));
    snprintf(tree->path, sizeof(tree->path), "/tmp/osb-unit-cgroup-XXXXXX");
    assert_non_null(mkdtemp(tree->path));
    int fd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(mkdirat(fd, "slot-1", 0700), 0);
    tree->groups = (struct cgroups){
        .v2 = false,
        .count = 1,
        .items = {{.fd = fd, .path = tree->path, .inside = "all", .has_work = true}},
        .of = {0, 0, 0, 0, 0, 0},
        .device = {.found = true, .major = 8, .minor = 16},
    };
    *state = tree;
    return 0;
}

static int tear_down(void **state)
{
    struct tree *tree = *state;
    close(tree->groups.items[0].fd);
    file_remove_tree_at(AT_FDCWD, tree->path, NULL);
    free(tree);
    return 0;
}

static void test_limits(void **state)
{
    struct tree *tree = *state;
    static const char *const files[] = {
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "pids.max",
        "cpu.cfs_period_us",
        "cpu.cfs_quota_us",
        "blkio.throttle.read_bps_device",
        "blkio.throttle.read_iops_device",
    };
    const struct cgroup_limits limits = {
        .memory_bytes = 8192, .io_read_bps = 4096, .io_read_iops = 7, .cpu_millis = 250, .pids = 9};
    const struct cgroup_limits writing = {.io_write_iops = 1};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put(tree, files[i], "");
    assert_int_equal(cgroup_limit_new(&tree->groups, "slot-1", &limits), 0);
    expect(tree, "memory.limit_in_bytes", "8192");
    expect(tree, "memory.memsw.limit_in_bytes", "8192");
    expect(tree, "pids.max", "9");
    expect(tree, "cpu.cfs_period_us", "100000");
    expect(tree, "cpu.cfs_quota_us", "25000");
    expect(tree, "blkio.throttle.read_bps_device", "8:16 4096");
    expect(tree, "blkio.throttle.read_iops_device", "8:16 7");
    assert_int_equal(cgroup_limit_new(&tree->groups, "slot-1", &writing), -ENOTSUP);
}

static void test_lifted(void **state)
{
    struct tree *tree = *state;
    const struct cgroup_limits none = {0};
    static const char *const files[] = {"memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us",
                                        "blkio.throttle.read_bps_device",
                                        "blkio.throttle.read_iops_device"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put(tree, files[i], "");
    /* Without swap accounting, that is: there is no such file. */
    assert_int_equal(cgroup_limit(&tree->groups, "slot-1", &none), 0);
    expect(tree, "memory.limit_in_bytes", "-1");
    expect(tree, "pids.max", "4096");
    expect(tree, "cpu.cfs_quota_us", "-1");
    expect(tree, "blkio.throttle.read_bps_device", "8:16 0");
    expect(tree, "blkio.throttle.read_iops_device", "8:16 0");
}

/* A directory in its place makes the second step fail: the first one is taken back. */
static void test_half_of_a_memory_limit_is_taken_back(void **state)
{
    struct tree *tree = *state;
    const struct cgroup_limits limits = {.memory_bytes = 5};
    put(tree, "memory.limit_in_bytes", "100\n");
    assert_int_equal(mkdirat(tree->groups.items[0].fd, "slot-1/memory.memsw.limit_in_bytes", 0700),
                     0);
    assert_int_equal(cgroup_limit(&tree->groups, "slot-1", &limits), -EISDIR);
    expect(tree, "memory.limit_in_bytes", "100\n");
}

static void test_usage(void **state)
{
    struct tree *tree = *state;
    struct cgroup_usage usage;
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), -ENOENT);
    put(tree, "memory.usage_in_bytes", "5000\n");
    put(tree, "memory.max_usage_in_bytes", "9000\n");
    put(tree, "memory.failcnt", "3\n");
    put(tree, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    put(tree, "pids.current", "6\n");
    put(tree, "pids.events", "max 13\n");
    put(tree, "cpuacct.usage", "123456789\n");
    put(tree, "cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 5\n");
    put(tree, "blkio.throttle.io_service_bytes", "8:16 Read 10\n8:16 Write 20\nTotal 30\n");
    put(tree, "blkio.throttle.io_serviced", "8:16 Read 1\n8:16 Write 2\nTotal 3\n");
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), 0);
    assert_int_equal(usage.memory_bytes, 5000);
    assert_int_equal(usage.memory_peak_bytes, 9000);
    assert_int_equal(usage.memory_refused, 3);
    assert_int_equal(usage.oom_kills, 2);
    assert_int_equal(usage.pids, 6);
    assert_int_equal(usage.pids_refused, 13);
    assert_int_equal(usage.cpu_ns, 123456789);
    assert_int_equal(usage.cpu_throttled, 4);
    assert_int_equal(usage.io_read_bytes, 10);
    assert_int_equal(usage.io_write_bytes, 20);
    assert_int_equal(usage.io_read_ops, 1);
    assert_int_equal(usage.io_write_ops, 2);
    put(tree, "memory.memsw.failcnt", "8\n");
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), 0);
    assert_int_equal(usage.memory_refused, 8);
    put(tree, "memory.memsw.failcnt", "0\n"); /* not counted: it was hit, all the same */
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), 0);
    assert_int_equal(usage.memory_refused, 2);
}

static void test_freezing(void **state)
{
    struct tree *tree = *state;
    bool frozen = true;
    put(tree, "freezer.state", "");
    assert_int_equal(cgroup_freeze(&tree->groups, "slot-1", true), 0);
    expect(tree, "freezer.state", "FROZEN");
    put(tree, "freezer.state", "FREEZING\n");
    assert_int_equal(cgroup_frozen(&tree->groups, "slot-1", &frozen), 0);
    assert_false(frozen);
    put(tree, "freezer.state", "FROZEN\n");
    assert_int_equal(cgroup_frozen(&tree->groups, "slot-1", &frozen), 0);
    assert_true(frozen);
    put(tree, "freezer.state", "");
    assert_int_equal(cgroup_freeze(&tree->groups, "slot-1", false), 0);
    expect(tree, "freezer.state", "THAWED");
    tree->groups.of[CGROUP_FREEZER] = -1;
    assert_int_equal(cgroup_freeze(&tree->groups, "slot-1", true), -ENOTSUP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_limits), TEST(test_lifted),   TEST(test_half_of_a_memory_limit_is_taken_back),
        TEST(test_usage),  TEST(test_freezing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
