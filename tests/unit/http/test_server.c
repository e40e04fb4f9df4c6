/* What goes over the wire: heads, framing, bodies. */
#include "server_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>

/* --- tests: messages -------------------------------------------------------------------------- */

static void test_keep_alive(void **state)
{
    (void)state;
    struct peer *peer = dial();
    for (int i = 1; i <= 3; i++) {
        peer_send(peer, "GET /pong?a=%20b HTTP/1.1\r\nHost: x\r\n\r\n");
        WAIT(peer_count(peer, "pong") == (size_t)i);
    }
    assert_int_equal(peer_count(peer, "HTTP/1.1 200 OK\r\n"), 3);
    assert_int_equal(peer_count(peer, "Content-Length: 4\r\n"), 3);
    assert_int_equal(peer_count(peer, "Date: "), 3);
    assert_false(peer_has(peer, "Connection:"));
    assert_string_equal(seen.last_path, "/pong");
    assert_string_equal(seen.last_query, "a=%20b");
    assert_string_equal(seen.peer, "127.0.0.1");
    assert_int_equal(seen.closes, 3);
    assert_int_equal(seen.completed, 3);
    assert_int_equal(http_server_connection_count(seen.server), 1);
    peer_close(peer);
    WAIT(http_server_connection_count(seen.server) == 0);
}

static void test_connection_close(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    peer_expect_end(peer);
    assert_true(peer->eof);
    assert_true(peer_has(peer, "Connection: close\r\n"));
    assert_true(ends_with(peer, "\r\n\r\npong"));
    peer_close(peer);
}

static void test_unix_listener(void **state)
{
    (void)state;
    char dir[] = "/tmp/server-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = mem_printf("%s/socket", dir);
    int fd = bind_unix(path);
    assert_int_equal(http_server_listen_fd(seen.server, fd, NULL), 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    struct peer *peer = peer_new(client);
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "pong");
    assert_string_equal(seen.peer, "unix");
    peer_close(peer);
    unlink(path);
    rmdir(dir);
}

static void test_listen_errors(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_true(http_server_listen_tcp(seen.server, "localhost", 0, NULL, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    assert_true(http_server_listen_tcp(seen.server, "127.0.0.1", 70000, NULL, &err) < 0);
    assert_true(http_server_listen_tcp(seen.server, "127.0.0.1", seen.port, NULL, &err) < 0);
    assert_int_equal(err.sys, EADDRINUSE);
    assert_true(http_server_listen_fd(seen.server, open("/dev/null", O_RDONLY | O_CLOEXEC), &err) <
                0);
}

/* Answers come in the order of requests, and the second waits for the first. */
static void test_pipelining(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"
                    "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                    "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.held != NULL);
    turn_loop(5);
    assert_int_equal(seen.requests, 1);
    http_exchange_reply(seen.held, 200, NULL, "first", 5);
    assert_int_equal(seen.closes, 0); /* not inside the call */
    WAIT(seen.closes == 3);
    peer_expect(peer, "pong");
    const char *first = strstr(peer->in.data, "first");
    const char *second = strstr(peer->in.data, "abc");
    assert_true(first != NULL && second != NULL && first < second);
    assert_true(second < strstr(peer->in.data, "pong"));
    peer_close(peer);
}

/* A client that pipelines without end is not read without end. */
static void test_pipelining_is_bounded(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.held != NULL);
    AUTO_FREE char *junk = make_pattern(BIG);
    peer_send_bytes(peer, junk, BIG);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    turn_loop(200);
    getrusage(RUSAGE_SELF, &after);
    assert_true(peer->out.length > 0); /* kernel buffers are full, nobody reads */
    assert_true(after.ru_maxrss - before.ru_maxrss < 2048);
    peer_close(peer);
    http_exchange_abort(seen.held);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.completed, 0);
}

static void test_chunked_both_ways(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n");
    peer_expect(peer, "5\r\nhello\r\n");
    assert_true(peer_has(peer, "Transfer-Encoding: chunked\r\n"));
    assert_false(peer_has(peer, "Content-Length"));
    peer_send(peer, "1\r\n,\r\n6\r\n world\r\n0\r\n\r\n");
    peer_expect(peer, "0\r\n\r\n");
    assert_true(ends_with(peer, "\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"));
    assert_int_equal(seen.body_ends, 1);
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "pong");
    peer_close(peer);
}

