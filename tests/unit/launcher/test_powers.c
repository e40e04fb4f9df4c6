/* What a launcher may do, by the maps of its user namespace, and the files those ids come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "launcher/idrange.h"
#include "launcher/powers.h"
#include "launcher/subids.h"

static struct powers powers_of(const char *map)
{
    struct powers powers;
    struct error err = ERROR_INIT;
    assert_int_equal(powers_from_maps(map, map, &powers, &err), 0);
    return powers;
}

static void test_machine(void **state)
{
    (void)state;
    struct powers powers = powers_of("         0          0 4294967295\n");
    assert_true(powers.machine && powers.map_mounts && powers.make_devices && powers.all_groups &&
                powers.set_groups);
    for (unsigned range = 0; range < IDRANGE_COUNT; range += 511)
        assert_int_equal(powers_first_id(&powers, range), idrange_base(range));
    assert_int_equal(powers.ids_each, IDRANGE_SIZE);
    assert_int_equal(powers.id_ranges, IDRANGE_COUNT);
}

static void test_one_id(void **state)
{
    (void)state;
    static const char *const maps[] = {"0 1000 1\n", "0 1000 1\n1 100000 65534\n",
                                       "0 1000 1\n2 100000 65536\n"};
    for (size_t i = 0; i < 3; i++) {
        struct powers powers = powers_of(maps[i]);
        assert_false(powers.machine || powers.map_mounts || powers.make_devices ||
                     powers.all_groups || powers.set_groups);
        assert_int_equal(powers.ids_each, 1);
        assert_int_equal(powers.id_ranges, 1);
        assert_int_equal(powers_first_id(&powers, 77), 0);
        assert_int_equal(powers.ids_last, 0);
        assert_int_equal(powers.user, 1000);
    }
}

static void test_shared(void **state)
{
    (void)state;
    struct powers powers = powers_of("0 1000 1\n1 100000 65536\n");
    assert_true(powers.set_groups && !powers.machine);
    assert_int_equal(powers_first_id(&powers, 0), 1);
    assert_int_equal(powers_first_id(&powers, 77), 1);
    assert_int_equal(powers.ids_each, 65536);
    assert_int_equal(powers.id_ranges, 1);
    assert_int_equal(powers.ids_last, 65536);
    /* A container's root with 65,536 ids in all, and lines in another order. */
    powers = powers_of("0 100000 65536\n");
    assert_int_equal(powers.ids_each, 65535);
    powers = powers_of("100 300000 70000\n0 1000 1\n1 200000 99\n");
    assert_int_equal(powers.ids_each, 65536);
    assert_int_equal(powers.user, 1000);
}

static void test_own(void **state)
{
    (void)state;
    struct powers powers = powers_of("0 1000 1\n1 100000 4194304\n");
    assert_int_equal(powers.id_ranges, POWERS_RANGES_MIN);
    assert_int_equal(powers_first_id(&powers, 0), 1);
    assert_int_equal(powers_first_id(&powers, 63), 1 + 63 * 65536);
    powers = powers_of("0 1000 1\n1 100000 4194303\n");
    assert_int_equal(powers.id_ranges, 1);
    powers = powers_of("0 1000 1\n1 100000 4000000000\n");
    assert_int_equal(powers.id_ranges, IDRANGE_COUNT);
}

static void test_no_root(void **state)
{
    (void)state;
    static const char *const maps[] = {"", "1 1000 65536\n", "nonsense\n", "0 1000\n",
                                       "0 1000 0\n"};
    struct powers powers;
    for (size_t i = 0; i < 5; i++) {
        struct error err = ERROR_INIT;
        assert_true(powers_from_maps(maps[i], "0 0 4294967295\n", &powers, &err) < 0);
        assert_int_equal(err.code, ERR_DENIED);
    }
    /* All users but not all groups is no machine's. */
    struct error err = ERROR_INIT;
    assert_int_equal(powers_from_maps("0 0 4294967295\n", "0 5 1\n", &powers, &err), 0);
    assert_false(powers.machine);
}

static void test_subids(void **state)
{
    (void)state;
    struct subids ids;
    subids_parse("other:1:5\nme:100000:65536\n1000:300000:10\nme2:1:1\n", "me", 1000, &ids);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.total, 65546);
    assert_int_equal(ids.items[0].first, 100000);
    assert_int_equal(ids.items[1].count, 10);
    subids_parse("me:100000:65536\n", NULL, 1000, &ids);
    assert_int_equal(ids.count, 0);
    subids_parse(
        "me\nme:\nme:1\nme:0:5\nme:-1:5\nme:1:0\nme:x:5\nme:1:5x\n:1:5\nme:4294967290:100\n"
        "me:99999999999:1\n\n#me:1:1\nme:7:1",
        "me", 1000, &ids);
    assert_int_equal(ids.count, 1);
    assert_int_equal(ids.items[0].first, 7);
}

static void test_many_lines_of_subids(void **state)
{
    (void)state;
    char text[(SUBIDS_MAX + 3) * 8 + 1] = "";
    for (size_t i = 0; i < SUBIDS_MAX + 3; i++)
        for (size_t k = 0; k < 8; k++)
            text[i * 8 + k] = "me:9:10\n"[k];
    struct subids ids;
    subids_parse(text, "me", 1000, &ids);
    assert_int_equal(ids.count, SUBIDS_MAX);
    subids_read("/nonexistent", "me", 1000, &ids);
    assert_int_equal(ids.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_one_id),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_no_root),
        cmocka_unit_test(test_subids),
        cmocka_unit_test(test_many_lines_of_subids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
