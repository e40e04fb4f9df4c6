#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"

#include "fake_runtime.h"

#define ID "00000000-0000-4000-8000-000000000001"

struct fixture {
    struct fake_runtime fake;
    struct fake_store store;
    struct server_lifecycle *lifecycle;
    struct create_request request;
    int64_t expiry_ms;
    int created;
    char created_id[40];
    char created_message[200];
    struct error created_err;
    int removed;
    struct error removed_err;
};

static void on_expiry(int64_t expires_at_ms, void *ctx)
{
    ((struct fixture *)ctx)->expiry_ms = expires_at_ms;
}

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof(*fixture));
    log_init("test", LOG_ERROR + 1, LOG_PEOPLE);
    fake_runtime_init(&fixture->fake);
    fake_store_open(&fixture->store);
    fixture->lifecycle = server_lifecycle_new(&(struct server_lifecycle_config){
        .store = fixture->store.store,
        .runtime = &fixture->fake.runtime,
        .now_ms = fake_now,
        .on_expiry = on_expiry,
        .ctx = fixture,
    });
    fixture->request.image = mem_dup("host");
    fixture->request.timeout_s = 60;
    string_list_add(&fixture->request.entrypoint, "a b");
    string_list_add(&fixture->request.command, "a");
    labels_set(&fixture->request.metadata, "k", "v");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture->fake.count, 0);
    server_lifecycle_free(fixture->lifecycle);
    fake_store_close(&fixture->store);
    create_request_done(&fixture->request);
    free(fixture);
    return 0;
}

static void on_created(const struct error *err, const struct sandbox *sandbox, void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->created++;
    fixture->created_err = err != NULL ? *err : (struct error)ERROR_INIT;
    if (err == NULL)
        strcpy(fixture->created_id, sandbox->id);
    if (err == NULL)
        snprintf(fixture->created_message, sizeof(fixture->created_message), "%s",
                 sandbox->message);
}

static void on_removed(const struct error *err, void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->removed++;
    fixture->removed_err = err != NULL ? *err : (struct error)ERROR_INIT;
}

static int create(struct fixture *fixture, struct error *err)
{
    return server_lifecycle_create(fixture->lifecycle, &fixture->request, on_created, fixture, err);
}

static int remove_it(struct fixture *fixture, const char *id, struct error *err)
{
    return server_lifecycle_remove(fixture->lifecycle, id, on_removed, fixture, err);
}

static void expect_state(struct fixture *fixture, const char *id, const char *expected)
{
    assert_string_equal(fake_store_state(fixture->store.store, id), expected);
}

static void test_create(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(create(fixture, NULL), 0);
    assert_int_equal(fixture->fake.count, 1);
    char id[40];
    strcpy(id, fixture->fake.calls[0].id);
    assert_true(id_is_uuid(id));
    expect_state(fixture, id, "Pending"); /* stored before the runtime answers */
    assert_true(server_lifecycle_is_busy(fixture->lifecycle, id));
    assert_int_equal(fixture->expiry_ms, fake_now_ms + 60000);
    assert_int_equal(fixture->fake.calls[0].deadline_ms, fake_now_ms + 60000);
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(fixture->created, 1);
    assert_string_equal(fixture->created_id, id);
    expect_state(fixture, id, "Running");
    assert_false(server_lifecycle_is_busy(fixture->lifecycle, id));

    struct sandbox sandbox = {0};
    assert_int_equal(store_get_sandbox(fixture->store.store, id, &sandbox, NULL), 0);
    assert_string_equal(sandbox.entrypoint.items[0], "a b"); /* as sent, not the words */
    assert_int_equal(sandbox.entrypoint.count, 1);
    assert_string_equal(sandbox.reason, "CONTAINER_RUNNING");
    assert_string_equal(labels_find(&sandbox.metadata, "k"), "v");
    assert_int_equal(strlen(sandbox.execd_token), ID_TOKEN_LEN);
    sandbox_done(&sandbox);
}

static void expect_create_failure(struct fixture *fixture, enum error_code runtime,
                                  enum error_code told)
{
    assert_int_equal(create(fixture, NULL), 0);
    char id[40];
    strcpy(id, fixture->fake.calls[0].id);
    fake_answer(&fixture->fake, runtime);
    assert_int_equal(fixture->created_err.code, told);
    assert_non_null(strstr(fixture->created_err.message, "the fake runtime says no"));
    expect_state(fixture, id, "gone");
    assert_false(server_lifecycle_is_busy(fixture->lifecycle, id));
}

/* What a sandbox gets by what the server is told to give, what the launcher has and what is asked
 * for. */
