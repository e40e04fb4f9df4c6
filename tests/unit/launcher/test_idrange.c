#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "launcher/idrange.h"

static void test_all_but_the_first(void **state)
{
    (void)state;
    struct idrange ranges;
    unsigned range;
    idrange_init(&ranges, IDRANGE_COUNT);
    for (unsigned i = 1; i < IDRANGE_COUNT; i++) {
        assert_int_equal(idrange_take(&ranges, &range), 0);
        assert_int_equal(range, i);
    }
    assert_int_equal(idrange_take(&ranges, &range), -ENOSPC);
    idrange_release(&ranges, 4000);
    assert_int_equal(idrange_take(&ranges, &range), 0);
    assert_int_equal(range, 4000);
}

static void test_freed_ranges_rest(void **state)
{
    (void)state;
    struct idrange ranges;
    unsigned range;
    idrange_init(&ranges, IDRANGE_COUNT);
    assert_int_equal(idrange_take(&ranges, &range), 0);
    idrange_release(&ranges, range);
    assert_int_equal(idrange_take(&ranges, &range), 0);
    assert_int_equal(range, 2);
}

static void test_reserve(void **state)
{
    (void)state;
    struct idrange ranges;
    unsigned range;
    idrange_init(&ranges, IDRANGE_COUNT);
    assert_int_equal(idrange_reserve(&ranges, 1), 0);
    assert_int_equal(idrange_reserve(&ranges, 1), -EEXIST);
    assert_int_equal(idrange_reserve(&ranges, 0), -ERANGE);
    assert_int_equal(idrange_reserve(&ranges, IDRANGE_COUNT), -ERANGE);
    assert_int_equal(idrange_take(&ranges, &range), 0);
    assert_int_equal(range, 2);
}

static void test_the_stores_range_stays(void **state)
{
    (void)state;
    struct idrange ranges;
    idrange_init(&ranges, IDRANGE_COUNT);
    idrange_release(&ranges, 0);
    assert_int_equal(ranges.used[0] & 1, 1);
}

static void test_ids_stay_below_the_sign_bit(void **state)
{
    (void)state;
    assert_int_equal(idrange_base(0), 0x20000000);
    assert_int_equal(idrange_base(IDRANGE_COUNT - 1) + (IDRANGE_SIZE - 1), 0x3fffffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_but_the_first),
        cmocka_unit_test(test_freed_ranges_rest),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_the_stores_range_stays),
        cmocka_unit_test(test_ids_stay_below_the_sign_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
