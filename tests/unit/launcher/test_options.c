#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "launcher/options.h"

#define ARGS_MAX 32

/* Arguments end with NULL. */
static int parse(struct options *options, struct error *err, ...)
{
    char *argv[ARGS_MAX] = {(char *)"launcher"};
    int argc = 1;
    va_list list;
    va_start(list, err);
    for (char *arg; (arg = va_arg(list, char *)) != NULL;)
        argv[argc++] = arg;
    va_end(list);
    return options_parse(argc, argv, options, err);
}

#define NEEDED "--listen", "/run/l.sock", "--state", "/var/lib/x", "--execd", "/bin/execd"

static void test_defaults(void **state)
{
    (void)state;
    struct options options;
    struct error err = ERROR_INIT;
    assert_int_equal(parse(&options, &err, NEEDED, NULL), 0);
    assert_string_equal(options.listen_path, "/run/l.sock");
    assert_string_equal(options.state_dir, "/var/lib/x");
    assert_string_equal(options.execd, "/bin/execd");
    assert_in_range(options.slots, OPTIONS_SLOTS_MIN, OPTIONS_SLOTS_MAX);
    assert_int_equal(options.meter_s, 5);
    assert_int_equal(options.make_s, 30);
    assert_int_equal(options.spare_s, 10);
    assert_true(options.quick_moves);
    assert_int_equal(options.server_uid, geteuid());
    assert_int_equal(options.fd, -1);
    assert_null(options.cgroup_parent);
    assert_false(options.help);
}

static void test_slots_by_memory(void **state)
{
    (void)state;
    const uint64_t gib = 1ull << 30;
    assert_int_equal(options_default_slots(0), OPTIONS_SLOTS_MIN);
    assert_int_equal(options_default_slots(gib), OPTIONS_SLOTS_MIN);
    assert_int_equal(options_default_slots(6 * gib), 16);
    assert_int_equal(options_default_slots(24 * gib), OPTIONS_SLOTS_MAX);
    assert_int_equal(options_default_slots(1024 * gib), OPTIONS_SLOTS_MAX);
}

static void test_everything(void **state)
{
    (void)state;
    struct options options;
    struct error err = ERROR_INIT;
    assert_int_equal(parse(&options, &err, "--fd", "5", "--state", "/s", "--execd", "e",
                           "--server-uid", "64001", "--slots", "0", "--meter-seconds", "60",
                           "--cgroup-parent", "system.slice/x", "--log-format", "json",
                           "--log-level", "warn", "--quick-moves", "no", "--make-seconds", "7",
                           "--spare-seconds", "0", NULL),
                     0);
    assert_false(options.quick_moves);
    assert_int_equal(options.fd, 5);
    assert_int_equal(options.server_uid, 64001);
    assert_int_equal(options.slots, 0);
    assert_int_equal(options.meter_s, 60);
    assert_int_equal(options.make_s, 7);
    assert_int_equal(options.spare_s, 0);
    assert_string_equal(options.cgroup_parent, "system.slice/x");
    assert_int_equal(options.log_format, LOG_JSON);
    assert_int_equal(options.log_level, LOG_WARN);
}

