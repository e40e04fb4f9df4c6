#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/address.h"
#include "base/macros.h"

static void test_addresses(void **state)
{
    (void)state;
    uint32_t address = 7;
    char text[ADDRESS_MAX];
    assert_int_equal(address_parse("203.0.113.255", &address), 0);
    assert_int_equal(address, 0xcb0071ff);
    address_print(address, text);
    assert_string_equal(text, "203.0.113.255");
    address_print(UINT32_MAX, text);
    assert_string_equal(text, "255.255.255.255");
    static const char *const bad[] = {
        "",         "1",   "1.2.3",    "1.2.3.4.5", "1.2.3.256", "1.2.3.-4", " 1.2.3.4",
        "1.2.3.4 ", "::1", "01.2.3.4", "1.2.3.4/8", "0x1.2.3.4", "1.2.3.4\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(address_parse(bad[i], &address) < 0);
    assert_int_equal(address, 0xcb0071ff);
}

static void test_networks(void **state)
{
    (void)state;
    struct address_network network;
    assert_int_equal(address_parse_network("100.64.0.0/16", &network), 0);
    assert_int_equal(network.first, 0x64400000);
    assert_int_equal(network.bits, 16);
    assert_int_equal(address_parse_network("0.0.0.0/0", &network), 0);
    assert_int_equal(address_parse_network("1.2.3.4/32", &network), 0);
    static const char *const bad[] = {"",
                                      "/",
                                      "1.2.3.4",
                                      "1.2.3.4/",
                                      "1.2.3.4/33",
                                      "1.2.3.4/24",
                                      "1.2.3.0/-1",
                                      "1.2.3.0/24 ",
                                      "1.2.3.0/2x",
                                      "/24",
                                      "1.2.3.0//24",
                                      "::/0",
                                      "111.111.111.111111/32"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(address_parse_network(bad[i], &network) < 0);
    assert_int_equal(network.bits, 32);
}

static void test_overlaps(void **state)
{
    (void)state;
    const struct address_network pool = {0x64400000, 16}, all = {0, 0}, one = {0x6440ffff, 32},
                                 next = {0x64410000, 16};
    assert_true(address_overlaps(pool, pool));
    assert_true(address_overlaps(pool, all));
    assert_true(address_overlaps(all, pool));
    assert_true(address_overlaps(pool, one));
    assert_true(address_overlaps(one, pool));
    assert_false(address_overlaps(pool, next));
    assert_false(address_overlaps(next, one));
    assert_true(address_is_in(0x64400000, pool));
    assert_false(address_is_in(0x64410000, pool));
}

static void test_closed(void **state)
{
    (void)state;
    static const struct {
        struct address_network network;
        bool closed;
    } cases[] = {
        {{0x7f000001, 32}, true},  {{0x7f000000, 8}, true},   {{0xa9fea9fe, 32}, true},
        {{0xa9fe0000, 16}, true},  {{0xa8000000, 6}, true},   {{0xe00000fb, 32}, true},
        {{0xffffffff, 32}, true},  {{0x00000001, 32}, true},  {{0xf0000000, 4}, true},
        {{0x08080808, 32}, false}, {{0x64400000, 16}, false}, {{0x0a000000, 8}, false},
        {{0xdfffffff, 32}, false}, {{0xa9fd0000, 16}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(address_is_closed(cases[i].network), cases[i].closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
