#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/proxy.h"

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        enum execd_proxy_parse result;
        int port;
        const char *rest;
    } cases[] = {
        {"/proxy/80", EXECD_PROXY_OK, 80, ""},
        {"/proxy/80/", EXECD_PROXY_OK, 80, "/"},
        {"/proxy/65535?x=1", EXECD_PROXY_OK, 65535, "?x=1"},
        {"/proxy/1/a%2Fb//../c?d=/e?f", EXECD_PROXY_OK, 1, "/a%2Fb//../c?d=/e?f"},
        {"/proxy/0080/x", EXECD_PROXY_OK, 80, "/x"},
        {"/proxy/0/x", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy/65536", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy/99999999999999999999", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy/%38%30/", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy/-1/", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy/80:81/", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy/", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy//x", EXECD_PROXY_BAD_PORT, 0, NULL},
        {"/proxy", EXECD_PROXY_NONE, 0, NULL},
        {"/proxying/80", EXECD_PROXY_NONE, 0, NULL},
        {"//proxy/80", EXECD_PROXY_NONE, 0, NULL},
        {"*", EXECD_PROXY_NONE, 0, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct execd_proxy_path path = {0};
        assert_int_equal(execd_proxy_parse(cases[i].target, &path), cases[i].result);
        assert_int_equal(path.port, cases[i].port);
        if (cases[i].rest != NULL)
            assert_string_equal(path.rest, cases[i].rest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
