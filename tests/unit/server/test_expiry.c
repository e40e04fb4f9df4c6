/* The wall clock is the test's; only the timer itself takes real milliseconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "server/expiry.h"

#include "fake_runtime.h"

#define ID(n) "00000000-0000-4000-8000-00000000000" n

struct fixture {
    struct fake_runtime fake;
    struct fake_store store;
    struct server_lifecycle *lifecycle;
    struct server_expiry *expiry;
    uv_loop_t loop;
};

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof(*fixture));
    log_init("test", LOG_ERROR + 1, LOG_PEOPLE);
    fake_runtime_init(&fixture->fake);
    fake_store_open(&fixture->store);
    uv_loop_init(&fixture->loop);
    fixture->lifecycle = server_lifecycle_new(&(struct server_lifecycle_config){
        .store = fixture->store.store, .runtime = &fixture->fake.runtime, .now_ms = fake_now});
    fixture->expiry = server_expiry_new(&(struct server_expiry_config){
        .loop = &fixture->loop,
        .store = fixture->store.store,
        .lifecycle = fixture->lifecycle,
        .now_ms = fake_now,
    });
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    while (fixture->fake.count > 0)
        fake_answer(&fixture->fake, ERR_OK);
    server_expiry_free(fixture->expiry);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    server_lifecycle_free(fixture->lifecycle);
    fake_store_close(&fixture->store);
    free(fixture);
    return 0;
}

/* Milliseconds until the timer fires; -1 when it is not set. */
static int64_t timer_ms(struct fixture *fixture)
{
    int timeout = uv_backend_timeout(&fixture->loop);
    return uv_loop_alive(&fixture->loop) ? timeout : -1;
}

static void expect_timer(struct fixture *fixture, int64_t expected_ms)
{
    uv_run(&fixture->loop, UV_RUN_NOWAIT); /* until then libuv does not know its timeout */
    int64_t ms = timer_ms(fixture);
    if (ms > expected_ms || ms < expected_ms - 500)
        fail_msg("timer in %lld ms, not %lld", (long long)ms, (long long)expected_ms);
}

static void test_nothing_expires(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, 0);
    server_expiry_run(fixture->expiry);
    assert_int_equal(timer_ms(fixture), -1);
    assert_string_equal(fixture->fake.history, "");
}

/* After a restart: what is due goes at once, the timer waits for the next. */
static void test_run(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store.store;
    fake_store_add(store, ID("1"), SANDBOX_RUNNING, fake_now_ms - 100000);
    fake_store_add(store, ID("2"), SANDBOX_TERMINATED, fake_now_ms);
    fake_store_add(store, ID("3"), SANDBOX_RUNNING, fake_now_ms + 5000);
    fake_store_add(store, ID("4"), SANDBOX_RUNNING, 0);
    server_expiry_run(fixture->expiry);
    assert_int_equal(fixture->fake.count, 2);
    assert_string_equal(fixture->fake.calls[0].id, ID("1"));
    assert_string_equal(fixture->fake.calls[1].id, ID("2"));
    fake_answer(&fixture->fake, ERR_OK);
    fake_answer(&fixture->fake, ERR_OK);
    assert_string_equal(fake_store_state(store, ID("1")), "gone");
    server_expiry_run(fixture->expiry);
    assert_int_equal(fixture->fake.count, 0);
    expect_timer(fixture, 5000);
    fake_now_ms += 5000;
    server_expiry_run(fixture->expiry);
    assert_string_equal(fixture->fake.calls[0].id, ID("3"));
    fake_answer(&fixture->fake, ERR_OK);
    server_expiry_run(fixture->expiry);
    assert_int_equal(timer_ms(fixture), -1);
}

static void test_timer_fires(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, fake_now_ms + 20);
    server_expiry_note(fixture->expiry, fake_now_ms + 20);
    fake_now_ms += 20;
    while (fixture->fake.count == 0)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_string_equal(fixture->fake.calls[0].id, ID("1"));
    /* Under way: it is looked at again, but not removed twice. */
    expect_timer(fixture, 1000);
    server_expiry_run(fixture->expiry);
    assert_int_equal(fixture->fake.count, 1);
}

static void test_note(void **state)
{
    struct fixture *fixture = *state;
    server_expiry_note(fixture->expiry, fake_now_ms + 40000);
    expect_timer(fixture, 40000);
    server_expiry_note(fixture->expiry, fake_now_ms + 50000); /* later: nothing changes */
    expect_timer(fixture, 40000);
    server_expiry_note(fixture->expiry, fake_now_ms + 30000);
    expect_timer(fixture, 30000);
}

/* The wall clock may be set: never trust the timer for more than a minute. */
static void test_far_expiry(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, fake_now_ms + 315360000000);
    server_expiry_run(fixture->expiry);
    expect_timer(fixture, 60000);
}

static void test_failure_is_tried_again(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, fake_now_ms);
    server_expiry_run(fixture->expiry);
    fake_answer(&fixture->fake, ERR_INTERNAL);
    expect_timer(fixture, 1000);
    server_expiry_run(fixture->expiry);
    assert_int_equal(fixture->fake.count, 1);
}

static void test_waits_for_the_runtime(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, fake_now_ms);
    server_lifecycle_set_available(fixture->lifecycle, false);
    server_expiry_run(fixture->expiry);
    assert_int_equal(fixture->fake.count, 0);
    assert_int_equal(timer_ms(fixture), -1);
    server_lifecycle_set_available(fixture->lifecycle, true);
    server_expiry_run(fixture->expiry);
    assert_int_equal(fixture->fake.count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_expires),
        TEST(test_run),
        TEST(test_timer_fires),
        TEST(test_note),
        TEST(test_far_expiry),
        TEST(test_failure_is_tried_again),
        TEST(test_waits_for_the_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
