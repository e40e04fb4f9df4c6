/* The parts that need no control group: where hierarchies are, what quotas are, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "launcher/cgroup.h"

static void test_hybrid(void **state)
{
    (void)state;
    static const char text[] =
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    struct cgroup_mounts mounts;
    cgroup_mounts_parse(text, &mounts);
    assert_string_equal(mounts.v1[CGROUP_MEMORY], "/sys/fs/cgroup/memory");
    assert_string_equal(mounts.v1[CGROUP_CPU], "/sys/fs/cgroup/cpu,cpuacct");
    assert_null(mounts.v1[CGROUP_PIDS]);
    assert_string_equal(mounts.v2, "/sys/fs/cgroup/unified");
    cgroup_mounts_done(&mounts);
}

static void test_unified(void **state)
{
    (void)state;
    struct cgroup_mounts mounts;
    cgroup_mounts_parse("31 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
                        "35 31 0:32 / /other\\040place\\134x rw - cgroup none rw,pids\n",
                        &mounts);
    assert_string_equal(mounts.v2, "/sys/fs/cgroup");
    assert_null(mounts.v1[CGROUP_MEMORY]);
    assert_string_equal(mounts.v1[CGROUP_PIDS], "/other place\\x");
    cgroup_mounts_done(&mounts);
}

static void test_odd_lines(void **state)
{
    (void)state;
    struct cgroup_mounts mounts;
    cgroup_mounts_parse("\n - \nx - cgroup\n1 2 3 4 - cgroup cgroup memory\n"
                        "1 2 0:1 / /m\\9 rw - cgroup cgroup rw,memory",
                        &mounts);
    assert_null(mounts.v2);
    assert_string_equal(mounts.v1[CGROUP_MEMORY], "/m\\9");
    cgroup_mounts_done(&mounts);
}

static void test_quota(void **state)
{
    (void)state;
    static const uint32_t cases[][3] = {
        /* millis, quota, period */
        {1, 1000, 1000000},     {3, 1000, 333333},
        {9, 1000, 111111},      {10, 1000, 100000},
        {500, 50000, 100000},   {1000, 100000, 100000},
        {2500, 250000, 100000}, {1000000, 100000000, 100000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t quota, period;
        cgroup_cpu_quota(cases[i][0], &quota, &period);
        assert_int_equal(quota, cases[i][1]);
        assert_int_equal(period, cases[i][2]);
    }
}

static void test_missing_controllers_are_named(void **state)
{
    (void)state;
    struct cgroups groups = {.of = {-1, 0, -1, -1, -1, -1}};
    struct cgroup_limits none = {0}, cpu = {.cpu_millis = 100}, memory = {.memory_bytes = 1},
                         pids = {.pids = 5};
    struct error err = ERROR_INIT;
    assert_int_equal(cgroup_check(&groups, &none, &err), 0);
    assert_int_equal(cgroup_check(&groups, &cpu, &err), 0);
    assert_true(cgroup_check(&groups, &memory, &err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "memory"));
    assert_true(cgroup_check(&groups, &pids, &err) < 0);
    assert_non_null(strstr(err.message, "pids"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_unified),
        cmocka_unit_test(test_odd_lines),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_missing_controllers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
