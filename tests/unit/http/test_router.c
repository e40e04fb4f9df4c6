#include "http/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

/* --- a stand-in for the server ---------------------------------------------------------------- */

static struct http_head request;
static const char *request_path;
static char answer[512];

const struct http_head *http_exchange_head(const struct http_exchange *exchange)
{
    (void)exchange;
    return &request;
}

const char *http_exchange_path(const struct http_exchange *exchange)
{
    (void)exchange;
    return request_path;
}

bool http_exchange_set_header(struct http_exchange *exchange, const char *name, const char *value)
{
    (void)exchange;
    snprintf(answer, sizeof(answer), "%s: %s|", name, value);
    return true;
}

void http_exchange_reply_error(struct http_exchange *exchange, int status, const char *code,
                               const char *format, ...)
{
    (void)exchange;
    size_t used = strlen(answer);
    used += (size_t)snprintf(answer + used, sizeof(answer) - used, "%d %s ", status, code);
    va_list args;
    va_start(args, format);
    vsnprintf(answer + used, sizeof(answer) - used, format, args);
    va_end(args);
}

/* --- routes ----------------------------------------------------------------------------------- */

static void on_root(struct http_exchange *exchange, const struct http_route_match *match, void *ctx)
{
    (void)exchange;
    (void)match;
    *(int *)ctx += 1;
}

static void on_other(struct http_exchange *exchange, const struct http_route_match *match,
                     void *ctx)
{
    (void)exchange;
    snprintf(answer, sizeof(answer), "id=%s", http_route_param(match, "id"));
    *(int *)ctx += 100;
}

static const struct http_route routes[] = {
    {"GET", "/", on_root},
    {"GET", "/things", on_other},
    {"POST", "/things", on_other},
    {"GET", "/things/special", on_root},
    {"GET", "/things/{id}", on_other},
    {"DELETE", "/things/{id}", on_other},
    {"GET", "/things/{id}/parts/{port}", on_other},
    {"*", "/things/{id}/proxy/{port}/{rest...}", on_other},
    {"GET", "/slash/", on_other},
    {"GET", "/things/{id}", on_root},
};

/* "pattern name=value ...", "405 GET, POST" or "404". */
static void assert_match(const char *method, const char *path, const char *expected)
{
    const struct http_route *route = NULL;
    struct http_route_match match;
    char allow[64];
    char text[512];
    enum http_route_result result = http_router_match(routes, ARRAY_LEN(routes), method, path,
                                                      &route, &match, allow, sizeof(allow));
    if (result == HTTP_ROUTE_FOUND) {
        int used = snprintf(text, sizeof(text), "%s", route->pattern);
        for (size_t i = 0; i < match.count; i++)
            used += snprintf(text + used, sizeof(text) - (size_t)used, " %s=%s", match.names[i],
                             match.values[i]);
        http_route_match_done(&match);
    } else {
        snprintf(text, sizeof(text), "%s", result == HTTP_ROUTE_NO_METHOD ? "405 " : "404");
        if (result == HTTP_ROUTE_NO_METHOD)
            strcat(text, allow);
        assert_int_equal(match.count, 0);
    }
    assert_string_equal(text, expected);
}

static void test_match(void **state)
{
    (void)state;
    assert_match("GET", "/", "/");
    assert_match("GET", "/things", "/things");
    assert_match("GET", "/things/7", "/things/{id} id=7");
    assert_match("GET", "/things/special", "/things/special");
    assert_match("GET", "/things/a%2Fb%20c", "/things/{id} id=a/b c");
    assert_match("GET", "/things/a+b", "/things/{id} id=a+b");
    assert_match("GET", "/things/x/parts/80", "/things/{id}/parts/{port} id=x port=80");
    assert_match("GET", "/slash/", "/slash/");

#define PROXY "/things/{id}/proxy/{port}/{rest...}"
    assert_match("BREW", "/things/x/proxy/80/", PROXY " id=x port=80 rest=");
    assert_match("GET", "/things/x/proxy/80/a//b/%2e%zz", PROXY " id=x port=80 rest=a//b/%2e%zz");
    assert_match("GET", "/things/x/proxy/80//", PROXY " id=x port=80 rest=/");
}

static void test_no_match(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "",
        "*",
        "things",
        "//",
        "/thing",
        "/thingss",
        "/things/",
        "/Things",
        "/things//",
        "/things/7/",
        "/slash",
        "/things/7/part",
        "/things/%",
        "/things/%zz",
        "/things/%00",
        "/./things",
        "//things",
        "/things/../things",
        "/%74hings",
        "/things/x/proxy/80",
        "/things//parts/80",
        "/things/x/parts/",
    };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_match("GET", paths[i], "404");
}

static void test_no_method(void **state)
{
    (void)state;
    assert_match("PUT", "/things", "405 GET, POST");
    assert_match("PUT", "/things/7", "405 GET, DELETE");
    assert_match("get", "/things", "405 GET, POST");
    assert_match("DELETE", "/things/special", "/things/{id} id=special");
    assert_match("HEAD", "/", "405 GET");

    /* A list that is too small for all stays well formed. */
    const struct http_route *route = NULL;
    struct http_route_match match;
    char allow[8];
    assert_int_equal(http_router_match(routes, ARRAY_LEN(routes), "PUT", "/things", &route, &match,
                                       allow, sizeof(allow)),
                     HTTP_ROUTE_NO_METHOD);
    assert_string_equal(allow, "GET");
}

static void dispatch(const char *method, const char *path, int *ctx)
{
    http_head_init(&request);
    strcpy(request.method, method);
    request_path = path;
    answer[0] = '\0';
    http_router_dispatch(routes, ARRAY_LEN(routes), NULL, ctx);
}

static void test_dispatch(void **state)
{
    (void)state;
    int calls = 0;
    dispatch("GET", "/things/7%20", &calls);
    assert_int_equal(calls, 100);
    assert_string_equal(answer, "id=7 ");
    dispatch("GET", "/", &calls);
    assert_int_equal(calls, 101);
    dispatch("PUT", "/things/7", &calls);
    assert_string_equal(answer, "Allow: GET, DELETE|405 METHOD_NOT_ALLOWED "
                                "PUT is not allowed here, but GET, DELETE");
    dispatch("GET", "/no\"way", &calls);
    assert_string_equal(answer, "404 NOT_FOUND there is nothing at \"/no\\x22way\"");
    assert_int_equal(calls, 101);
}

static void test_param_absent(void **state)
{
    (void)state;
    struct http_route_match match = {0};
    assert_null(http_route_param(&match, "id"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),        cmocka_unit_test(test_no_match),
        cmocka_unit_test(test_no_method),    cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_param_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
