/* What is written and read on version 2, on a tree of plain files. */
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

static void empty_all(struct tree *tree)
{
    static const char *const files[] = {
        "cpu.max",
        "io.max",
        "cgroup.freeze",
        "cgroup.kill",
        "work/cpu.max",
        "work/memory.max",
        "work/memory.swap.max",
        "work/memory.high",
        "work/memory.current",
        "work/pids.max",
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put(tree, files[i], "");
}

static int set_up(void **state)
{
    struct tree *tree = mem_alloc(sizeof(*tree));
    snprintf(tree->path, sizeof(tree->path), "/tmp/osb-unit-cgroup-XXXXXX");
    assert_non_null(mkdtemp(tree->path));
    int fd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(mkdirat(fd, "slot-1", 0700), 0);
    assert_int_equal(mkdirat(fd, "slot-1/work", 0700), 0);
    tree->groups = (struct cgroups){
        .v2 = true,
        .count = 1,
        .items = {{.fd = fd, .path = tree->path, .inside = "", .has_work = true}},
        .of = {0, 0, 0, 0, -1, -1},
        .device = {.found = true, .major = 8, .minor = 16},
    };
    empty_all(tree);
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
    const struct cgroup_limits limits = {
        .memory_bytes = 64 << 20,
        .io_read_bps = 1 << 20,
        .io_write_iops = 50,
        .cpu_millis = 1500,
        .pids = 77,
    };
    put(tree, "work/memory.current", "4096\n");
    assert_int_equal(cgroup_limit(&tree->groups, "slot-1", &limits), 0);
    expect(tree, "work/memory.max", "67108864");
    expect(tree, "work/memory.swap.max", "0");
    expect(tree, "cpu.max", "150000 100000");
    expect(tree, "work/cpu.max", "150000 100000");
    expect(tree, "work/pids.max", "77");
    expect(tree, "io.max", "8:16 rbps=1048576 wbps=max riops=max wiops=50");
}

static void test_lifted(void **state)
{
    struct tree *tree = *state;
    const struct cgroup_limits none = {0};
    assert_int_equal(cgroup_limit(&tree->groups, "slot-1", &none), 0);
    expect(tree, "work/memory.max", "max");
    expect(tree, "work/memory.swap.max", "max");
    expect(tree, "cpu.max", "max");
    expect(tree, "work/cpu.max", "max");
    expect(tree, "work/pids.max", "4096");
    expect(tree, "io.max", "8:16 rbps=max wbps=max riops=max wiops=max");
}

static void test_new_ones_have_nothing_to_lift(void **state)
{
    struct tree *tree = *state;
    const struct cgroup_limits none = {0};
    assert_int_equal(cgroup_limit_new(&tree->groups, "slot-1", &none), 0);
    expect(tree, "work/memory.max", "");
    expect(tree, "cpu.max", "");
    expect(tree, "work/pids.max", "");
    expect(tree, "io.max", "");
}

/* Nothing frees memory here, so more than the limit stays in use. */
static void test_memory_in_use_is_not_taken_away(void **state)
{
    struct tree *tree = *state;
    const struct cgroup_limits limits = {.memory_bytes = 8192, .cpu_millis = 1000};
    put(tree, "work/memory.current", "8193\n");
    assert_int_equal(cgroup_limit(&tree->groups, "slot-1", &limits), -EBUSY);
    expect(tree, "work/memory.max", "");
    expect(tree, "cpu.max", "");
    /* Tried by memory.high, which is lifted again ("max" over "8192"). */
    expect(tree, "work/memory.high", "max2");
    put(tree, "work/memory.current", "8192\n");
    assert_int_equal(cgroup_limit(&tree->groups, "slot-1", &limits), 0);
    expect(tree, "work/memory.max", "8192");
}

static void test_missing_controllers(void **state)
{
    struct tree *tree = *state;
    struct cgroups groups = tree->groups;
    const struct cgroup_limits none = {0}, memory = {.memory_bytes = 1 << 20},
                               io = {.io_read_bps = 4096};
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        groups.of[i] = -1;
    assert_int_equal(cgroup_limit(&groups, "slot-1", &none), 0);
    expect(tree, "work/pids.max", "");
    assert_int_equal(cgroup_limit(&groups, "slot-1", &memory), -ENOTSUP);
    assert_int_equal(cgroup_limit(&groups, "slot-1", &io), -ENOTSUP);
    groups.of[CGROUP_IO] = 0;
    groups.device.found = false;
    assert_int_equal(cgroup_limit(&groups, "slot-1", &io), -ENOTSUP);
}

static void test_usage(void **state)
{
    struct tree *tree = *state;
    struct cgroup_usage usage;
    put(tree, "cpu.stat", "usage_usec 1234567\nuser_usec 1\nnr_periods 9\nnr_throttled 4\n");
    put(tree, "io.stat", "8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n");
    put(tree, "work/memory.current", "5000\n");
    put(tree, "work/memory.peak", "9000\n");
    put(tree, "work/memory.events", "low 0\nhigh 0\nmax 11\noom 2\noom_kill 2\n");
    put(tree, "work/pids.current", "6\n");
    put(tree, "work/pids.events", "max 13\n");
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), 0);
    assert_int_equal(usage.cpu_ns, 1234567000);
    assert_int_equal(usage.cpu_throttled, 4);
    assert_int_equal(usage.io_read_bytes, 1);
    assert_int_equal(usage.io_write_bytes, 2);
    assert_int_equal(usage.io_read_ops, 3);
    assert_int_equal(usage.io_write_ops, 4);
    assert_int_equal(usage.memory_bytes, 5000);
    assert_int_equal(usage.memory_peak_bytes, 9000);
    assert_int_equal(usage.memory_refused, 11);
    assert_int_equal(usage.oom_kills, 2);
    assert_int_equal(usage.pids, 6);
    assert_int_equal(usage.pids_refused, 13);
}

