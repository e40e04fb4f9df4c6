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
    .created_unix_ms = 1700000000000,
    .deadline_unix_ms = 1700000060000,
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
    refuse("record 1", "record 2");
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
    refuse("oom 0\n", "oom 0\nmore\n");
    refuse("oom 0\n", "oom 0");
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
        cmocka_unit_test(test_replaced_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
