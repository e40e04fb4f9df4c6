#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "runtime/native/places.h"

static void name(int n, char *id, char *path)
{
    snprintf(id, 40, "00000000-0000-4000-8000-%012d", n);
    snprintf(path, 40, "/run/%d.sock", n);
}

static void test_empty(void **state)
{
    (void)state;
    struct places places = {0};
    assert_null(places_find(&places, "x"));
    places_remove(&places, "x");
    places_done(&places);
}

static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct places places = {0};
    char id[40];
    char path[40];
    for (int n = 0; n < COUNT; n++) {
        name(n, id, path);
        places_set(&places, id, "/old");
        places_set(&places, id, path); /* replaces */
    }
    assert_int_equal(places.count, COUNT);
    for (int n = 0; n < COUNT; n += 2) {
        name(n, id, path);
        places_remove(&places, id);
    }
    assert_int_equal(places.count, COUNT / 2);
    for (int n = 0; n < COUNT; n++) {
        name(n, id, path);
        if (n % 2 == 0)
            assert_null(places_find(&places, id));
        else
            assert_string_equal(places_find(&places, id), path);
    }
    places_done(&places);
    assert_null(places_find(&places, id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
