#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/link.h"

#define HEAD                                                                                   \
    "Inter-|   Receive                                                |  Transmit\n"           \
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs " \
    "drop fifo colls carrier compressed\n"

static const char sample[] =
    HEAD "    lo:      10       1    0    0    0     0          0         0       11       1    0  "
         "  0    0     0       0          0\n"
         "  eth0: 18446744073709551615 2 0 0 0 0 0 0 4711 3 0 0 0 0 0 0\n"
         "o0123abcd-00ff:5 0 0 0 0 0 0 0 6 0 0 0 0 0 0 0\n";

static int parse(const char *text, const char *name, uint64_t *rx, uint64_t *tx)
{
    AUTO_FREE char *exact = mem_dup(text);
    return link_parse_counters(exact, name, rx, tx);
}

static void test_counters(void **state)
{
    (void)state;
    uint64_t rx = 0, tx = 0;
    assert_int_equal(parse(sample, "eth0", &rx, &tx), 0);
    assert_true(rx == UINT64_MAX && tx == 4711);
    assert_int_equal(parse(sample, "lo", &rx, &tx), 0);
    assert_true(rx == 10 && tx == 11);
    assert_int_equal(parse(sample, "o0123abcd-00ff", &rx, &tx), 0);
    assert_true(rx == 5 && tx == 6);
    rx = tx = 99;
    assert_int_equal(parse(sample, "eth1", &rx, &tx), -ENODEV);
    assert_int_equal(parse(sample, "face", &rx, &tx), -ENODEV);
    assert_int_equal(parse("", "eth0", &rx, &tx), -ENODEV);
    assert_int_equal(parse(HEAD, "eth0", &rx, &tx), -ENODEV);
    assert_true(rx == 99 && tx == 99);
}

static void test_damage(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "eth0:",
        "eth0: 1 2 3 4 5 6 7 8",
        "eth0: 1 2 3 4 5 6 7 8\n9 10",
        "eth0: 1 2 3 4 5 6 7 8 x",
        "eth0: -1 2 3 4 5 6 7 8 9",
        "eth0: 18446744073709551616 2 3 4 5 6 7 8 9",
        "eth0: 111111111111111111111111111111111111 2 3 4 5 6 7 8 9",
    };
    uint64_t rx, tx;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(parse(texts[i], "eth0", &rx, &tx), -EBADMSG);
    assert_int_equal(
        parse("a-name-that-is-too-long: 1 2 3 4 5 6 7 8 9", "a-name-that-is-t", &rx, &tx), -ENODEV);
    for (size_t length = 0; length < strlen(sample); length++) {
        AUTO_FREE char *part = mem_dup_n(sample, length);
        (void)link_parse_counters(part, "eth0", &rx, &tx);
    }
}

static void note(void *context, const char *name)
{
    char *all = context;
    strncat(all, name, 255 - strlen(all));
    strncat(all, " ", 255 - strlen(all));
}

static void test_each(void **state)
{
    (void)state;
    char all[256] = "";
    link_each(sample, note, all);
    assert_string_equal(all, "lo eth0 o0123abcd-00ff ");
    all[0] = '\0';
    link_each("", note, all);
    link_each(HEAD, note, all);
    link_each(":\n a b: 1\n this-name-is-too-long: 1\n", note, all);
    assert_string_equal(all, "");
}

/* Of our own network, whatever it has. */
static void test_real(void **state)
{
    (void)state;
    uint64_t rx, tx;
    AUTO_CLOSE int fd = link_open_counters(getpid());
    assert_true(fd >= 0);
    for (unsigned i = 0; i < 2; i++) { /* from the beginning each time */
        int r = link_read_counters(fd, &rx, &tx);
        assert_true(r == 0 || r == -ENODEV);
    }
    assert_true(link_open_counters(0) < 0);
    assert_true(link_delete("no-such-device") < 0);
}

/* Asks for a pair and gets none. */
static void test_probe(void **state)
{
    (void)state;
    char after[256] = "";
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 1u << 20);
    int r = link_probe();
    assert_true(r == 0 || r == -EPERM || r == -EOPNOTSUPP);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        skip();
    assert_int_equal(link_probe(), r == -EPERM ? 0 : r);
    assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/net/dev", &text, NULL), 0);
    link_each(text.data, note, after);
    assert_string_equal(after, "lo ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters), cmocka_unit_test(test_damage), cmocka_unit_test(test_each),
        cmocka_unit_test(test_real),     cmocka_unit_test(test_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
