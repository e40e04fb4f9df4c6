#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/macros.h"
#include "launcher/nat.h"
#include "launcher/nat_rules.h"

static const struct nat nat = {
    .pool = 0x64400000, .pool_bits = 16, .prefix = "o0badcafe-", .mtu = 1500};

static void test_numbers(void **state)
{
    (void)state;
    char name[IFNAMSIZ];
    struct nat small = {.pool = 0x0a000000, .pool_bits = 28};
    assert_int_equal(nat_numbers(&nat), 65533);
    assert_int_equal(nat_gateway(&nat), 0x64400001);
    assert_int_equal(nat_address(&nat, 1), 0x64400002);
    assert_int_equal(nat_address(&nat, nat_numbers(&nat)), 0x6440fffe);
    assert_int_equal(nat_numbers(&small), 13);
    assert_int_equal(nat_address(&small, 13), 0x0a00000e);
    small.pool_bits = 8;
    assert_int_equal(nat_numbers(&small), 65535);
    nat_name(&nat, 1, name);
    assert_string_equal(name, "o0badcafe-0001");
    nat_name(&nat, 65535, name);
    assert_string_equal(name, "o0badcafe-ffff");
}

static void test_rules(void **state)
{
    (void)state;
    char table[NAT_RULES_TABLE_MAX];
    struct buf script;
    nat_rules_table(&nat, table);
    assert_string_equal(table, "opensandbox-0badcafe");
    buf_init(&script, NAT_RULES_MAX);
    nat_rules_write(&nat, &script);
    assert_true(script.length < NAT_RULES_MAX / 2); /* nothing was cut */
    static const char start[] = "add table inet opensandbox-0badcafe\n"
                                "delete table inet opensandbox-0badcafe\n"
                                "table inet opensandbox-0badcafe {\n";
    assert_memory_equal(script.data, start, strlen(start));
    assert_string_equal(script.data + script.length - strlen(" }\n}\n"), " }\n}\n");
    assert_non_null(strstr(script.data, "100.64.0.0/16"));
    assert_non_null(strstr(script.data, "169.254.0.0/16"));
    assert_non_null(strstr(script.data, "iifname \"o0badcafe-*\""));
    buf_done(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
