#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/macros.h"
#include "server/proxy.h"

#define ID "0b5e3f2a-8c1d-4e6f-9a7b-1c2d3e4f5a6b"

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *id; /* NULL: not a proxied target; "": proxied, but no valid id */
        int port;
        const char *rest;
    } rows[] = {
        {"/sandboxes/" ID "/proxy/44772", ID, 44772, ""},
        {"/sandboxes/" ID "/proxy/44772/", ID, 44772, "/"},
        {"/v1/sandboxes/" ID "/proxy/44772/a%2Fb/../c?x=%20&y", ID, 44772, "/a%2Fb/../c?x=%20&y"},
        {"/sandboxes/" ID "/proxy/80?q", ID, 80, "?q"},
        {"/sandboxes/" ID "/proxy/80//x", ID, 80, "//x"},
        {"/sandboxes/" ID "/proxy/0/x", ID, 0, "/x"},
        {"/sandboxes/" ID "/proxy/65536/x", ID, 0, "/x"},
        {"/sandboxes/" ID "/proxy/99999999999999999999/x", ID, 0, "/x"},
        {"/sandboxes/nobody/proxy/80/", "", 80, "/"},
        {"/sandboxes/../proxy/80/", "", 80, "/"},
        {"/sandboxes/0B5E3F2A-8C1D-4E6F-9A7B-1C2D3E4F5A6B/proxy/80", "", 80, ""},
        {"/sandboxes/" ID "x/proxy/80", "", 80, ""},
        {"/sandboxes/" ID "%00/proxy/80", "", 80, ""},
        {"/sandboxes/" ID, NULL, 0, NULL},
        {"/sandboxes/" ID "/proxy", NULL, 0, NULL},
        {"/sandboxes/" ID "/proxy/", NULL, 0, NULL},
        {"/sandboxes/" ID "/proxy/80a", NULL, 0, NULL},
        {"/sandboxes/" ID "/proxy/a80/", NULL, 0, NULL},
        {"/sandboxes/" ID "/proxy/-1/", NULL, 0, NULL},
        {"/sandboxes/" ID "/proxyy/80/", NULL, 0, NULL},
        {"/sandboxes//proxy/80", NULL, 0, NULL},
        {"/sandboxes/a/b/proxy/80", NULL, 0, NULL},
        {"/sandboxes/a?/proxy/80", NULL, 0, NULL},
        {"/v2/sandboxes/" ID "/proxy/80", NULL, 0, NULL},
        {"/v1/v1/sandboxes/" ID "/proxy/80", NULL, 0, NULL},
        {"//sandboxes/" ID "/proxy/80", NULL, 0, NULL},
        {"/Sandboxes/" ID "/proxy/80", NULL, 0, NULL},
        {"/", NULL, 0, NULL},
        {"*", NULL, 0, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct server_proxy_path path = {0};
        bool found = server_proxy_parse(rows[i].target, &path);
        if (found != (rows[i].id != NULL))
            fail_msg("%s: %d", rows[i].target, found);
        if (!found)
            continue;
        if (path.id_is_valid != (rows[i].id[0] != '\0') ||
            (path.id_is_valid && strcmp(path.id, rows[i].id) != 0) || path.port != rows[i].port ||
            strcmp(path.rest, rows[i].rest) != 0)
            fail_msg("%s: id %s, port %d, rest %s", rows[i].target, path.id, path.port, path.rest);
    }
}

static void test_internal(void **state)
{
    (void)state;
    static const struct {
        const char *rest;
        bool internal;
    } rows[] = {
        {"", false},
        {"/", false},
        {"/ping", false},
        {"/files/internal", false},
        {"/internals", false},
        {"?/internal", false},
        {"/files?path=/internal/start", false},
        {"/internal/../ping", false},
        {"/internal", true},
        {"/internal/start", true},
        {"/internal/start?x", true},
        {"/internal?x", true},
        {"//internal/start", true},
        {"/./internal/start", true},
        {"/x/../internal/start", true},
        {"/../internal/start", true},
        {"/../../x/.././/internal", true},
        {"/%69nternal/start", true},
        {"/internal%2Fstart", true},
        {"%2Finternal/start", true},
        {"/x/%2e%2e/internal/start", true},
        {"/x\\..\\internal/start", true},
        {"/INTERNAL/start", true},
        {"/Internal", true},
        {"/%", true},
        {"/%zz", true},
        {"/a%00b", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (server_proxy_is_internal(rows[i].rest) != rows[i].internal)
            fail_msg("%s", rows[i].rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_internal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
