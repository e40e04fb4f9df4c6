/* Samples from trees of files as kernels and containers show them. */
#include <fcntl.h>
#include <limits.h>
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

#include "base/file.h"
#include "base/mem.h"
#include "execd/metrics_cgroup.h"
#include "execd/metrics_sample.h"

#define MIB (1024ULL * 1024)

static char root[64];

static void put(const char *path, const char *text)
{
    char full[PATH_MAX];
    struct error err = ERROR_INIT;
    snprintf(full, sizeof(full), "%s%s", root, path);
    char *slash = strrchr(full, '/');
    *slash = '\0';
    assert_int_equal(file_make_dirs(full, 0755, &err), 0);
    *slash = '/';
    AUTO_CLOSE int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/osb-test-metrics-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree_at(AT_FDCWD, root, NULL);
}

static struct execd_sample read_sample(void)
{
    struct execd_sample sample;
    struct error err = ERROR_INIT;
    if (execd_sample_read(&sample, root, 8, &err) < 0)
        fail_msg("%s", err.message);
    return sample;
}

static void put_machine(void)
{
    put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree:          100 kB\n"
                         "MemAvailable:    3145728 kB\n");
    put("/proc/stat", "cpu  100 20 30 1000 50 1 2 3 0 0\ncpu0 50 10 15 500 25 1 1 1 0 0\n"
                      "cpu1 50 10 15 500 25 0 1 2 0 0\nintr 5 cpu\n");
}

