#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/macros.h"
#include "launcher/nat.h"
#include "launcher/nat_resolv.h"

static bool is_not_ours(uint32_t server, const void *context)
{
    return server != *(const uint32_t *)context;
}

static void expect(const char *text, const char *wanted)
{
    struct nat_resolv resolv;
    char written[NAT_RESOLV_MAX];
    nat_resolv_parse(text, NULL, NULL, &resolv);
    nat_resolv_write(&resolv, written, sizeof(written));
    assert_string_equal(written, wanted);
}

#define NOBODY "# The host has no name server that a sandbox can reach.\n"

static void test_servers(void **state)
{
    (void)state;
    expect("nameserver 10.0.0.1\n", "nameserver 10.0.0.1\n");
    expect("nameserver 10.0.0.1", "nameserver 10.0.0.1\n");
    expect("nameserver\t10.0.0.1  \r\n", "nameserver 10.0.0.1\n");
    expect("nameserver 10.0.0.1 # the first\n", "nameserver 10.0.0.1\n");
    expect("# nameserver 10.0.0.1\n; nameserver 10.0.0.2\n", NOBODY);
    expect("nameserver 1.1.1.1\nnameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\n"
           "nameserver 4.4.4.4\n",
           "nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\n");
    expect("", NOBODY);
    expect(
        "nameserver 127.0.0.53\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver 2001:db8::1\n"
        "nameserver 169.254.169.253\nnameserver 0.0.0.0\nnameserver 255.255.255.255\n"
        "nameserver\nnameserver ten\nnameservers 1.1.1.1\nNAMESERVER 1.1.1.1\n",
        NOBODY);
}

static void test_reachable(void **state)
{
    (void)state;
    struct nat_resolv resolv;
    const uint32_t own = 0xc0000201;
    nat_resolv_parse("nameserver 192.0.2.1\nnameserver 192.0.2.2\n", is_not_ours, &own, &resolv);
    assert_int_equal(resolv.count, 1);
    assert_int_equal(resolv.servers[0], 0xc0000202);
}

static void test_search_and_options(void **state)
{
    (void)state;
    expect("domain a.example\nnameserver 1.1.1.1\nsearch b.example c.example\n"
           "options ndots:5 trust-ad timeout:2 rotate inet6 attempts:99 debug edns0\n",
           "nameserver 1.1.1.1\nsearch b.example c.example\n"
           "options ndots:5 timeout:2 rotate edns0\n");
    expect("search b.example\ndomain a.example\nnameserver 1.1.1.1\n",
           "nameserver 1.1.1.1\nsearch a.example\n");
    expect("nameserver 1.1.1.1\nsearch a$(b) -x ok.example \x1b[31m ../etc\n",
           "nameserver 1.1.1.1\nsearch ok.example\n");
    expect("nameserver 1.1.1.1\noptions ndots: ndots:-1 ndots:1x timeout:31\n",
           "nameserver 1.1.1.1\n");
}

/* Whatever comes, what is written fits and ends in a whole line. */
static void test_bounds(void **state)
{
    (void)state;
    char text[8192] = "", written[NAT_RESOLV_MAX];
    struct nat_resolv resolv;
    strcat(text, "search");
    for (int i = 0; i < 60; i++)
        strcat(text, " abcdefgh.example");
    assert_true(strlen(text) > 1000);
    text[1000] = '\0';
    strcat(text, "\noptions");
    for (int i = 0; i < 100; i++)
        strcat(text, " rotate");
    strcat(text, "\nnameserver 111.111.111.111\nnameserver 111.111.111.112\n"
                 "nameserver 111.111.111.113\n");
    nat_resolv_parse(text, NULL, NULL, &resolv);
    nat_resolv_write(&resolv, written, sizeof(written));
    assert_true(strlen(written) < sizeof(written) - 200);
    assert_int_equal(written[strlen(written) - 1], '\n');
    assert_non_null(strstr(written, "search abcdefgh.example"));
    assert_non_null(strstr(written, "options rotate"));
    memset(text, 'n', sizeof(text) - 1); /* one line without an end */
    text[sizeof(text) - 1] = '\0';
    expect(text, NOBODY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_servers),
        cmocka_unit_test(test_reachable),
        cmocka_unit_test(test_search_and_options),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
