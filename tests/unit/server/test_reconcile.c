#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "server/reconcile.h"

#include "fake_runtime.h"

#define ID(n) "00000000-0000-4000-8000-00000000000" n

struct fixture {
    struct fake_runtime fake;
    struct fake_store store;
    struct server_lifecycle *lifecycle;
    int done;
    struct error err;
};

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof(*fixture));
    log_init("test", LOG_ERROR + 1, LOG_PEOPLE);
    fake_runtime_init(&fixture->fake);
    fake_store_open(&fixture->store);
    fixture->lifecycle = server_lifecycle_new(&(struct server_lifecycle_config){
        .store = fixture->store.store, .runtime = &fixture->fake.runtime, .now_ms = fake_now});
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture->fake.count, 0);
    server_lifecycle_free(fixture->lifecycle);
    fake_store_close(&fixture->store);
    free(fixture);
    return 0;
}

static void on_done(const struct error *err, void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->done++;
    if (err != NULL)
        fixture->err = *err;
}

static void start(struct fixture *fixture)
{
    server_reconcile_start(
        &(struct server_reconcile_config){
            .store = fixture->store.store,
            .runtime = &fixture->fake.runtime,
            .lifecycle = fixture->lifecycle,
            .now_ms = fake_now,
        },
        on_done, fixture);
    assert_int_equal(fixture->done, 0);
}

static void expect_state(struct fixture *fixture, const char *id, const char *expected)
{
    assert_string_equal(fake_store_state(fixture->store.store, id), expected);
}

static void test_both_agree(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, fake_now_ms + 1);
    fake_store_add(fixture->store.store, ID("2"), SANDBOX_TERMINATED, 0);
    start(fixture);
    const struct runtime_sandbox items[] = {
        {.id = ID("2"), .exit_reason = RUNTIME_EXIT_STATUS},
        {.id = ID("1")},
    };
    fake_answer_list(&fixture->fake, items, 2);
    assert_int_equal(fixture->done, 1);
    assert_int_equal(fixture->err.code, ERR_OK);
    expect_state(fixture, ID("1"), "Running");
    expect_state(fixture, ID("2"), "Terminated");
    assert_string_equal(fixture->fake.history, "l ");
}

static void test_only_in_the_store(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store.store;
    fake_store_add(store, ID("1"), SANDBOX_RUNNING, 0);
    fake_store_add(store, ID("2"), SANDBOX_PENDING, 0);
    fake_store_add(store, ID("3"), SANDBOX_STOPPING, 0);
    fake_store_add(store, ID("4"), SANDBOX_RUNNING, fake_now_ms); /* expired */
    fake_store_add(store, ID("5"), SANDBOX_FAILED, 0);
    fake_store_add(store, ID("6"), SANDBOX_FAILED, fake_now_ms - 1);
    start(fixture);
    fake_answer_list(&fixture->fake, NULL, 0);
    expect_state(fixture, ID("1"), "Failed");
    expect_state(fixture, ID("2"), "gone");
    expect_state(fixture, ID("3"), "gone");
    expect_state(fixture, ID("4"), "gone");
    expect_state(fixture, ID("5"), "Failed");
    expect_state(fixture, ID("6"), "gone");
    struct sandbox sandbox = {0};
    assert_int_equal(store_get_sandbox(store, ID("1"), &sandbox, NULL), 0);
    assert_string_equal(sandbox.reason, "LOST");
    sandbox_done(&sandbox);
}

