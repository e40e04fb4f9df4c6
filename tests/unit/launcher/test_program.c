#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "launcher/program.h"

static int shell(const char *script, const char *input, int timeout_ms, struct buf *out,
                 struct buf *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    return program_run("/bin/sh", argv, input, timeout_ms, out, err);
}

static void test_what_it_says(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf out;
    CLEANUP(buf_done) struct buf err;
    buf_init(&out, 64);
    buf_init(&err, 64);
    assert_int_equal(shell("cat; echo wrong >&2; exit 3", "given", 10000, &out, &err), 3);
    assert_string_equal(out.data, "given");
    assert_string_equal(err.data, "wrong\n");
}

/* More than a pipe holds and than is kept: it must still come to its end. */
static void test_more_than_fits(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf out;
    CLEANUP(buf_done) struct buf err;
    buf_init(&out, 64);
    buf_init(&err, 64);
    assert_int_equal(shell("head -c 1000000 /dev/zero | tr '\\0' x; "
                           "head -c 1000000 /dev/zero | tr '\\0' y >&2",
                           "", 20000, &out, &err),
                     0);
    assert_int_equal(out.length, 64);
    assert_int_equal(err.length, 64);
}

static void test_ends(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf out;
    CLEANUP(buf_done) struct buf err;
    buf_init(&out, 64);
    buf_init(&err, 64);
    assert_int_equal(shell("kill -9 $$", "", 10000, &out, &err), -EPIPE);
    assert_int_equal(shell("exec sleep 1000", "", 100, &out, &err), -ETIMEDOUT);
    assert_int_equal(shell("exec >&- 2>&-; exec sleep 1000", "", 100, &out, &err), -ETIMEDOUT);
    const char *const argv[] = {"nothing", NULL};
    assert_int_equal(program_run("/nowhere/nothing", argv, "", 10000, &out, &err), 127);
}

static void test_what_it_is_given(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf out;
    CLEANUP(buf_done) struct buf err;
    buf_init(&out, 4096);
    buf_init(&err, 64);
    const char *const argv[] = {"env", NULL};
    assert_int_equal(program_run("/usr/bin/env", argv, "", 10000, &out, &err), 0);
    assert_int_equal(out.length, 0);
    assert_int_equal(shell("ls /proc/self/fd | grep -vc '^[0-3]$'", "", 10000, &out, &err), 1);
    assert_string_equal(out.data, "0\n");
}

static void test_find(void **state)
{
    (void)state;
    AUTO_FREE char *found = program_find("sh");
    assert_non_null(found);
    assert_int_equal(found[0], '/');
    assert_null(program_find("no-such-program-anywhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_says), cmocka_unit_test(test_more_than_fits),
        cmocka_unit_test(test_ends),         cmocka_unit_test(test_what_it_is_given),
        cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