static void test_networks(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        enum server_network mode;
        bool there;
        enum create_request_network wanted;
        enum error_code refused;
        bool nat;
        bool noted;
    } rows[] = {
        {SERVER_NETWORK_AUTO, true, CREATE_REQUEST_ANY_NETWORK, ERR_OK, true, false},
        {SERVER_NETWORK_AUTO, true, CREATE_REQUEST_NO_NETWORK, ERR_OK, false, false},
        {SERVER_NETWORK_AUTO, true, CREATE_REQUEST_NAT, ERR_OK, true, false},
        {SERVER_NETWORK_AUTO, false, CREATE_REQUEST_ANY_NETWORK, ERR_OK, false, true},
        {SERVER_NETWORK_AUTO, false, CREATE_REQUEST_NO_NETWORK, ERR_OK, false, false},
        {SERVER_NETWORK_AUTO, false, CREATE_REQUEST_NAT, ERR_INVALID, false, true},
        {SERVER_NETWORK_NAT, true, CREATE_REQUEST_ANY_NETWORK, ERR_OK, true, false},
        {SERVER_NETWORK_NAT, false, CREATE_REQUEST_ANY_NETWORK, ERR_UNAVAILABLE, false, true},
        {SERVER_NETWORK_NAT, false, CREATE_REQUEST_NO_NETWORK, ERR_OK, false, false},
        {SERVER_NETWORK_NONE, true, CREATE_REQUEST_ANY_NETWORK, ERR_OK, false, false},
        {SERVER_NETWORK_NONE, true, CREATE_REQUEST_NAT, ERR_INVALID, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct error err = ERROR_INIT;
        server_lifecycle_free(fixture->lifecycle);
        fixture->lifecycle = server_lifecycle_new(
            &(struct server_lifecycle_config){.store = fixture->store.store,
                                              .runtime = &fixture->fake.runtime,
                                              .network = rows[i].mode,
                                              .now_ms = fake_now});
        fixture->fake.networks = (struct runtime_networks){.nat = rows[i].there};
        if (!rows[i].there)
            strcpy(fixture->fake.networks.nat_reason, "it is too cold");
        fixture->request.network = rows[i].wanted;
        assert_int_equal(create(fixture, &err) < 0, rows[i].refused != ERR_OK);
        assert_int_equal(err.code, rows[i].refused);
        const char *said = err.message;
        if (rows[i].refused == ERR_OK) {
            assert_int_equal(fixture->fake.calls[0].nat, rows[i].nat);
            fake_answer(&fixture->fake, ERR_OK);
            said = fixture->created_message;
            if (!rows[i].noted)
                assert_string_equal(said, "Sandbox is running.");
        }
        assert_int_equal(strstr(said, "it is too cold") != NULL, rows[i].noted);
    }
}

static void test_create_fails(void **state)
{
    struct fixture *fixture = *state;
    expect_create_failure(fixture, ERR_INTERNAL, ERR_INTERNAL);
    expect_create_failure(fixture, ERR_LIMIT, ERR_LIMIT);
    expect_create_failure(fixture, ERR_UNAVAILABLE, ERR_UNAVAILABLE);
    expect_create_failure(fixture, ERR_INVALID, ERR_INVALID);
    /* "Not found" of the runtime is not "no such sandbox" for the client. */
    expect_create_failure(fixture, ERR_NOT_FOUND, ERR_INVALID);
}

static void test_too_many_creates(void **state)
{
    struct fixture *fixture = *state;
    struct error err = ERROR_INIT;
    for (int i = 0; i < SERVER_LIFECYCLE_CREATES_MAX; i++)
        assert_int_equal(create(fixture, NULL), 0);
    assert_true(create(fixture, &err) < 0);
    assert_int_equal(err.code, ERR_LIMIT);
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(create(fixture, &err), 0);
    while (fixture->fake.count > 0)
        fake_answer(&fixture->fake, ERR_INTERNAL);
    assert_int_equal(create(fixture, &err), 0);
    fake_answer(&fixture->fake, ERR_OK);
}

