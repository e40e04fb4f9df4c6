/* Memory over time, what never falls, and the file that keeps both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "launcher/meter.h"
#include "runtime/native/message.h"

#define MIB (1ull << 20)

static struct cgroup_usage holding(uint64_t bytes)
{
    return (struct cgroup_usage){.memory_bytes = bytes};
}

static void add(struct meter *meter, uint64_t bytes, uint64_t now_ms)
{
    struct cgroup_usage usage = holding(bytes);
    meter_add(meter, &usage, now_ms);
}

static void test_integral(void **state)
{
    (void)state;
    struct meter meter = {.read_ms = 1000};
    add(&meter, 10 * MIB, 2000); /* from nothing to 10 MiB within a second */
    assert_int_equal(meter.memory_mib_ms, 5000);
    add(&meter, 10 * MIB, 4000);
    assert_int_equal(meter.memory_mib_ms, 25000);
    add(&meter, 0, 5000);
    assert_int_equal(meter.memory_mib_ms, 30000);
    add(&meter, 7 * MIB, 5000); /* no time has passed */
    assert_int_equal(meter.memory_mib_ms, 30000);
    add(&meter, 7 * MIB, 4000); /* nor does it run backwards */
    assert_int_equal(meter.memory_mib_ms, 30000);
}

static void test_first_reading_only_begins(void **state)
{
    (void)state;
    struct meter meter = {0};
    add(&meter, 100 * MIB, 123456);
    assert_int_equal(meter.memory_mib_ms, 0);
    add(&meter, 100 * MIB, 123457);
    assert_int_equal(meter.memory_mib_ms, 100);
}

/* Many readings of little are as much as one of all. */
static void test_nothing_is_lost_in_between(void **state)
{
    (void)state;
    struct meter meter = {.read_ms = 1, .usage.memory_bytes = 4096};
    for (uint64_t now = 2; now <= 1 + 256 * 1000; now++)
        add(&meter, 4096, now);
    assert_int_equal(meter.memory_mib_ms, 1000);
    assert_int_equal(meter.memory_rest, 0);
}

static void test_very_much(void **state)
{
    (void)state;
    struct meter meter = {.read_ms = 1, .usage.memory_bytes = 1ull << 50};
    uint64_t month_ms = 30ull * 86400 * 1000;
    add(&meter, 1ull << 50, 1 + month_ms);
    assert_true(meter.memory_mib_ms == (1ull << 30) * month_ms);
    for (int i = 2; i < 20; i++)
        add(&meter, 1ull << 50, 1 + (uint64_t)i * month_ms);
    assert_true(meter.memory_mib_ms == UINT64_MAX); /* stays there and does not begin anew */
}

static void test_counters_never_fall(void **state)
{
    (void)state;
    struct meter meter = {.read_ms = 1};
    struct cgroup_usage usage = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const size_t counters = offsetof(struct cgroup_usage, pids); /* and no padding */
    meter_add(&meter, &usage, 2);
    assert_memory_equal(&meter.usage, &usage, counters);
    assert_int_equal(meter.usage.pids, 12);
    struct cgroup_usage none = {0};
    meter_add(&meter, &none, 3);
    usage.memory_bytes = 0; /* this one and the next are of now */
    assert_memory_equal(&meter.usage, &usage, counters);
    assert_int_equal(meter.usage.pids, 0);
    add(&meter, 50, 4); /* a kernel that keeps no peak */
    assert_int_equal(meter.usage.memory_peak_bytes, 50);
}

static void test_hits(void **state)
{
    (void)state;
    struct meter meter = {0};
    assert_int_equal(meter_hits(&meter), 0);
    meter.usage.memory_refused = 1;
    assert_int_equal(meter_hits(&meter), MESSAGE_HIT_MEMORY);
    meter.usage = (struct cgroup_usage){.oom_kills = 1};
    assert_int_equal(meter_hits(&meter), MESSAGE_HIT_MEMORY);
    meter.usage = (struct cgroup_usage){.pids_refused = 1};
    assert_int_equal(meter_hits(&meter), MESSAGE_HIT_PIDS);
    meter.usage = (struct cgroup_usage){.cpu_throttled = 1};
    assert_int_equal(meter_hits(&meter), MESSAGE_HIT_CPU);
}

static char *text_of(const struct meter *meter)
{
    struct buf buf;
    buf_init(&buf, METER_FILE_MAX);
    meter_format(meter, &buf);
    return buf_take(&buf);
}

static const struct meter sample = {
    .usage = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
    .read_ms = 13,
    .read_unix_ms = 14,
    .memory_mib_ms = 15,
    .memory_rest = 16,
    .net_rx_bytes = 17,
    .net_tx_bytes = 18,
};

static int parse(const char *text, struct meter *ret)
{
    struct error err = ERROR_INIT;
    int r = meter_parse(text, strlen(text), ret, &err);
    assert_true((r < 0) == (err.code != ERR_OK));
    return r;
}

static void test_round_trip(void **state)
{
    (void)state;
    AUTO_FREE char *text = text_of(&sample);
    struct meter got;
    assert_int_equal(parse(text, &got), 0);
    assert_memory_equal(&got, &sample, sizeof(got));

    struct meter largest;
    memset(&largest, 0xff, sizeof(largest));
    largest.memory_rest = MIB - 1;
    AUTO_FREE char *long_text = text_of(&largest);
    assert_int_equal(parse(long_text, &got), 0);
    assert_int_equal(got.usage.cpu_throttled, UINT64_MAX);
}

/* As a launcher that counted no network wrote it. */
static void test_version_1(void **state)
{
    (void)state;
    AUTO_FREE char *text = text_of(&sample);
    *strchr(text, '2') = '1';
    *strstr(text, "net-rx ") = '\0';
    struct meter got;
    assert_int_equal(parse(text, &got), 0);
    assert_int_equal(got.net_rx_bytes, 0);
    assert_int_equal(got.usage.pids, sample.usage.pids);
}

static void refuse(const char *from, const char *to)
{
    AUTO_FREE char *text = text_of(&sample);
    char *at = strstr(text, from);
    assert_non_null(at);
    AUTO_FREE char *changed = mem_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    struct meter got;
    assert_true(parse(changed, &got) < 0);
}

static void test_damage(void **state)
{
    (void)state;
    refuse("usage 2", "usage 1");
    refuse("usage 2", "usage 3");
    refuse("usage 2", "usage 0");
    refuse("net-rx 17", "net-rx 18446744073709551616");
    refuse("mib-ms 15", "mib-ms -15");
    refuse("mib-ms 15", "mib-ms 015");
    refuse("mib-ms 15", "mib-ms 18446744073709551616");
    refuse("rest 16", "rest 1048576");
    refuse("pids 12", "pids 4294967296");
    refuse("pids 12\n", "pids 12\nx");
    refuse("net-tx 18\n", "net-tx 18\nx");
    AUTO_FREE char *text = text_of(&sample);
    struct meter got;
    for (size_t length = 0; length < strlen(text); length++) {
        AUTO_FREE char *part = mem_dup_n(text, length);
        assert_true(parse(part, &got) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integral),
        cmocka_unit_test(test_first_reading_only_begins),
        cmocka_unit_test(test_nothing_is_lost_in_between),
        cmocka_unit_test(test_very_much),
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_counters_never_fall),
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