static void refuse(const char *name, const char *value, const char *expected)
{
    struct options options;
    struct error err = ERROR_INIT;
    assert_true(parse(&options, &err, NEEDED, name, value, NULL) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    if (strstr(err.message, expected) == NULL)
        fail_msg("'%s' does not contain '%s'", err.message, expected);
}

static void test_refused(void **state)
{
    (void)state;
    refuse("--meter-seconds", "3601", "0 to 3600");
    refuse("--meter-seconds", "-1", "0 to 3600");
    refuse("--make-seconds", "0", "1 to 3600");
    refuse("--image", "busybox", "NAME=DIR");
    refuse("--image", "busybox=srv", "absolute");
    refuse("--image", "host=/srv/x", "host");
    refuse("--slots", "65", "65");
    refuse("--quick-moves", "maybe", "maybe");
    refuse("--slots", "-1", "-1");
    refuse("--slots", "4x", "4x");
    refuse("--fd", "3", "either --listen");
    refuse("--server-uid", "4294967295", "4294967295");
    refuse("--server-uid", "nobody", "nobody");
    refuse("--state", "relative", "absolute");
    refuse("--cgroup-parent", "../x", "../x");
    refuse("--cgroup-parent", "/x", "/x");
    refuse("--cgroup-parent", "a/../b", "a/../b");
    refuse("--cgroup-parent", "", "relative group path");
    refuse("--log-level", "loud", "loud");
    refuse("--log-format", "xml", "xml");
    refuse("--what", "ever", "--what");
    refuse("--slots", NULL, "needs a value");
    refuse("stray", NULL, "stray");
    refuse("--state", "/a-state-directory-whose-name-is-so-long-that-no-socket-path-in-it-can-fit",
           "longer than");
}

static void test_images(void **state)
{
    (void)state;
    struct options options;
    struct error err = ERROR_INIT;
    assert_int_equal(
        parse(&options, &err, NEEDED, "--image", "a=/srv/a", "--image", "b:1=/srv/b", NULL), 0);
    assert_int_equal(options.images.count, 2);
    assert_string_equal(options.images.items[0].name, "a");
    assert_string_equal(options.images.items[1].path, "/srv/b");
    assert_int_equal(options.images.items[1].fd, -1);
    assert_true(parse(&options, &err, NEEDED, "--image", "a=/x", "--image", "a=/y", NULL) < 0);
    assert_non_null(strstr(err.message, "twice"));
}

static void test_missing(void **state)
{
    (void)state;
    struct options options;
    struct error err = ERROR_INIT;
    assert_true(parse(&options, &err, NULL) < 0);
    assert_true(parse(&options, &err, "--listen", "/l", "--state", "/s", NULL) < 0);
    assert_true(parse(&options, &err, "--state", "/s", "--execd", "/e", NULL) < 0);
    assert_int_equal(parse(&options, &err, "--help", NULL), 0);
    assert_true(options.help);
    assert_int_equal(parse(&options, &err, "--version", NULL), 0);
    assert_true(options.version);
}

static void test_network(void **state)
{
    (void)state;
    struct options options;
    struct error err = ERROR_INIT;
    assert_int_equal(parse(&options, &err, NEEDED, NULL), 0);
    assert_int_equal(options.network, OPTIONS_NETWORK_AUTO);
    assert_int_equal(options.pool.first, 0x64400000);
    assert_int_equal(options.pool.bits, 16);
    assert_int_equal(options.dns_count, 0);
    assert_int_equal(parse(&options, &err, NEEDED, "--network", "nat", "--network-pool",
                           "10.8.0.0/28", "--dns", "1.1.1.1", "--dns", "9.9.9.9", NULL),
                     0);
    assert_int_equal(options.network, OPTIONS_NETWORK_NAT);
    assert_int_equal(options.pool.first, 0x0a080000);
    assert_int_equal(options.pool.bits, 28);
    assert_int_equal(options.dns_count, 2);
    assert_int_equal(options.dns[1], 0x09090909);
    assert_int_equal(parse(&options, &err, NEEDED, "--network", "none", NULL), 0);
    assert_int_equal(options.network, OPTIONS_NETWORK_NONE);
}

static void test_bad_network(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--network", "bridge"},
        {"--network", ""},
        {"--network-pool", "10.0.0.0"},
        {"--network-pool", "10.0.0.0/7"},
        {"--network-pool", "10.0.0.0/29"},
        {"--network-pool", "10.0.0.1/24"},
        {"--network-pool", "::/16"},
        {"--network-pool", "127.0.0.0/16"},
        {"--network-pool", "169.254.0.0/24"},
        {"--network-pool", "224.0.0.0/8"},
        {"--dns", "localhost"},
        {"--dns", "127.0.0.53"},
        {"--dns", "169.254.169.254"},
        {"--dns", "::1"},
        {"--dns", "1.1.1.1/32"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct options options;
        struct error err = ERROR_INIT;
        assert_true(parse(&options, &err, NEEDED, cases[i][0], cases[i][1], NULL) < 0);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.message, cases[i][0]));
        assert_non_null(strstr(err.message, cases[i][1]));
    }
    struct options options;
    struct error err = ERROR_INIT;
    assert_true(parse(&options, &err, NEEDED, "--dns", "1.1.1.1", "--dns", "1.1.1.2", "--dns",
                      "1.1.1.3", "--dns", "1.1.1.4", NULL) < 0);
    assert_non_null(strstr(err.message, "at most 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_slots_by_memory),
        cmocka_unit_test(test_everything), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_images),     cmocka_unit_test(test_missing),
        cmocka_unit_test(test_network),    cmocka_unit_test(test_bad_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
