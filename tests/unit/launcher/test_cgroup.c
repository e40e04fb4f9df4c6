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

static void test_all_controllers(void **state)
{
    (void)state;
    static const char text[] =
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
        "38 31 0:35 / /sys/fs/cgroup/blkio rw master:3 propagate_from:2 - cgroup cgroup rw,blkio\n"
        "37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
        "37 31 0:34 / /again rw - cgroup cgroup rw,freezer\n"
        "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=memory\n";
    struct cgroup_mounts mounts;
    cgroup_mounts_parse(text, &mounts);
    assert_string_equal(mounts.v1[CGROUP_CPU], "/sys/fs/cgroup/cpu");
    assert_string_equal(mounts.v1[CGROUP_CPUACCT], "/sys/fs/cgroup/cpuacct");
    assert_string_equal(mounts.v1[CGROUP_IO], "/sys/fs/cgroup/blkio");
    assert_string_equal(mounts.v1[CGROUP_FREEZER], "/sys/fs/cgroup/freezer");
    assert_null(mounts.v1[CGROUP_MEMORY]);
    cgroup_mounts_done(&mounts);
}

/* A fixed sequence of damaged lines: none may crash it, whatever it finds. */
static void test_damaged_lines(void **state)
{
    (void)state;
    static const char pieces[] = " -/\\0134,:\n\tcgroup2 memory rw";
    char text[512];
    uint32_t number = 12345;
    for (int round = 0; round < 5000; round++) {
        size_t length = 0;
        while (length < sizeof(text) - 1 && (number = number * 1664525u + 1013904223u) >> 25 != 0)
            text[length++] = pieces[(number >> 16) % (sizeof(pieces) - 1)];
        text[length] = '\0';
        struct cgroup_mounts mounts;
        cgroup_mounts_parse(text, &mounts);
        cgroup_mounts_done(&mounts);
    }
}

static void test_which_version(void **state)
{
    (void)state;
    char place[] = "/x";
    struct cgroup_mounts none = {0}, unified = {.v2 = place}, stray = {.v2 = place},
                         hybrid = {.v2 = place}, legacy = {0};
    stray.v1[CGROUP_CPUACCT] = place;
    stray.v1[CGROUP_FREEZER] = place;
    hybrid.v1[CGROUP_MEMORY] = hybrid.v1[CGROUP_PIDS] = place;
    legacy.v1[CGROUP_MEMORY] = place;
    assert_false(cgroup_mounts_prefer_v2(&none, ""));
    assert_true(cgroup_mounts_prefer_v2(&unified, "cpuset cpu io memory hugetlb pids\n"));
    assert_true(cgroup_mounts_prefer_v2(&unified, ""));
    assert_true(cgroup_mounts_prefer_v2(&stray, "cpu io memory pids"));
    assert_false(cgroup_mounts_prefer_v2(&hybrid, "hugetlb\n"));
    assert_false(cgroup_mounts_prefer_v2(&hybrid, ""));
    assert_false(cgroup_mounts_prefer_v2(&hybrid, "cpu"));
    assert_false(cgroup_mounts_prefer_v2(&legacy, ""));
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

static void check_refused(const struct cgroups *groups, struct cgroup_limits limits,
                          const char *reason)
{
    struct error err = ERROR_INIT;
    assert_true(cgroup_check(groups, &limits, &err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, reason));
}

static void test_io_limits_are_refused_with_the_reason(void **state)
{
    (void)state;
    struct cgroups groups = {.of = {-1, -1, -1, -1, -1, -1},
                             .device = {.reason = "/x is on a tmpfs"}};
    const struct cgroup_limits reads[] = {{.io_read_bps = 4096}, {.io_read_iops = 1}};
    const struct cgroup_limits writes[] = {{.io_write_bps = 4096}, {.io_write_iops = 1}};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < 2; i++) {
        groups.of[CGROUP_IO] = -1;
        groups.v2 = false;
        check_refused(&groups, reads[i], "no usable blkio cgroup controller");
        groups.v2 = true;
        check_refused(&groups, writes[i], "no usable io cgroup controller");
        groups.of[CGROUP_IO] = 0;
        groups.device.found = false;
        check_refused(&groups, reads[i], "/x is on a tmpfs");
        groups.device.found = true;
        assert_int_equal(cgroup_check(&groups, &reads[i], &err), 0);
        assert_int_equal(cgroup_check(&groups, &writes[i], &err), 0);
        groups.v2 = false;
        assert_int_equal(cgroup_check(&groups, &reads[i], &err), 0);
        check_refused(&groups, writes[i], "boot with cgroup v2");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_unified),
        cmocka_unit_test(test_odd_lines),
        cmocka_unit_test(test_all_controllers),
        cmocka_unit_test(test_damaged_lines),
        cmocka_unit_test(test_which_version),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_missing_controllers_are_named),
        cmocka_unit_test(test_io_limits_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
