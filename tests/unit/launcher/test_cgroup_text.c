/* What the kernel says about the use of a group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "launcher/cgroup_internal.h"

static const struct cgroup_device disk = {.found = true, .major = 254, .minor = 0};
static const struct cgroup_device unknown = {.reason = "none"};

static void test_numbers(void **state)
{
    (void)state;
    assert_int_equal(cgroup_text_number("4096\n"), 4096);
    assert_int_equal(cgroup_text_number("18446744073709551615"), UINT64_MAX);
    assert_int_equal(cgroup_text_number("max\n"), 0);
    assert_int_equal(cgroup_text_number("-1\n"), 0);
    assert_int_equal(cgroup_text_number(""), 0);
}

static void test_keys(void **state)
{
    (void)state;
    static const char events[] = "low 0\nhigh 3\nmax 12\noom 2\noom_kill 1\noom_group_kill 7\n";
    assert_int_equal(cgroup_text_key(events, "max"), 12);
    assert_int_equal(cgroup_text_key(events, "oom"), 2);
    assert_int_equal(cgroup_text_key(events, "oom_kill"), 1);
    assert_int_equal(cgroup_text_key(events, "low"), 0);
    assert_int_equal(cgroup_text_key(events, "absent"), 0);
    assert_int_equal(cgroup_text_key(events, "ow"), 0);
    assert_int_equal(cgroup_text_key("oom_kill_disable 0\nunder_oom 0\noom_kill 5", "oom_kill"), 5);
    assert_int_equal(cgroup_text_key("", "max"), 0);
    assert_int_equal(cgroup_text_key("\n\n", "max"), 0);
    assert_int_equal(cgroup_text_key("max", "max"), 0);
    assert_int_equal(
        cgroup_text_key("usage_usec 77\nnr_periods 1\nnr_throttled 9\n", "nr_throttled"), 9);
}

static void test_io_v1(void **state)
{
    (void)state;
    static const char text[] = "7:0 Read 100\n7:0 Write 200\n7:0 Total 300\n"
                               "254:0 Read 4096\n254:0 Write 8192\n254:0 Sync 1\n"
                               "254:0 Total 12288\nTotal 12588\n";
    assert_int_equal(cgroup_text_io_v1(text, &disk, "Read"), 4096);
    assert_int_equal(cgroup_text_io_v1(text, &disk, "Write"), 8192);
    assert_int_equal(cgroup_text_io_v1(text, &unknown, "Read"), 4196);
    assert_int_equal(cgroup_text_io_v1("Total 0\n", &disk, "Read"), 0);
    assert_int_equal(cgroup_text_io_v1("", &disk, "Read"), 0);
    assert_int_equal(cgroup_text_io_v1("254:0 \n254:0 Read", &disk, "Read"), 0);
}

static void test_io_v2(void **state)
{
    (void)state;
    static const char text[] =
        "254:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n"
        "254:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=9 dios=9\n";
    assert_int_equal(cgroup_text_io_v2(text, &disk, "rbytes"), 1459200);
    assert_int_equal(cgroup_text_io_v2(text, &disk, "wbytes"), 314773504);
    assert_int_equal(cgroup_text_io_v2(text, &disk, "rios"), 192);
    assert_int_equal(cgroup_text_io_v2(text, &disk, "wios"), 353);
    assert_int_equal(cgroup_text_io_v2(text, &unknown, "wios"), 357);
    /* A disk without numbers, as some kernels write it. */
    assert_int_equal(cgroup_text_io_v2("254:0 \n254:16 rbytes=5\n", &disk, "rbytes"), 0);
    assert_int_equal(cgroup_text_io_v2("", &disk, "rbytes"), 0);
}

static void test_device(void **state)
{
    (void)state;
    struct cgroup_device device;
    cgroup_find_device("/proc", &device);
    assert_false(device.found);
    assert_non_null(strstr(device.reason, "/proc"));
    cgroup_find_device("/nowhere/at/all", &device);
    assert_false(device.found);
    assert_non_null(strstr(device.reason, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_keys),   cmocka_unit_test(test_io_v1),
        cmocka_unit_test(test_io_v2),   cmocka_unit_test(test_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
