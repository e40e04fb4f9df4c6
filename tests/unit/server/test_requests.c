/* The small things each request goes through: its id, its secrets, its query, its endpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "server/auth.h"
#include "server/endpoint.h"
#include "server/list_query.h"
#include "server/request_id.h"

/* --- X-Request-ID ----------------------------------------------------------------------------- */

static void choose(const char *value, char *id)
{
    struct http_headers headers;
    http_headers_init(&headers);
    if (value != NULL)
        assert_int_equal(http_headers_add(&headers, "x-request-id", value), 0);
    server_request_id_choose(&headers, id);
    http_headers_done(&headers);
}

static void test_request_id_is_kept(void **state)
{
    (void)state;
    char id[SERVER_REQUEST_ID_MAX + 1];
    AUTO_FREE char *longest = mem_alloc(SERVER_REQUEST_ID_MAX + 1);
    memset(longest, 'x', SERVER_REQUEST_ID_MAX);
    static const char *const rows[] = {"a", "b 7 ~!", "0b5e3f2a-8c1d-4e6f-9a7b-1c2d3e4f5a6b"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        choose(rows[i], id);
        assert_string_equal(id, rows[i]);
    }
    choose(longest, id);
    assert_string_equal(id, longest);
}

static void test_request_id_is_made(void **state)
{
    (void)state;
    char id[SERVER_REQUEST_ID_MAX + 1];
    char other[SERVER_REQUEST_ID_MAX + 1];
    AUTO_FREE char *too_long = mem_alloc(SERVER_REQUEST_ID_MAX + 2);
    memset(too_long, 'x', SERVER_REQUEST_ID_MAX + 1);
    const char *const rows[] = {NULL, "", " \t ", "caf\xc3\xa9", "a\tb", too_long};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        choose(rows[i], id);
        assert_int_equal(strlen(id), 32);
        for (const char *p = id; *p != '\0'; p++)
            assert_true(isxdigit((unsigned char)*p));
    }
    choose(NULL, other);
    assert_string_not_equal(id, other);
}

/* --- secrets ---------------------------------------------------------------------------------- */

static bool opens(const char *name, const char *value, const char *token)
{
    struct http_headers headers;
    http_headers_init(&headers);
    http_headers_add(&headers, name, "wrong");
    http_headers_add(&headers, name, value);
    bool result = server_auth_opens_execd(&headers, token, "the-key");
    http_headers_done(&headers);
    return result;
}

static void test_execd_access(void **state)
{
    (void)state;
    assert_true(opens("X-EXECD-ACCESS-TOKEN", "tok", "tok"));
    assert_true(opens("x-execd-access-token", "the-key", "tok"));
    assert_true(opens("Open-Sandbox-Api-Key", "the-key", "tok"));
    assert_false(opens("X-EXECD-ACCESS-TOKEN", "TOK", "tok"));
    assert_false(opens("X-EXECD-ACCESS-TOKEN", "tok ", "to"));
    assert_false(opens("X-EXECD-ACCESS-TOKEN", "", "tok"));
    assert_false(opens("X-EXECD-ACCESS-TOKEN", "", "")); /* an empty token opens nothing */
    assert_false(opens("OPEN-SANDBOX-API-KEY", "tok", "tok"));
    assert_false(opens("Authorization", "tok", "tok"));
}

/* --- list query ------------------------------------------------------------------------------- */

static void test_list_defaults(void **state)
{
    (void)state;
    struct store_filter filter;
    struct problem problem = {0};
    assert_int_equal(server_list_query_parse("", &filter, &problem), 0);
    assert_int_equal(filter.page, 1);
    assert_int_equal(filter.page_size, 20);
    assert_false(filter.by_state);
    assert_int_equal(filter.labels.count, 0);
}

static void test_list_everything(void **state)
{
    (void)state;
    struct store_filter filter;
    struct problem problem = {0};
    static const char query[] = "state=running&state=FAILED&page=3&pageSize=200&unknown=x"
                                "&metadata=team%3Da%26x.io%252Fy%3D%26team%3Db";
    assert_int_equal(server_list_query_parse(query, &filter, &problem), 0);
    assert_int_equal(filter.page, 3);
    assert_int_equal(filter.page_size, 200);
    assert_true(filter.by_state);
    assert_int_equal(filter.states, 1u << SANDBOX_RUNNING | 1u << SANDBOX_FAILED);
    assert_int_equal(filter.labels.count, 2);
    assert_string_equal(labels_find(&filter.labels, "team"), "b"); /* the last one wins */
    assert_string_equal(labels_find(&filter.labels, "x.io/y"), "");
    server_list_query_done(&filter);
}