static void put_v2(const char *group)
{
    put("/proc/self/cgroup", group);
    put("/proc/self/mountinfo",
        "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
}

static void test_v2(void **state)
{
    (void)state;
    put_machine();
    put_v2("0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 7000\nuser_usec 6000\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "536870912\n");
    put("/sys/fs/cgroup/a/b/memory.current", "209715200\n");
    put("/sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_anon 9\ninactive_file 104857600\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 7000000);
    assert_int_equal(sample.cpu_count, 2); /* one and a half, rounded up */
    assert_float_equal(sample.cpu_capacity, 1.5, 0.001);
    assert_int_equal(sample.memory_total, 512 * MIB);
    assert_int_equal(sample.memory_used, 100 * MIB);
}

static void test_limits_of_groups_above_count(void **state)
{
    (void)state;
    put_machine();
    put_v2("0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 1\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1048576\n");
    put("/sys/fs/cgroup/a/cpu.max", "40000 100000\n");
    put("/sys/fs/cgroup/a/memory.max", "268435456\n");
    put("/sys/fs/cgroup/a/memory.current", "73400320\n");
    put("/sys/memory.max", "1\n"); /* above the mount point: not ours */
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_count, 1);
    assert_float_equal(sample.cpu_capacity, 0.4, 0.001);
    assert_int_equal(sample.memory_total, 256 * MIB);
    assert_int_equal(sample.memory_used, 70 * MIB);
}

static void test_v2_without_limits(void **state)
{
    (void)state;
    put_machine();
    put_v2("0::/a\n");
    put("/sys/fs/cgroup/a/cpu.stat", "usage_usec 1\n");
    put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.current", "52428800\n");
    put("/sys/fs/cgroup/a/memory.stat", "inactive_file 99999999999\n"); /* more than all: 0 */
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_count, 8);
    assert_int_equal(sample.memory_total, 4096 * MIB);
    assert_int_equal(sample.memory_used, 0);
}

/* The root of the hierarchy has no memory files: the machine's own figures. */
static void test_v2_root(void **state)
{
    (void)state;
    put_machine();
    put_v2("0::/\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 5000);
    assert_int_equal(sample.memory_total, 4096 * MIB);
    assert_int_equal(sample.memory_used, 1024 * MIB);
}

static void put_v1(const char *groups)
{
    put("/proc/self/cgroup", groups);
    put("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
}

static void test_v1(void **state)
{
    (void)state;
    put_machine();
    put_v1("4:memory:/p/q\n3:cpu,cpuacct:/docker/x/y\n1:name=systemd:/\n0::/z\n");
    put("/sys/fs/cgroup/unified/z/cpu.stat",
        "usage_usec 999\n"); /* not where the controllers are */
    put("/sys/fs/cgroup/cpu,cpuacct/y/cpuacct.usage", "123456789\n");
    put("/sys/fs/cgroup/cpu,cpuacct/y/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/y/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/mem ory/p/q/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/mem ory/p/q/memory.usage_in_bytes", "31457280\n");
    put("/sys/fs/cgroup/mem ory/p/q/memory.stat",
        "inactive_file 1\ntotal_inactive_file 10485760\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 123456789);
    assert_int_equal(sample.cpu_count, 3);
    assert_int_equal(sample.memory_total, 4096 * MIB);
    assert_int_equal(sample.memory_used, 20 * MIB);
    put("/sys/fs/cgroup/mem ory/p/memory.limit_in_bytes", "134217728\n");
    put("/sys/fs/cgroup/mem ory/p/memory.usage_in_bytes", "41943040\n");
    sample = read_sample();
    assert_int_equal(sample.memory_total, 128 * MIB);
    assert_int_equal(sample.memory_used, 40 * MIB);
}

/* A container without a cgroup namespace: the path means something only outside. */
static void test_path_that_is_not_visible(void **state)
{
    (void)state;
    put_machine();
    put_v1("4:memory:/../elsewhere\n3:cpu,cpuacct:/other\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "5\n");
    put("/sys/fs/cgroup/mem ory/memory.limit_in_bytes", "67108864\n");
    put("/sys/fs/cgroup/mem ory/memory.usage_in_bytes", "1048576\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 5);
    assert_int_equal(sample.memory_total, 64 * MIB);
    assert_int_equal(sample.memory_used, 1 * MIB);
}

/* As execd is in a native sandbox: beside the group that its cgroup namespace begins with, which is
 * the one that is shown. */
static void test_beside_the_group_that_is_shown(void **state)
{
    (void)state;
    put_machine();
    put_v1("4:memory:/..\n3:cpu,cpuacct:/docker/x\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "6\n");
    put("/sys/fs/cgroup/memory.limit_in_bytes", "1048576\n"); /* above what is mounted */
    put("/sys/fs/cgroup/memory.usage_in_bytes", "4096\n");
    put("/sys/fs/cgroup/mem ory/memory.limit_in_bytes", "67108864\n");
    put("/sys/fs/cgroup/mem ory/memory.usage_in_bytes", "2097152\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 6);
    assert_int_equal(sample.memory_total, 64 * MIB);
    assert_int_equal(sample.memory_used, 2 * MIB);
    put_v2("0::/../init\n");
    put("/sys/fs/init/cpu.stat", "usage_usec 1\n");
    put("/sys/fs/init/memory.current", "4096\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n");
    put("/sys/fs/cgroup/memory.max", "33554432\n");
    put("/sys/fs/cgroup/memory.current", "3145728\n");
    sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 9000);
    assert_int_equal(sample.memory_total, 32 * MIB);
    assert_int_equal(sample.memory_used, 3 * MIB);
}

static void test_without_proc(void **state)
{
    (void)state;
    put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 3\n");
    put("/sys/fs/cgroup/memory.max", "33554432\n");
    put("/sys/fs/cgroup/memory.current", "1048576\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 3000);
    assert_int_equal(sample.memory_total, 32 * MIB);
    assert_int_equal(sample.memory_used, 1 * MIB);
}

static void test_usual_places_of_v1(void **state)
{
    (void)state;
    put("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "77\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2097152\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, 77);
    assert_int_equal(sample.memory_used, 2 * MIB);
}

static void test_machine_alone(void **state)
{
    (void)state;
    put_machine();
    struct execd_sample sample = read_sample();
    uint64_t tick_ns = 1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK);
    assert_int_equal(sample.cpu_used_ns, (100 + 20 + 30 + 1 + 2 + 3) * tick_ns);
    assert_float_equal(sample.cpu_capacity, 2, 0.001);
    assert_int_equal(sample.cpu_count, 8);
    assert_int_equal(sample.memory_total, 4096 * MIB);
    assert_int_equal(sample.memory_used, 1024 * MIB);
}

/* A group that limits but does not count, and we are process 1: the sum of all processes. */
static void test_processes(void **state)
{
    (void)state;
    uint64_t tick_ns = 1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK);
    put_machine();
    put("/proc/self/stat", "1 (execd) S 0\n");
    put("/proc/1/stat", "1 (execd) S 0 1 1 0 -1 4194560 5 6 7 8 10 20 300 400 20 0 1 0\n");
    put("/proc/77/stat", "77 (a) b) S 9 9) R 1 77 1 0 -1 4194560 5 6 7 8 1 2 3 4 20 0 1 0\n");
    put("/proc/78/stat", "78 (gone"); /* whatever */
    put("/proc/uptime", "1 1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    struct execd_sample sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, (730 + 10) * tick_ns);
    assert_float_equal(sample.cpu_capacity, 0.5, 0.001);
    put("/proc/self/stat", "12 (execd) S 0\n"); /* not process 1: others may not be ours */
    sample = read_sample();
    assert_int_equal(sample.cpu_used_ns, (100 + 20 + 30 + 1 + 2 + 3) * tick_ns);
}

static void assert_missing(const char *part)
{
    struct execd_sample sample;
    struct error err = ERROR_INIT;
    assert_true(execd_sample_read(&sample, root, 1, &err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, part));
}

static void test_nothing_to_read(void **state)
{
    (void)state;
    assert_missing("nor /proc/stat to be read");
    put("/proc/stat", "cpu  1 2 3 4 5 6 7 8\n");
    assert_missing("nor /proc/meminfo to be read");
    put("/proc/meminfo", "");
    assert_missing("nor /proc/meminfo to be read");
}

/* Whoever can write to the root may put anything there; it must neither block nor confuse us. */
static void test_strange_files(void **state)
{
    (void)state;
    char path[PATH_MAX];
    put_machine();
    put("/proc/self/x", "");
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    read_sample();
    assert_int_equal(unlink(path), 0);
    put("/proc/self/cgroup", "\n:\n::\n0:\n0::\n:::::\n4:memory\n4:memory:\n");
    put("/proc/self/mountinfo", "\n - \n1 - cgroup2\n1 2 3 4 - cgroup2 c rw\n1 2 3 /\\777 /\\04 - "
                                "cgroup2 c rw\n1 2 3 / / o - cgroup2 c\n - cgroup2 cgroup2 rw\n");
    read_sample();
    AUTO_FREE char *long_line = mem_alloc(200000);
    memset(long_line, 'x', 199999);
    put("/proc/self/cgroup", long_line);
    read_sample();
}

static void test_percent(void **state)
{
    (void)state;
    struct execd_sample before = {.at_ns = 1000, .cpu_used_ns = 500, .cpu_capacity = 2};
    struct execd_sample after = before;
    assert_float_equal(execd_sample_cpu_percent(&before, &after), 0, 0.001);
    after.at_ns = 2000;
    assert_float_equal(execd_sample_cpu_percent(&before, &after), 0, 0.001);
    after.cpu_used_ns = 1000;
    assert_float_equal(execd_sample_cpu_percent(&before, &after), 25, 0.001);
    after.cpu_used_ns = 99999;
    assert_float_equal(execd_sample_cpu_percent(&before, &after), 100, 0.001);
    after.cpu_used_ns = 1; /* another group's counter */
    assert_float_equal(execd_sample_cpu_percent(&before, &after), 0, 0.001);
    assert_true(execd_sample_cpus() >= 1);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TREE(test_v2),
        IN_TREE(test_limits_of_groups_above_count),
        IN_TREE(test_v2_without_limits),
        IN_TREE(test_v2_root),
        IN_TREE(test_v1),
        IN_TREE(test_path_that_is_not_visible),
        IN_TREE(test_beside_the_group_that_is_shown),
        IN_TREE(test_without_proc),
        IN_TREE(test_usual_places_of_v1),
        IN_TREE(test_machine_alone),
        IN_TREE(test_processes),
        IN_TREE(test_nothing_to_read),
        IN_TREE(test_strange_files),
        cmocka_unit_test(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