static void test_usage_of_an_old_kernel(void **state)
{
    struct tree *tree = *state;
    struct cgroup_usage usage;
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), -ENOENT);
    put(tree, "cpu.stat", "usage_usec 5\n");
    put(tree, "work/memory.current", "5000\n");
    assert_int_equal(cgroup_usage(&tree->groups, "slot-1", &usage), 0);
    assert_int_equal(usage.memory_peak_bytes, 5000);
    assert_int_equal(usage.pids, 0);
}

static void test_freezing(void **state)
{
    struct tree *tree = *state;
    bool frozen = false;
    assert_int_equal(cgroup_freeze(&tree->groups, "slot-1", true), 0);
    expect(tree, "cgroup.freeze", "1");
    put(tree, "cgroup.events", "populated 1\nfrozen 0\n");
    assert_int_equal(cgroup_frozen(&tree->groups, "slot-1", &frozen), 0);
    assert_false(frozen);
    put(tree, "cgroup.events", "populated 1\nfrozen 1\n");
    assert_int_equal(cgroup_frozen(&tree->groups, "slot-1", &frozen), 0);
    assert_true(frozen);
    assert_int_equal(cgroup_freeze(&tree->groups, "slot-1", false), 0);
    expect(tree, "cgroup.freeze", "0");
    assert_int_equal(cgroup_freeze(&tree->groups, "slot-2", true), -ENOENT);
}

static void test_killing(void **state)
{
    struct tree *tree = *state;
    assert_int_equal(cgroup_kill(&tree->groups, "slot-1"), 0);
    expect(tree, "cgroup.kill", "1");
}

static void test_nothing_at_all(void **state)
{
    (void)state;
    struct cgroups groups = {.of = {-1, -1, -1, -1, -1, -1}};
    struct cgroup_usage usage;
    const struct cgroup_limits none = {0};
    bool frozen;
    assert_int_equal(cgroup_make(&groups, "slot-1"), 0);
    assert_int_equal(cgroup_limit(&groups, "slot-1", &none), 0);
    assert_int_equal(cgroup_usage(&groups, "slot-1", &usage), 0);
    assert_int_equal(cgroup_freeze(&groups, "slot-1", true), -ENOTSUP);
    assert_int_equal(cgroup_frozen(&groups, "slot-1", &frozen), -ENOTSUP);
    assert_int_equal(cgroup_kill(&groups, "slot-1"), 0);
    assert_int_equal(cgroup_remove(&groups, "slot-1"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_limits),
        TEST(test_lifted),
        TEST(test_new_ones_have_nothing_to_lift),
        TEST(test_memory_in_use_is_not_taken_away),
        TEST(test_missing_controllers),
        TEST(test_usage),
        TEST(test_usage_of_an_old_kernel),
        TEST(test_freezing),
        TEST(test_killing),
        cmocka_unit_test(test_nothing_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
