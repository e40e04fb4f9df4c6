#include "http/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

static void assert_request(const struct http_head *head, const char *expected)
{
    struct buf out;
    buf_init(&out, HTTP_HEAD_MAX);
    assert_int_equal(http_head_write_request(head, &out), 0);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void assert_response(const struct http_head *head, const char *expected)
{
    struct buf out;
    buf_init(&out, HTTP_HEAD_MAX);
    assert_int_equal(http_head_write_response(head, &out), 0);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void make_request(struct http_head *head, const char *method, const char *target)
{
    http_head_init(head);
    strcpy(head->method, method);
    head->target = mem_dup(target);
    head->keep_alive = true;
}

static void test_request_framing(void **state)
{
    (void)state;
    struct http_head head;
    make_request(&head, "GET", "/a%2Fb?x=1");
    http_headers_add(&head.headers, "Host", "example");
    /* None of these may contradict the members of the head. */
    http_headers_add(&head.headers, "content-length", "99");
    http_headers_add(&head.headers, "Transfer-Encoding", "chunked");
    http_headers_add(&head.headers, "CONNECTION", "close");
    assert_request(&head, "GET /a%2Fb?x=1 HTTP/1.1\r\nHost: example\r\n\r\n");

    strcpy(head.method, "POST");
    assert_request(&head, "POST /a%2Fb?x=1 HTTP/1.1\r\nHost: example\r\nContent-Length: 0\r\n\r\n");
    head.framing = HTTP_LENGTH;
    head.content_length = 5000000000;
    head.keep_alive = false;
    assert_request(&head, "POST /a%2Fb?x=1 HTTP/1.1\r\nHost: example\r\n"
                          "Content-Length: 5000000000\r\nConnection: close\r\n\r\n");
    head.framing = HTTP_CHUNKED;
    head.keep_alive = true;
    assert_request(&head, "POST /a%2Fb?x=1 HTTP/1.1\r\nHost: example\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n");
    http_head_done(&head);
}

static void test_upgrade_keeps_its_fields(void **state)
{
    (void)state;
    struct http_head head;
    make_request(&head, "GET", "/ws");
    http_headers_add(&head.headers, "Connection", "Upgrade");
    http_headers_add(&head.headers, "Upgrade", "websocket");
    head.upgrade = true;
    assert_request(&head, "GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    head.status = 101;
    assert_response(&head, "HTTP/1.1 101 Switching Protocols\r\n"
                           "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    http_head_done(&head);
}

static void test_response_framing(void **state)
{
    (void)state;
    struct http_head head;
    http_head_init(&head);
    head.status = 404;
    head.framing = HTTP_LENGTH;
    head.keep_alive = true;
    http_headers_add(&head.headers, "Set-Cookie", "a");
    http_headers_add(&head.headers, "Set-Cookie", "b");
    assert_response(&head, "HTTP/1.1 404 Not Found\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
                           "Content-Length: 0\r\n\r\n");
    head.minor = 0;
    assert_response(&head, "HTTP/1.0 404 Not Found\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
                           "Content-Length: 0\r\nConnection: keep-alive\r\n\r\n");
    /* Until close closes, whatever keep_alive says. */
    head.framing = HTTP_UNTIL_CLOSE;
    http_headers_remove(&head.headers, "Set-Cookie");
    assert_response(&head, "HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\n");
    head.status = 299;
    assert_response(&head, "HTTP/1.0 299 Unknown\r\nConnection: close\r\n\r\n");
    http_head_done(&head);
}

static void test_refuses_and_adds_nothing(void **state)
{
    (void)state;
    static const char *const targets[] = {"/a b", "/a\r\nX: y", "", "/\t", "/\x7f", "/\xc3\xa4"};
    struct http_head head;
    struct buf out;
    buf_init(&out, 40);
    buf_add_str(&out, "before");
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        make_request(&head, "GET", targets[i]);
        assert_int_equal(http_head_write_request(&head, &out), -EINVAL);
        http_head_done(&head);
    }
    make_request(&head, "G T", "/");
    assert_int_equal(http_head_write_request(&head, &out), -EINVAL);
    strcpy(head.method, "GET");
    http_headers_add(&head.headers, "X-Long-Enough", "to pass the forty bytes of the buffer");
    assert_int_equal(http_head_write_request(&head, &out), -EMSGSIZE);
    assert_string_equal(out.data, "before");
    head.framing = HTTP_CHUNKED;
    head.minor = 0;
    head.status = 200;
    http_headers_remove(&head.headers, "X-Long-Enough");
    assert_int_equal(http_head_write_response(&head, &out), -EINVAL);
    assert_string_equal(out.data, "before");
    http_head_done(&head);
    buf_done(&out);
}

static void test_which_responses_have_bodies(void **state)
{
    (void)state;
    assert_true(http_response_has_body("GET", 200));
    assert_true(http_response_has_body("POST", 404));
    assert_false(http_response_has_body("HEAD", 200));
    assert_false(http_response_has_body("GET", 204));
    assert_false(http_response_has_body("GET", 304));
    assert_false(http_response_has_body("GET", 101));
    assert_string_equal(http_status_text(200), "OK");
    assert_string_equal(http_status_text(505), "HTTP Version Not Supported");
    assert_string_equal(http_status_text(0), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_framing),
        cmocka_unit_test(test_upgrade_keeps_its_fields),
        cmocka_unit_test(test_response_framing),
        cmocka_unit_test(test_refuses_and_adds_nothing),
        cmocka_unit_test(test_which_responses_have_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
