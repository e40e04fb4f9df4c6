#include "parser_recorder.h"

/* --- responses -------------------------------------------------------------------------------- */

static void test_responses(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 1.1 length=2 keep|ok|complete|end"},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 1.1 length=0 keep|complete|end"},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 1.1 length=0 keep|complete|end"},
        {"HTTP/1.1 404 N\xc3\xb6t\tFound here\r\nContent-Length: 0\r\n\r\n",
         "404 1.1 length=0 keep|complete|end"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
         "200 1.1 chunked keep|a|complete|end"},
        {"HTTP/1.1 200 OK\r\n\r\nall\r\n\r\nof it",
         "200 1.1 until-close close|all\r\n\r\nof it|complete|end"},
        {"HTTP/1.0 200 OK\r\n\r\n", "200 1.0 until-close close|complete|end"},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
         "200 1.0 length=1 keep|a|complete|end"},
        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
         "200 1.1 length=1 close|a|complete|end"},
        {"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
         "204 1.1 none keep|complete|304 1.1 none keep|complete|end"},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 1.1 none keep|complete|end"},
        /* interim responses are not events */
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
         "200 1.1 length=0 keep|complete|end"},
        {"HTTP/1.1 100 Continue\r\n\r\n", "cut"},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\x01\x02",
         "101 1.1 none keep upgrade|rest \x01\x02"},
    };
    assert_responses("GET", cases, ARRAY_LEN(cases));
}

static void test_refused_responses(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"HTTP/1.1 099 x\r\n\r\n", "error 400"},
        {"HTTP/1.1 600 x\r\n\r\n", "error 400"},
        {"HTTP/1.1 20 x\r\n\r\n", "error 400"},
        {"HTTP/1.1 2000 x\r\n\r\n", "error 400"},
        {"HTTP/1.1  200 x\r\n\r\n", "error 400"},
        {"HTTP/1.1 200x\r\n\r\n", "error 400"},
        {"HTTP/1.1\r\n\r\n", "error 400"},
        {"HTTP/2.0 200 OK\r\n\r\n", "error 505"},
        {"HTTP/1.2 200 OK\r\n\r\n", "error 505"},
        {"ICY 200 OK\r\n\r\n", "error 400"},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "error 400"},
        {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "error 400"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "error 400"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "error 400"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "error 501"},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "error 400"},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "error 400"},
        {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "error 400"},
        {"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello", "error 400"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "200 1.1 length=2 keep|a|cut"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
         "200 1.1 chunked keep|a|cut"},
    };
    assert_responses("GET", cases, ARRAY_LEN(cases));

#define CONTINUE4 \
    "HTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 b\r\n\r\nHTTP/1.1 102 c\r\n\r\nHTTP/1.1 199 d\r\n\r\n"
    static const struct exchange interim[] = {
        {CONTINUE4 CONTINUE4 CONTINUE4 CONTINUE4 "HTTP/1.1 204 e\r\n\r\n",
         "204 1.1 none keep|complete|end"},
        {CONTINUE4 CONTINUE4 CONTINUE4 CONTINUE4 "HTTP/1.1 100 e\r\n\r\n", "error 400"},
    };
    assert_responses("GET", interim, ARRAY_LEN(interim));
}

static void test_responses_to_head(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 404 No\r\n\r\n",
         "200 1.1 none keep|complete|200 1.1 none keep|complete|404 1.1 none keep|complete|end"},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
         "200 1.1 none keep|complete|end"},
    };
    assert_responses("HEAD", cases, ARRAY_LEN(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_refused_responses),
        cmocka_unit_test(test_responses_to_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