static void test_half_done_and_ended(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store.store;
    fake_store_add(store, ID("1"), SANDBOX_PENDING, 0);
    fake_store_add(store, ID("2"), SANDBOX_STOPPING, 0);
    fake_store_add(store, ID("3"), SANDBOX_RUNNING, fake_now_ms - 5);
    fake_store_add(store, ID("4"), SANDBOX_RUNNING, 0);
    fake_store_add(store, ID("5"), SANDBOX_RUNNING, fake_now_ms + 5);
    start(fixture);
    const struct runtime_sandbox items[] = {
        {.id = ID("1")},
        {.id = ID("2")},
        {.id = ID("3")},
        {.id = ID("4"), .exit_reason = RUNTIME_EXIT_STATUS, .exit_status = 1},
        {.id = ID("5"), .exit_reason = RUNTIME_EXIT_DEADLINE},
    };
    fake_answer_list(&fixture->fake, items, 5);
    assert_string_equal(fixture->fake.history, "l r r r r ");
    for (int i = 0; i < 4; i++)
        fake_answer(&fixture->fake, ERR_OK);
    expect_state(fixture, ID("1"), "gone");
    expect_state(fixture, ID("2"), "gone");
    expect_state(fixture, ID("3"), "gone");
    expect_state(fixture, ID("4"), "Failed");
    expect_state(fixture, ID("5"), "gone");
}

static void test_strays_are_removed_one_by_one(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("2"), SANDBOX_RUNNING, 0);
    start(fixture);
    const struct runtime_sandbox items[] = {
        {.id = ID("1")}, {.id = ID("2")}, {.id = ID("3"), .exit_reason = RUNTIME_EXIT_LOST}};
    fake_answer_list(&fixture->fake, items, 3);
    assert_int_equal(fixture->done, 1);
    assert_int_equal(fixture->fake.count, 1);
    assert_string_equal(fixture->fake.calls[0].id, ID("1"));
    fake_answer(&fixture->fake, ERR_INTERNAL); /* one that resists does not stop the others */
    assert_string_equal(fixture->fake.calls[0].id, ID("3"));
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(fixture->fake.count, 0);
    expect_state(fixture, ID("2"), "Running");
}

static void test_strays_when_the_runtime_goes_away(void **state)
{
    struct fixture *fixture = *state;
    start(fixture);
    const struct runtime_sandbox items[] = {{.id = ID("1")}, {.id = ID("2")}};
    fake_answer_list(&fixture->fake, items, 2);
    fake_answer(&fixture->fake, ERR_UNAVAILABLE);
    assert_int_equal(fixture->fake.count, 0);
}

static void on_created(const struct error *err, const struct sandbox *sandbox, void *ctx)
{
    (void)err;
    (void)sandbox;
    (void)ctx;
}

/* Sandboxes made or removed while the list is under way are not judged by it. */
static void test_list_that_is_out_of_date(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store.store;
    struct create_request request = {.image = mem_dup("host")};
    string_list_add(&request.entrypoint, "true");
    string_list_add(&request.command, "true");
    assert_int_equal(server_lifecycle_create(fixture->lifecycle, &request, on_created, NULL, NULL),
                     0);
    char during[40]; /* being made when the list is asked for, done before it comes */
    strcpy(during, fixture->fake.calls[0].id);
    start(fixture);
    fake_answer(&fixture->fake, ERR_OK);
    fake_store_add(store, ID("2"), SANDBOX_RUNNING, 0); /* made afterwards */
    fake_answer_list(&fixture->fake, NULL, 0);
    expect_state(fixture, during, "Running");
    expect_state(fixture, ID("2"), "Running");
    create_request_done(&request);
}

static void test_runtime_cannot_list(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID("1"), SANDBOX_RUNNING, 0);
    start(fixture);
    struct fake_call call = fake_take(&fixture->fake);
    const struct error err = {.code = ERR_UNAVAILABLE, .message = "gone again"};
    call.list_done(&err, NULL, 0, call.ctx);
    assert_int_equal(fixture->err.code, ERR_UNAVAILABLE);
    expect_state(fixture, ID("1"), "Running");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_both_agree),
        TEST(test_only_in_the_store),
        TEST(test_half_done_and_ended),
        TEST(test_strays_are_removed_one_by_one),
        TEST(test_strays_when_the_runtime_goes_away),
        TEST(test_list_that_is_out_of_date),
        TEST(test_runtime_cannot_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
