#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "launcher/loop.h"

struct fixture {
    struct loop loop;
    struct loop_source a, b;
    struct loop_timer first, second;
    int a_count, b_count;
    char order[8];
    unsigned fired;
};

static void a_ready(struct loop_source *source)
{
    struct fixture *f = CONTAINER_OF(source, struct fixture, a);
    f->a_count++;
    /* The other one was ready as well, and must not be heard of any more. */
    loop_unwatch(&f->loop, &f->b);
    loop_unwatch(&f->loop, &f->a);
    f->loop.stop = f->b_count > 0 || f->a_count > 0;
}

static void b_ready(struct loop_source *source)
{
    struct fixture *f = CONTAINER_OF(source, struct fixture, b);
    f->b_count++;
    loop_unwatch(&f->loop, &f->a);
    loop_unwatch(&f->loop, &f->b);
    f->loop.stop = true;
}

static void test_unwatched_in_the_same_round(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct error err = ERROR_INIT;
    int one = eventfd(1, EFD_CLOEXEC), two = eventfd(1, EFD_CLOEXEC);
    assert_int_equal(loop_init(&f.loop, &err), 0);
    assert_int_equal(loop_watch(&f.loop, &f.a, one, a_ready, &err), 0);
    assert_int_equal(loop_watch(&f.loop, &f.b, two, b_ready, &err), 0);
    assert_int_equal(loop_run(&f.loop, &err), 0);
    assert_int_equal(f.a_count + f.b_count, 1);
    loop_done(&f.loop);
    close(one);
    close(two);
}

static void test_hand_over(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct error err = ERROR_INIT;
    int one = eventfd(1, EFD_CLOEXEC);
    assert_int_equal(loop_init(&f.loop, &err), 0);
    assert_int_equal(loop_watch(&f.loop, &f.a, one, a_ready, &err), 0);
    loop_hand_over(&f.loop, &f.a, &f.b, b_ready);
    assert_int_equal(f.a.fd, -1);
    assert_int_equal(loop_run(&f.loop, &err), 0);
    assert_int_equal(f.a_count, 0);
    assert_int_equal(f.b_count, 1);
    loop_done(&f.loop);
    close(one);
}

static void first_fired(struct loop_timer *timer)
{
    struct fixture *f = CONTAINER_OF(timer, struct fixture, first);
    f->order[f->fired++] = '1';
}

static void second_fired(struct loop_timer *timer)
{
    struct fixture *f = CONTAINER_OF(timer, struct fixture, second);
    f->order[f->fired++] = '2';
    f->loop.stop = f->fired >= 3;
    if (f->fired == 1)
        loop_timer_set(&f->second, 30);
}

static void test_timers(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(loop_init(&f.loop, &err), 0);
    loop_timer_add(&f.loop, &f.first, first_fired);
    loop_timer_add(&f.loop, &f.second, second_fired);
    assert_false(loop_timer_is_set(&f.first));
    uint64_t start = clock_monotonic_ns();
    loop_timer_set(&f.first, 15);
    loop_timer_set(&f.second, 5);
    assert_int_equal(loop_run(&f.loop, &err), 0);
    assert_string_equal(f.order, "212");
    assert_in_range((clock_monotonic_ns() - start) / 1000000, 35, 2000);
    loop_done(&f.loop);
}

static void test_cleared_timer(void **state)
{
    (void)state;
    struct fixture f = {.fired = 2};
    struct error err = ERROR_INIT;
    assert_int_equal(loop_init(&f.loop, &err), 0);
    loop_timer_add(&f.loop, &f.first, first_fired);
    loop_timer_add(&f.loop, &f.second, second_fired);
    loop_timer_set(&f.first, 1);
    loop_timer_set(&f.second, 3);
    loop_timer_clear(&f.first);
    assert_int_equal(loop_run(&f.loop, &err), 0);
    assert_int_equal(f.order[2], '2');
    loop_done(&f.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwatched_in_the_same_round),
        cmocka_unit_test(test_hand_over),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_cleared_timer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
