#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/record.h"

static const struct record sample = {
    .id = "0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab",
    .pid = 4711,
    .start_ticks = 123456789,
    .boot_id = "b5f0a9f5-3d5c-4a12-9f93-7d8a3c2e1f00",
    .range = 17,
    .cgroup = "slot-3",
    .image = "images/x:1",
    .network = 258,
    .read_only = true,
    .frozen = true,
    .limits_known = true,
    .limits = {.memory_bytes = 64 << 20,
               .disk_bytes = 32 << 20,
               .io_read_bps = 4096,
               .io_write_bps = 8192,
               .io_read_iops = 10,
               .io_write_iops = 20,
               .cpu_millis = 500,
               .pids = 12,
               .open_files = 1024},
    .created_unix_ms = 1700000000000,
    .deadline_unix_ms = 1700000060000,
    .limits_hit = MESSAGE_HIT_MEMORY | MESSAGE_HIT_CPU,
};

static char *text_of(const struct record *record)
{
    struct buf buf;
    buf_init(&buf, RECORD_MAX);
    record_format(record, &buf);
    return buf_take(&buf);
}

static int parse(const char *text, struct record *ret)
{
    struct error err = ERROR_INIT;
    return record_parse(text, strlen(text), ret, &err);
}

static void test_round_trip(void **state)
{
    (void)state;
    AUTO_FREE char *text = text_of(&sample);
    struct record got;
    assert_int_equal(parse(text, &got), 0);
    assert_memory_equal(&got, &sample, sizeof(got));
}

static void test_every_prefix_is_damaged(void **state)
{
    (void)state;
    AUTO_FREE char *text = text_of(&sample);
    struct record got;
    struct error err = ERROR_INIT;
    for (size_t length = 0; length < strlen(text); length++) {
        AUTO_FREE char *part = mem_dup_n(text, length);
        assert_true(record_parse(part, length, &got, &err) < 0);
    }
}

/* The text with one part replaced must not parse. */
static void refuse(const char *from, const char *to)
{
    AUTO_FREE char *text = text_of(&sample);
    char *at = strstr(text, from);
    assert_non_null(at);
    AUTO_FREE char *changed = mem_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    struct record got;
    assert_true(parse(changed, &got) < 0);
}

static void test_damage(void **state)
{
    (void)state;
    refuse("record 3", "record 1");
    refuse("record 3", "record 2");
    refuse("record 3", "record 4");
    refuse("record 3", "record 03");
    refuse("image images/x:1", "image ../x");
    refuse("image images/x:1", "image ");
    refuse("image images/x:1", "image a b");
    refuse("read-only 1", "read-only 2");
    refuse("frozen 1", "frozen -1");
    refuse("memory 67108864", "memory 1");
    refuse("memory 67108864", "memory 18446744073709551616");
    refuse("memory 67108864", "memory +67108864");
    refuse("disk 33554432", "disk 5");
    refuse("io-read-bps 4096", "io-read-bps 1");
    refuse("cpu 500", "cpu 1000001");
    refuse("pids 12", "pids 4294967308");
    refuse("open-files 1024", "open-files 3");
    refuse("hit 9", "hit 16");
    refuse("id 0a1b", "id ../x");
    refuse("pid 4711", "pid 0");
    refuse("pid 4711", "pid 1");
    refuse("pid 4711", "pid -4711");
    refuse("pid 4711", "pid 04711");
    refuse("pid 4711", "pid 4294967296004711");
    refuse("range 17", "range 0");
    refuse("range 17", "range 8192");
    refuse("range 17", "range  17");
    refuse("cgroup slot-3", "cgroup ../../memory");
    refuse("cgroup slot-3", "cgroup ..");
    refuse("cgroup slot-3", "cgroup ");
    refuse("reason 0", "reason 9");
    refuse("status 0", "status 300");
    refuse("network 258\n", "network 65536\n");
    refuse("network 258\n", "network -1\n");
    refuse("network 258\n", "");
    refuse("network 258\n", "network 258\nmore\n");
    refuse("network 258\n", "network 258");
}

/* As a launcher before limits were recorded wrote it. */
static void test_version_1(void **state)
{
    (void)state;
    struct record got;
    assert_int_equal(parse("opensandbox-record 1\n"
                           "id 0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab\npid 4711\nstart 123456789\n"
                           "boot b5f0a9f5-3d5c-4a12-9f93-7d8a3c2e1f00\nrange 17\ncgroup slot-3\n"
                           "created 1700000000000\ndeadline 1700000060000\nreason 2\nstatus 9\n"
                           "oom 3\n",
                           &got),
                     0);
    assert_int_equal(got.pid, 4711);
    assert_string_equal(got.image, "host");
    assert_false(got.limits_known);
    assert_false(got.frozen);
    assert_int_equal(got.limits.memory_bytes, 0);
    assert_int_equal(got.exit_status, 9);
    assert_int_equal(got.oom_kills, 3);
    AUTO_FREE char *text = text_of(&got); /* from now on of version 3 */
    assert_non_null(strstr(text, "record 3\n"));
    assert_int_equal(parse(text, &got), 0);
    assert_false(got.limits_known);
}

/* As a launcher that knew no network wrote it. */
static void test_version_2(void **state)
{
    (void)state;
    AUTO_FREE char *text = text_of(&sample);
    *strchr(text, '3') = '2';
    *strstr(text, "network ") = '\0';
    struct record got;
    assert_int_equal(parse(text, &got), 0);
    assert_int_equal(got.network, 0);
    got.network = sample.network;
    assert_memory_equal(&got, &sample, sizeof(got));
}

/* Everything at its longest. */
static void test_largest_fits(void **state)
{
    (void)state;
    struct record record = sample;
    memset(record.image, 'a', sizeof(record.image) - 1);
    memset(record.cgroup, 'a', sizeof(record.cgroup) - 1);
    record.limits = (struct message_limits){.memory_bytes = 1ull << 50,
                                            .disk_bytes = 1ull << 50,
                                            .io_read_bps = 1ull << 40,
                                            .io_write_bps = 1ull << 40,
                                            .io_read_iops = 1000000000,
                                            .io_write_iops = 1000000000,
                                            .cpu_millis = 1000000,
                                            .pids = 4194304,
                                            .open_files = 1048576};
    record.start_ticks = record.created_unix_ms = record.deadline_unix_ms = UINT64_MAX;
    record.oom_kills = UINT32_MAX;
    AUTO_FREE char *text = text_of(&record);
    struct record got;
    assert_int_equal(parse(text, &got), 0);
    assert_memory_equal(&got, &record, sizeof(got));
}

static void test_replaced_in_place(void **state)
{
    (void)state;
    char path[] = "/tmp/launcher-record-XXXXXX";
    assert_non_null(mkdtemp(path));
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct error err = ERROR_INIT;
    struct record got, second = sample;
    assert_true(record_read(dir, &got, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(record_write(dir, &sample, &err), 0);
    second.exit_reason = 2;
    second.exit_status = 9;
    assert_int_equal(record_write(dir, &second, &err), 0);
    assert_int_equal(record_read(dir, &got, &err), 0);
    assert_memory_equal(&got, &second, sizeof(got));
    assert_int_equal(faccessat(dir, RECORD_NEW, F_OK, 0), -1);
    close(dir);
    file_remove_tree_at(AT_FDCWD, path, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_prefix_is_damaged),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_largest_fits),
        cmocka_unit_test(test_replaced_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