static void test_http_1_0(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /pong HTTP/1.0\r\n\r\n");
    peer_expect_end(peer);
    assert_true(peer_has(peer, "HTTP/1.0 200 OK\r\n"));
    assert_true(ends_with(peer, "\r\n\r\npong"));
    peer_close(peer);

    peer = dial();
    peer_send(peer,
              "POST /echo HTTP/1.0\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello");
    peer_expect_end(peer);
    assert_false(peer_has(peer, "chunked"));
    assert_false(peer_has(peer, "Content-Length"));
    assert_true(ends_with(peer, "\r\n\r\nhello")); /* until close */
    peer_close(peer);

    peer = dial();
    peer_send(peer, "GET /pong HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    peer_expect(peer, "pong");
    assert_true(peer_has(peer, "Connection: keep-alive\r\n"));
    peer_send(peer, "GET /pong HTTP/1.0\r\n\r\n");
    peer_expect_end(peer);
    assert_int_equal(peer_count(peer, "pong"), 2);
    peer_close(peer);
}

static void test_no_body_answers(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "HEAD /pong HTTP/1.1\r\nHost: x\r\n\r\n"
                    "HEAD /big HTTP/1.1\r\nHost: x\r\n\r\n"
                    "GET /status?204 HTTP/1.1\r\nHost: x\r\n\r\n"
                    "GET /status?304 HTTP/1.1\r\nHost: x\r\n\r\n"
                    "GET /status?200 HTTP/1.1\r\nHost: x\r\n\r\n");
    seen.big = make_pattern(BIG);
    WAIT(seen.closes == 5);
    peer_expect(peer, "Content-Length: 0\r\n");
    assert_false(peer_has(peer, "\r\n\r\npong"));
    assert_true(peer_has(peer, "Content-Length: 4\r\n"));
    assert_true(peer_has(peer, "Content-Length: 8388608\r\n"));
    assert_int_equal(peer_count(peer, "Content-Length"), 3); /* none in 204 and 304 */
    assert_int_equal(peer_count(peer, "\r\n\r\nHTTP/1.1 "), 4);
    assert_int_equal(seen.completed, 5);
    free((char *)(uintptr_t)seen.big);
    peer_close(peer);
}

