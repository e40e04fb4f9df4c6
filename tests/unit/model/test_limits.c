#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "model/limits.h"

static void test_cpu(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int result;
        uint32_t millis;
    } rows[] = {
        {"500m", 0, 500},       {"2", 0, 2000},
        {"1.5", 0, 1500},       {"0.1", 0, 100},
        {"0.250", 0, 250},      {"0.2500000", 0, 250},
        {"1000", 0, 1000000},   {"1m", 0, 1},
        {"0.001", 0, 1},        {"1000.001", -ERANGE, 0},
        {"0.0001", -ERANGE, 0}, /* not a whole number of thousandths */
        {"1.5m", -ERANGE, 0},   {"0", -ERANGE, 0},
        {"0m", -ERANGE, 0},     {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},       {"m", -EINVAL, 0},
        {".", -EINVAL, 0},      {".5", -EINVAL, 0},
        {"1.", -EINVAL, 0},     {"1..5", -EINVAL, 0},
        {"1.2.3", -EINVAL, 0},  {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},     {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},     {"1\n", -EINVAL, 0},
        {"1e3", -EINVAL, 0},    {"0x10", -EINVAL, 0},
        {"nan", -EINVAL, 0},    {"inf", -EINVAL, 0},
        {"1M", -EINVAL, 0},     {"1,5", -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t millis = 0;
        int r = limits_parse_cpu(rows[i].text, &millis);
        if (r != rows[i].result || millis != rows[i].millis)
            fail_msg("cpu \"%s\": %d, %u", rows[i].text, r, millis);
    }
}

static void test_memory(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int result;
        uint64_t bytes;
    } rows[] = {
        {"512Mi", 0, 512ull << 20},
        {"2Gi", 0, 2ull << 30},
        {"2GiB", 0, 2ull << 30},
        {"0.5Gi", 0, 512ull << 20},
        {"1.5gi", 0, 1536ull << 20},
        {"1G", 0, 1000000000},
        {"1gb", 0, 1000000000},
        {"512M", 0, 512000000},
        {"512m", 0, 512000000},
        {"10485760", 0, 10485760},
        {"10485760b", 0, 10485760},
        {"4Mi", 0, 4ull << 20},
        {"4194304", 0, 4194304},
        {"8192Ki", 0, 8ull << 20},
        {"8192k", 0, 8192000},
        {"1Ti", 0, 1ull << 40},
        {"1T", 0, 1000000000000ull},
        {"1Pi", 0, 1ull << 50},
        {"0.1Gi", 0, 107374182}, /* the fraction of a byte is dropped */
        {"4194303", -ERANGE, 0},
        {"0", -ERANGE, 0},
        {"0Gi", -ERANGE, 0},
        {"1.1Pi", -ERANGE, 0},
        {"99999999999Gi", -ERANGE, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"Gi", -EINVAL, 0},
        {"1 Gi", -EINVAL, 0},
        {" 1Gi", -EINVAL, 0},
        {"1Gi ", -EINVAL, 0},
        {"1Gi\n", -EINVAL, 0},
        {"-1Gi", -EINVAL, 0},
        {"1.5.5Gi", -EINVAL, 0},
        {".5Gi", -EINVAL, 0},
        {"1.Gi", -EINVAL, 0},
        {"1Ei", -EINVAL, 0},
        {"1X", -EINVAL, 0},
        {"1GiX", -EINVAL, 0},
        {"nan", -EINVAL, 0},
        {"max", -EINVAL, 0},
        {"unlimited", -EINVAL, 0},
        {"0x1000000", -EINVAL, 0},
        {"1e9", -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t bytes = 0;
        int r = limits_parse_size(rows[i].text, LIMITS_MEMORY_MIN, LIMITS_MEMORY_MAX, &bytes);
        if (r != rows[i].result || bytes != rows[i].bytes)
            fail_msg("memory \"%s\": %d, %llu", rows[i].text, r, (unsigned long long)bytes);
    }
}

static void test_count(void **state)
{
    (void)state;
    uint32_t count = 7;
    assert_int_equal(limits_parse_count("0", 1, 4194304, &count), -ERANGE);
    assert_int_equal(limits_parse_count("4194305", 1, 4194304, &count), -ERANGE);
    assert_int_equal(limits_parse_count("-1", 1, 4194304, &count), -EINVAL);
    assert_int_equal(limits_parse_count("max", 1, 4194304, &count), -EINVAL);
    assert_int_equal(count, 7);
    assert_int_equal(limits_parse_count("1", 1, 4194304, &count), 0);
    assert_int_equal(limits_parse_count("4194304", 1, 4194304, &count), 0);
    assert_int_equal(count, 4194304);
}

static int parse(const char *text, struct limits *limits, struct problem *problem)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    int r = limits_parse(json, limits, problem);
    json_decref(json);
    return r;
}

