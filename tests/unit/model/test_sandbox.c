#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "model/sandbox.h"
#include "model/sandbox_json.h"

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
        enum sandbox_state parsed;
        assert_int_equal(sandbox_state_parse(sandbox_state_name(i), &parsed), 0);
        assert_int_equal(parsed, i);
    }
    enum sandbox_state parsed;
    assert_int_equal(sandbox_state_parse("rUNNING", &parsed), 0);
    assert_int_equal(parsed, SANDBOX_RUNNING);
    assert_true(sandbox_state_parse("", &parsed) < 0);
    assert_true(sandbox_state_parse("Runnin", &parsed) < 0);
}

/* The whole table, written a second time and in another way. */
static void test_transitions(void **state)
{
    (void)state;
    static const char *const allowed[] = {
        "Pending Running",     "Pending Stopping", "Pending Terminated",  "Pending Failed",
        "Running Pausing",     "Running Stopping", "Running Terminated",  "Running Failed",
        "Pausing Paused",      "Pausing Running",  "Pausing Stopping",    "Pausing Terminated",
        "Pausing Failed",      "Paused Resuming",  "Paused Stopping",     "Paused Terminated",
        "Paused Failed",       "Resuming Running", "Resuming Paused",     "Resuming Stopping",
        "Resuming Terminated", "Resuming Failed",  "Stopping Terminated", "Stopping Failed",
        "Terminated Stopping", "Failed Stopping",
    };
    size_t found = 0;
    for (int from = 0; from < SANDBOX_STATE_COUNT; from++) {
        for (int to = 0; to < SANDBOX_STATE_COUNT; to++) {
            AUTO_FREE char *pair =
                mem_printf("%s %s", sandbox_state_name(from), sandbox_state_name(to));
            bool expected = false;
            for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
                expected = expected || strcmp(allowed[i], pair) == 0;
            if (sandbox_may_become(from, to) != expected)
                fail_msg("%s", pair);
            found += expected;
        }
    }
    assert_int_equal(found, ARRAY_LEN(allowed));
}

static void test_setter(void **state)
{
    (void)state;
    struct sandbox sandbox = {.state = SANDBOX_PENDING};
    struct error err = ERROR_INIT;
    assert_int_equal(sandbox_set_state(&sandbox, SANDBOX_RUNNING, "R", "M", 5, &err), 0);
    assert_int_equal(sandbox.state, SANDBOX_RUNNING);
    assert_string_equal(sandbox.reason, "R");
    assert_string_equal(sandbox.message, "M");
    assert_int_equal(sandbox.last_transition_at_ms, 5);
    assert_true(sandbox_set_state(&sandbox, SANDBOX_PENDING, "X", NULL, 6, &err) < 0);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(sandbox.state, SANDBOX_RUNNING);
    assert_string_equal(sandbox.reason, "R");
    assert_int_equal(sandbox.last_transition_at_ms, 5);
    sandbox_done(&sandbox);
}

static void expect_json(json_t *json, const char *expected)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

static void test_json_leaves_out_what_is_not_there(void **state)
{
    (void)state;
    struct sandbox sandbox = {
        .id = "0b5e3f2a-8c1d-4e6f-9a7b-1c2d3e4f5a6b",
        .image = mem_dup("host"),
        .created_at_ms = 1767323045123,
        .last_transition_at_ms = 1767323045000,
    };
    string_list_add(&sandbox.entrypoint, "tail");
    expect_json(
        sandbox_to_json(&sandbox),
        "{\"createdAt\":\"2026-01-02T03:04:05.123Z\",\"entrypoint\":[\"tail\"],"
        "\"id\":\"0b5e3f2a-8c1d-4e6f-9a7b-1c2d3e4f5a6b\",\"image\":{\"uri\":\"host\"},"
        "\"status\":{\"lastTransitionAt\":\"2026-01-02T03:04:05Z\",\"state\":\"Pending\"}}");
    sandbox_done(&sandbox);
}

static void test_json_full(void **state)
{
    (void)state;
    struct sandbox sandbox = {
        .id = "0b5e3f2a-8c1d-4e6f-9a7b-1c2d3e4f5a6b",
        .image = mem_dup("host"),
        .platform_os = mem_dup("linux"),
        .platform_arch = mem_dup("amd64"),
        .created_at_ms = 1767323045000,
        .expires_at_ms = 1767323105000,
        .last_transition_at_ms = 1767323045000,
        .state = SANDBOX_RUNNING,
        .reason = mem_dup("CONTAINER_RUNNING"),
        .message = mem_dup("ok"),
        .execd_token = "secret",
    };
    string_list_add(&sandbox.entrypoint, "a b");
    labels_set(&sandbox.metadata, "k", "v");
    expect_json(sandbox_to_create_json(&sandbox),
                "{\"createdAt\":\"2026-01-02T03:04:05Z\",\"entrypoint\":[\"a b\"],"
                "\"expiresAt\":\"2026-01-02T03:05:05Z\","
                "\"id\":\"0b5e3f2a-8c1d-4e6f-9a7b-1c2d3e4f5a6b\",\"metadata\":{\"k\":\"v\"},"
                "\"platform\":{\"arch\":\"amd64\",\"os\":\"linux\"},"
                "\"status\":{\"lastTransitionAt\":\"2026-01-02T03:04:05Z\",\"message\":\"ok\","
                "\"reason\":\"CONTAINER_RUNNING\",\"state\":\"Running\"}}");
    sandbox_done(&sandbox);
}

static void test_pagination(void **state)
{
    (void)state;
    expect_json(sandbox_pagination_json(1, 20, 0),
                "{\"hasNextPage\":false,\"page\":1,\"pageSize\":20,\"totalItems\":0,"
                "\"totalPages\":0}");
    expect_json(sandbox_pagination_json(2, 3, 7),
                "{\"hasNextPage\":true,\"page\":2,\"pageSize\":3,\"totalItems\":7,"
                "\"totalPages\":3}");
    expect_json(sandbox_pagination_json(3, 3, 9),
                "{\"hasNextPage\":false,\"page\":3,\"pageSize\":3,\"totalItems\":9,"
                "\"totalPages\":3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_transitions),
        cmocka_unit_test(test_setter),    cmocka_unit_test(test_json_leaves_out_what_is_not_there),
        cmocka_unit_test(test_json_full), cmocka_unit_test(test_pagination),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