static void test_headers_and_errors(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /headers HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "{\"code\":\"TEAPOT\",\"message\":\"not \\\"coffee\\\"\"}");
    assert_true(peer_has(peer, "HTTP/1.1 418 "));
    assert_true(peer_has(peer, "Content-Type: application/json\r\n"));
    assert_true(peer_has(peer, "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n"));
    assert_false(peer_has(peer, "X-Bad"));
    peer_close(peer);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        const char *status;
    } cases[] = {
        {"GET /pong HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
        {"GET /pong HTTP/1.1\nHost: x\n\n", "HTTP/1.1 400 "},
        {"GET /pong HTTP/2.0\r\nHost: x\r\n\r\n", "HTTP/1.1 505 "},
        {"POST /pong HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 "},
        {"POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
         "HTTP/1.1 400 "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct peer *peer = dial();
        peer_send(peer, cases[i].request);
        WAIT(peer->eof);
        assert_true(peer_has(peer, cases[i].status));
        assert_true(peer_has(peer, "{\"code\":\""));
        assert_true(peer_has(peer, "Connection: close\r\n"));
        peer_close(peer);
    }
    struct peer *peer = dial();
    AUTO_FREE char *name = make_pattern(1000000);
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\nX: ");
    peer_send_bytes(peer, name, 1000000);
    peer_expect(peer, "HTTP/1.1 431 ");
    peer_expect_end(peer);
    assert_false(peer->reset); /* though much was unread */
    peer_close(peer);
    WAIT(http_server_connection_count(seen.server) == 0);
}

/* --- tests: bodies ---------------------------------------------------------------------------- */

static void test_collect(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc");
    turn_loop(3);
    assert_int_equal(seen.collected, 0);
    peer_send(peer, "def");
    peer_expect(peer, "\r\n\r\nabcdef");
    peer_send(peer, "GET /collect HTTP/1.1\r\nHost: x\r\n\r\n"); /* no body: an empty one */
    WAIT(seen.collected == 2);
    peer_close(peer);
}

static void test_collect_too_large(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
    peer_expect(peer, "HTTP/1.1 413 ");
    WAIT(peer->eof);
    peer_close(peer);

    AUTO_FREE char *bytes = make_pattern(1001);
    peer = dial();
    peer_send(peer,
              "POST /collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    peer_send_bytes(peer, bytes, 1001);
    peer_expect(peer, "HTTP/1.1 413 ");
    WAIT(peer->eof);
    peer_close(peer);
    assert_int_equal(seen.collected, 0);
    WAIT(seen.closes == 2);
}

static void test_pause_and_resume(void **state)
{
    (void)state;
    struct peer *peer = dial();
    char request[2048]; /* chunks that are large enough to be pieces of their own */
    snprintf(request, sizeof(request),
             "POST /pausing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "300\r\n%0768d\r\n300\r\n%0768d\r\n0\r\n\r\n",
             1, 2);
    peer_send(peer, request);
    for (size_t i = 1; i <= 2; i++) {
        WAIT(seen.body.length == i * 768);
        assert_true(seen.paused);
        turn_loop(5);
        assert_int_equal(seen.body.length, i * 768);
        assert_int_equal(seen.body_ends, 0);
        seen.paused = false;
        seen.inside = true;
        http_exchange_resume_body(seen.held);
        seen.inside = false;
    }
    WAIT(seen.body_ends == 1);
    peer_expect(peer, "ok");
    peer_close(peer);
}

/* 8 MiB up, read in slow steps: what waits is in the kernel, not in us. */
static void test_big_upload(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct peer *peer = dial();
    peer_send(peer, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n");
    peer_send_bytes(peer, bytes, BIG);
    peer_expect(peer, "ok");
    assert_int_equal(seen.body.length, BIG);
    assert_memory_equal(seen.body.data, bytes, BIG);
    assert_int_equal(seen.body_ends, 1);
    peer_close(peer);
}

static void check_big_download(const char *target, bool chunked)
{
    AUTO_FREE char *bytes = make_pattern(BIG);
    seen.big = bytes;
    struct peer *peer = dial();
    peer_pause(peer, true);
    AUTO_FREE char *request = mem_printf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
    peer_send(peer, request);
    WAIT(seen.to_send > 0);
    turn_loop(20);
    assert_true(seen.to_send > BIG / 4); /* the handler waits for the reader */
    assert_int_equal(seen.closes, 0);
    peer_pause(peer, false);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.completed, 1);
    if (chunked) {
        WAIT(ends_with(peer, "0\r\n\r\n"));
    } else {
        WAIT(peer->in.data + peer->in.length - (strstr(peer->in.data, "\r\n\r\n") + 4) == BIG);
        const char *body = strstr(peer->in.data, "\r\n\r\n") + 4;
        assert_memory_equal(body, bytes, BIG);
    }
    peer_close(peer);
    seen.closes = seen.completed = 0;
}

static void test_big_download(void **state)
{
    (void)state;
    check_big_download("/big", false);
    check_big_download("/big?chunked", true);
}

static void test_expect_continue(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\n");
    peer_expect(peer, "HTTP/1.1 100 Continue\r\n\r\n");
    peer_send(peer, "hi");
    peer_expect(peer, "ok");
    /* A handler that does not want the body: no 100, and the connection cannot be used again. */
    peer_send(peer, "POST /pong HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\n");
    WAIT(peer->eof);
    assert_int_equal(peer_count(peer, "100 Continue"), 1);
    assert_true(peer_has(peer, "Connection: close\r\n"));
    peer_close(peer);
}

static void test_unread_body(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    /* Short enough: thrown away, the connection goes on. */
    struct peer *peer = dial();
    peer_send(peer, "POST /pong HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
    peer_expect(peer, "pong");
    peer_send_bytes(peer, bytes, 500000);
    peer_send(peer, "GET /status?200 HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "Content-Length: 0\r\n");
    peer_close(peer);

    /* Too long: the answer says close, and the client can read it although it still sends. */
    peer = dial();
    peer_send(peer, "POST /pong HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n");
    peer_send_bytes(peer, bytes, BIG);
    WAIT(peer->eof || peer->reset);
    assert_false(peer->reset);
    assert_true(peer_has(peer, "Connection: close\r\n"));
    assert_true(ends_with(peer, "pong"));
    peer_close(peer);

    /* Of unknown length: nobody could tell in the head. */
    peer = dial();
    peer_send(peer,
              "POST /pong HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n");
    peer_send_bytes(peer, bytes, BIG);
    WAIT(peer->eof || peer->reset);
    assert_false(peer->reset);
    assert_true(ends_with(peer, "pong"));
    peer_close(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keep_alive),        TEST(test_connection_close),
        TEST(test_unix_listener),     TEST(test_listen_errors),
        TEST(test_pipelining),        TEST(test_pipelining_is_bounded),
        TEST(test_chunked_both_ways), TEST(test_http_1_0),
        TEST(test_no_body_answers),   TEST(test_headers_and_errors),
        TEST(test_refusals),          TEST(test_collect),
        TEST(test_collect_too_large), TEST(test_pause_and_resume),
        TEST(test_big_upload),        TEST(test_big_download),
        TEST(test_expect_continue),   TEST(test_unread_body),
    };
    return cmocka_run_group_tests_name("http/server", tests, NULL, NULL);
}