static void test_object(void **state)
{
    (void)state;
    struct limits limits = {.pids = 5};
    struct problem problem = {0};
    assert_int_equal(parse("{}", &limits, &problem), 0);
    assert_int_equal(limits.pids, 0);
    assert_int_equal(
        parse("{\"cpu\":\"1\",\"memory\":\"2Gi\",\"pids\":\"100\"}", &limits, &problem), 0);
    assert_int_equal(limits.cpu_millis, 1000);
    assert_true(limits.memory_bytes == 2ull << 30);
    assert_int_equal(limits.pids, 100);
    assert_int_equal(parse("{\"cpu\":null}", &limits, &problem), 0);
    assert_int_equal(limits.cpu_millis, 0);
}

static void test_every_key(void **state)
{
    (void)state;
    struct limits limits = {0};
    struct problem problem = {0};
    assert_int_equal(parse("{\"cpu\":\"500m\",\"memory\":\"64Mi\",\"pids\":\"10\",\"disk\":\"1Gi\","
                           "\"io-read-bps\":\"10Mi\",\"io-write-bps\":\"4096\","
                           "\"io-read-iops\":\"100\",\"io-write-iops\":\"1000000000\","
                           "\"open-files\":\"1024\"}",
                           &limits, &problem),
                     0);
    assert_int_equal(limits.cpu_millis, 500);
    assert_int_equal(limits.memory_bytes, 64 << 20);
    assert_int_equal(limits.pids, 10);
    assert_int_equal(limits.disk_bytes, 1 << 30);
    assert_int_equal(limits.io_read_bps, 10 << 20);
    assert_int_equal(limits.io_write_bps, 4096);
    assert_int_equal(limits.io_read_iops, 100);
    assert_int_equal(limits.io_write_iops, 1000000000);
    assert_int_equal(limits.open_files, 1024);
}

static void test_two_names_of_the_disk(void **state)
{
    (void)state;
    struct limits limits = {0};
    struct problem problem = {0};
    assert_int_equal(parse("{\"ephemeral-storage\":\"32Mi\"}", &limits, &problem), 0);
    assert_int_equal(limits.disk_bytes, 32 << 20);
    assert_int_equal(
        parse("{\"disk\":\"1Gi\",\"ephemeral-storage\":\"1024Mi\"}", &limits, &problem), 0);
    assert_int_equal(limits.disk_bytes, 1 << 30);
    assert_int_equal(parse("{\"disk\":null,\"ephemeral-storage\":\"32Mi\"}", &limits, &problem), 0);
}

static void test_refusals_name_field_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *member;
        const char *in_message;
    } rows[] = {
        {"[]", "", "object"},
        {"\"1\"", "", "object"},
        {"{\"cpu\":1}", "cpu", "string"},
        {"{\"memory\":{}}", "memory", "string"},
        {"{\"cpu\":\"lots\"}", "cpu", "\"lots\""},
        {"{\"memory\":\"12Zi\"}", "memory", "\"12Zi\""},
        {"{\"pids\":\"none\"}", "pids", "\"none\""},
        {"{\"disk\":\"15Mi\"}", "disk", "from 16Mi to 1Pi, not \"15Mi\""},
        {"{\"disk\":\"2Pi\"}", "disk", "\"2Pi\""},
        {"{\"ephemeral-storage\":\"big\"}", "ephemeral-storage", "\"big\""},
        {"{\"disk\":\"1Gi\",\"ephemeral-storage\":\"2Gi\"}", "ephemeral-storage",
         "different values"},
        {"{\"ephemeral-storage\":\"1Gi\",\"disk\":\"2Gi\"}", "disk", "\"2Gi\" was the second"},
        {"{\"io-read-bps\":\"1Ki\"}", "io-read-bps", "from 4Ki to 1Ti, not \"1Ki\""},
        {"{\"io-write-bps\":\"2Ti\"}", "io-write-bps", "\"2Ti\""},
        {"{\"io-read-iops\":\"0\"}", "io-read-iops", "from 1 to 1000000000, not \"0\""},
        {"{\"io-write-iops\":\"1000000001\"}", "io-write-iops", "\"1000000001\""},
        {"{\"io-write-iops\":\"1k\"}", "io-write-iops", "\"1k\""},
        {"{\"open-files\":\"63\"}", "open-files", "from 64 to 1048576, not \"63\""},
        {"{\"open-files\":\"1048577\"}", "open-files", "\"1048577\""},
        {"{\"gpu\":\"1\"}", "gpu", "cannot be enforced"},
        {"{\"CPU\":\"1\"}", "CPU", "cannot be enforced"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct limits limits = {.pids = 5};
        struct problem problem = {0};
        if (parse(rows[i].text, &limits, &problem) != -EINVAL || limits.pids != 5 ||
            strcmp(problem.code, "SANDBOX::INVALID_PARAMETER") != 0 ||
            strcmp(problem.field, "resourceLimits") != 0 ||
            strcmp(problem.member, rows[i].member) != 0 ||
            strstr(problem.message, rows[i].in_message) == NULL)
            fail_msg("%s: %s at %s.%s", rows[i].text, problem.message, problem.field,
                     problem.member);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_object),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_two_names_of_the_disk),
        cmocka_unit_test(test_refusals_name_field_and_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