static void test_list_unknown_state_matches_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {"state=", "state=Dancing", "state"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct store_filter filter;
        struct problem problem = {0};
        assert_int_equal(server_list_query_parse(rows[i], &filter, &problem), 0);
        assert_true(filter.by_state);
        assert_int_equal(filter.states, 0);
    }
}

static void test_list_metadata_encodings(void **state)
{
    (void)state;
    /* Encoded once or twice; '+' is a space after the second decoding. */
    static const char *const rows[] = {"metadata=a%3Db", "metadata=a%253Db%3Dc",
                                       "metadata=", "metadata=a%3D"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct store_filter filter;
        struct problem problem = {0};
        if (server_list_query_parse(rows[i], &filter, &problem) < 0)
            fail_msg("%s: %s", rows[i], problem.message);
        server_list_query_done(&filter);
    }
}

static void test_list_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *code;
        const char *in_message;
    } rows[] = {
        {"page=0", PROBLEM_INVALID, "`page`"},
        {"page=-1", PROBLEM_INVALID, "`page`"},
        {"page=x", PROBLEM_INVALID, "`page`"},
        {"page=", PROBLEM_INVALID, "`page`"},
        {"page=1000000001", PROBLEM_INVALID, "`page`"},
        {"page=99999999999999999999", PROBLEM_INVALID, "`page`"},
        {"pageSize=0", PROBLEM_INVALID, "`pageSize`"},
        {"pageSize=201", PROBLEM_INVALID, "`pageSize`"},
        {"metadata=a", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=a%3Db%26", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=%26a%3Db", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=a%3Db%26%26c%3Dd", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=a%3Db%26c", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=a%3D%25zz", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=a%3D%FF", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=%25FF%3Da", "INVALID_METADATA_FORMAT", "bad query field"},
        {"metadata=%FF", "INVALID_METADATA_FORMAT", "bad query field"},
        {"page=%FF%FF%FF%FF", PROBLEM_INVALID, "????"},
        {"page=%zz", PROBLEM_INVALID, "escape"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct store_filter filter;
        struct problem problem = {0};
        if (server_list_query_parse(rows[i].query, &filter, &problem) == 0)
            fail_msg("accepted: %s", rows[i].query);
        if (strcmp(problem.code, rows[i].code) != 0 || strcmp(problem.in, "query") != 0 ||
            strstr(problem.message, rows[i].in_message) == NULL)
            fail_msg("%s: %s %s", rows[i].query, problem.code, problem.message);
        json_t *json = problem_to_json(&problem);
        assert_non_null(json);
        json_decref(json);
    }
}

/* --- endpoints -------------------------------------------------------------------------------- */

static void test_endpoint(void **state)
{
    (void)state;
    json_t *json = server_endpoint_to_json("h:80", "ID", 44772, "tok");
    char *text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text, "{\"endpoint\":\"h:80/sandboxes/ID/proxy/44772\","
                              "\"headers\":{\"X-EXECD-ACCESS-TOKEN\":\"tok\"}}");
    free(text);
    json_decref(json);
    json = server_endpoint_to_json("h", "ID", 18080, "tok");
    text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text, "{\"endpoint\":\"h/sandboxes/ID/proxy/18080\"}");
    free(text);
    json_decref(json);
}

static void test_endpoint_hosts(void **state)
{
    (void)state;
    assert_true(server_endpoint_host_is_valid("localhost:8080"));
    assert_true(server_endpoint_host_is_valid("127.0.0.1"));
    assert_true(server_endpoint_host_is_valid("[::1]:80"));
    assert_false(server_endpoint_host_is_valid(""));
    assert_false(server_endpoint_host_is_valid("a b"));
    assert_false(server_endpoint_host_is_valid("a/b"));
    assert_false(server_endpoint_host_is_valid("user@host"));
    assert_false(server_endpoint_host_is_valid("a\"b"));
    AUTO_FREE char *long_host = mem_alloc(257);
    memset(long_host, 'a', 256);
    assert_false(server_endpoint_host_is_valid(long_host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_id_is_kept),
        cmocka_unit_test(test_request_id_is_made),
        cmocka_unit_test(test_execd_access),
        cmocka_unit_test(test_list_defaults),
        cmocka_unit_test(test_list_everything),
        cmocka_unit_test(test_list_unknown_state_matches_nothing),
        cmocka_unit_test(test_list_metadata_encodings),
        cmocka_unit_test(test_list_refusals),
        cmocka_unit_test(test_endpoint),
        cmocka_unit_test(test_endpoint_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