static void test_unavailable(void **state)
{
    struct fixture *fixture = *state;
    struct error err = ERROR_INIT;
    fake_store_add(fixture->store.store, ID, SANDBOX_RUNNING, 0);
    server_lifecycle_set_available(fixture->lifecycle, false);
    assert_true(create(fixture, &err) < 0);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    err.code = ERR_OK;
    assert_true(remove_it(fixture, ID, &err) < 0);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    expect_state(fixture, ID, "Running"); /* nothing was begun */
    err.code = ERR_OK;
    assert_true(remove_it(fixture, "00000000-0000-4000-8000-00000000dead", &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(fixture->removed, 0);
}

static void test_remove(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID, SANDBOX_RUNNING, 0);
    assert_int_equal(remove_it(fixture, ID, NULL), 0);
    expect_state(fixture, ID, "Stopping");             /* the intent survives a crash */
    assert_int_equal(remove_it(fixture, ID, NULL), 0); /* joins */
    assert_string_equal(fixture->fake.history, "r ");
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(fixture->removed, 2);
    assert_int_equal(fixture->removed_err.code, ERR_OK);
    expect_state(fixture, ID, "gone");
    struct error err = ERROR_INIT;
    assert_true(remove_it(fixture, ID, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(fixture->removed, 2);
}

static void test_remove_what_the_runtime_does_not_have(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID, SANDBOX_FAILED, 0);
    assert_int_equal(remove_it(fixture, ID, NULL), 0);
    fake_answer(&fixture->fake, ERR_NOT_FOUND);
    assert_int_equal(fixture->removed_err.code, ERR_OK);
    expect_state(fixture, ID, "gone");
}

static void test_remove_fails_and_is_tried_again(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID, SANDBOX_RUNNING, 0);
    assert_int_equal(remove_it(fixture, ID, NULL), 0);
    fake_answer(&fixture->fake, ERR_UNAVAILABLE);
    assert_int_equal(fixture->removed_err.code, ERR_UNAVAILABLE);
    expect_state(fixture, ID, "Stopping");
    assert_int_equal(remove_it(fixture, ID, NULL), 0);
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(fixture->removed_err.code, ERR_OK);
    expect_state(fixture, ID, "gone");
}

static void test_remove_while_being_made(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(create(fixture, NULL), 0);
    char id[40];
    strcpy(id, fixture->fake.calls[0].id);
    assert_int_equal(remove_it(fixture, id, NULL), 0);
    assert_string_equal(fixture->fake.history, "c "); /* waits for the create */
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(fixture->created, 1);
    assert_int_equal(fixture->removed, 0);
    assert_string_equal(fixture->fake.history, "c r ");
    expect_state(fixture, id, "Stopping");
    fake_answer(&fixture->fake, ERR_OK);
    assert_int_equal(fixture->removed, 1);
    assert_int_equal(fixture->removed_err.code, ERR_OK);
    expect_state(fixture, id, "gone");
}

static void test_remove_without_anybody_waiting_while_being_made(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(create(fixture, NULL), 0);
    char id[40];
    strcpy(id, fixture->fake.calls[0].id);
    assert_int_equal(server_lifecycle_remove(fixture->lifecycle, id, NULL, NULL, NULL), 0);
    fake_answer(&fixture->fake, ERR_OK);
    assert_string_equal(fixture->fake.history, "c r ");
    fake_answer(&fixture->fake, ERR_OK);
    expect_state(fixture, id, "gone");
}

static void test_remove_while_being_made_in_vain(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(create(fixture, NULL), 0);
    char id[40];
    strcpy(id, fixture->fake.calls[0].id);
    assert_int_equal(remove_it(fixture, id, NULL), 0);
    fake_answer(&fixture->fake, ERR_INTERNAL);
    assert_int_equal(fixture->created_err.code, ERR_INTERNAL);
    assert_int_equal(fixture->removed, 1);
    assert_int_equal(fixture->removed_err.code, ERR_OK);
    assert_string_equal(fixture->fake.history, "c ");
}

static void expect_exit(struct fixture *fixture, enum runtime_exit_reason reason, int status,
                        const char *expected_state, const char *expected_reason,
                        const char *in_message)
{
    fake_store_add(fixture->store.store, ID, SANDBOX_RUNNING, 0);
    struct runtime_sandbox ended = {
        .id = ID, .exit_reason = reason, .exit_status = status, .oom_kills = 3};
    server_lifecycle_exited(fixture->lifecycle, &ended);
    struct sandbox sandbox = {0};
    assert_int_equal(store_get_sandbox(fixture->store.store, ID, &sandbox, NULL), 0);
    assert_string_equal(sandbox_state_name(sandbox.state), expected_state);
    assert_string_equal(sandbox.reason, expected_reason);
    if (strstr(sandbox.message, in_message) == NULL || strstr(sandbox.message, "3 of its") == NULL)
        fail_msg("%s", sandbox.message);
    sandbox_done(&sandbox);
    /* Final: a second event changes nothing. */
    server_lifecycle_exited(fixture->lifecycle, &ended);
    assert_int_equal(store_delete_sandbox(fixture->store.store, ID, NULL), 0);
}

static void test_exits(void **state)
{
    struct fixture *fixture = *state;
    expect_exit(fixture, RUNTIME_EXIT_STATUS, 0, "Terminated", "CONTAINER_EXITED", "successfully");
    expect_exit(fixture, RUNTIME_EXIT_STATUS, 7, "Failed", "CONTAINER_EXITED_ERROR", "code 7");
    expect_exit(fixture, RUNTIME_EXIT_SIGNAL, 9, "Failed", "CONTAINER_EXITED_ERROR", "signal 9");
    expect_exit(fixture, RUNTIME_EXIT_KILLED, 9, "Failed", "CONTAINER_EXITED_ERROR", "killed");
    expect_exit(fixture, RUNTIME_EXIT_LOST, 0, "Failed", "LOST", "nobody");
}

static void expect_hits(struct fixture *fixture, const struct limits *limits, unsigned hit,
                        const char *expected)
{
    struct sandbox sandbox = {
        .image = mem_dup("host"), .state = SANDBOX_RUNNING, .limits = *limits};
    strcpy(sandbox.id, ID);
    string_list_add(&sandbox.entrypoint, "true");
    assert_int_equal(store_insert_sandbox(fixture->store.store, &sandbox, NULL), 0);
    sandbox_done(&sandbox);
    struct runtime_sandbox ended = {
        .id = ID, .exit_reason = RUNTIME_EXIT_SIGNAL, .exit_status = 9, .limits_hit = hit};
    server_lifecycle_exited(fixture->lifecycle, &ended);
    assert_int_equal(store_get_sandbox(fixture->store.store, ID, &sandbox, NULL), 0);
    AUTO_FREE char *whole = mem_printf("Sandbox was ended by signal 9.%s", expected);
    assert_string_equal(sandbox.message, whole);
    sandbox_done(&sandbox);
    assert_int_equal(store_delete_sandbox(fixture->store.store, ID, NULL), 0);
}

static void test_limits_hit_are_named(void **state)
{
    struct fixture *fixture = *state;
    struct limits limits = {
        .memory_bytes = 64 << 20, .disk_bytes = 1000000, .pids = 20, .cpu_millis = 1500};
    expect_hits(fixture, &limits, 0, "");
    expect_hits(fixture, &limits, RUNTIME_HIT_MEMORY, " Its memory limit of 64 MiB was reached.");
    expect_hits(fixture, &limits, RUNTIME_HIT_DISK,
                " Its disk limit of 1000000 bytes was reached.");
    expect_hits(fixture, &limits, RUNTIME_HIT_PIDS, " Its limit of 20 processes was reached.");
    expect_hits(fixture, &limits, RUNTIME_HIT_CPU, " Its cpu limit of 1.500 cores slowed it down.");
    expect_hits(fixture, &limits, 15,
                " Its memory limit of 64 MiB was reached. Its disk limit of 1000000 bytes was "
                "reached. Its limit of 20 processes was reached. Its cpu limit of 1.500 cores "
                "slowed it down.");
    struct limits none = {0}; /* the default of processes is the launcher's */
    expect_hits(fixture, &none, RUNTIME_HIT_PIDS, " Its limit of processes was reached.");
}

static void test_deadline_removes(void **state)
{
    struct fixture *fixture = *state;
    fake_store_add(fixture->store.store, ID, SANDBOX_RUNNING, fake_now_ms);
    struct runtime_sandbox ended = {.id = ID, .exit_reason = RUNTIME_EXIT_DEADLINE};
    server_lifecycle_exited(fixture->lifecycle, &ended);
    assert_string_equal(fixture->fake.history, "r ");
    fake_answer(&fixture->fake, ERR_OK);
    expect_state(fixture, ID, "gone");
}

static void test_exit_of_a_busy_or_unknown_sandbox(void **state)
{
    struct fixture *fixture = *state;
    struct runtime_sandbox ended = {.exit_reason = RUNTIME_EXIT_STATUS, .id = ID};
    server_lifecycle_exited(fixture->lifecycle, &ended); /* nobody knows it */
    assert_int_equal(create(fixture, NULL), 0);
    strcpy(ended.id, fixture->fake.calls[0].id);
    server_lifecycle_exited(fixture->lifecycle, &ended);
    expect_state(fixture, ended.id, "Pending");
    fake_answer(&fixture->fake, ERR_OK);
    expect_state(fixture, ended.id, "Running");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_create),
        TEST(test_networks),
        TEST(test_create_fails),
        TEST(test_too_many_creates),
        TEST(test_unavailable),
        TEST(test_remove),
        TEST(test_remove_what_the_runtime_does_not_have),
        TEST(test_remove_fails_and_is_tried_again),
        TEST(test_remove_while_being_made),
        TEST(test_remove_without_anybody_waiting_while_being_made),
        TEST(test_remove_while_being_made_in_vain),
        TEST(test_exits),
        TEST(test_limits_hit_are_named),
        TEST(test_deadline_removes),
        TEST(test_exit_of_a_busy_or_unknown_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
