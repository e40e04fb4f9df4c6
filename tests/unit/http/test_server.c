#include "peer.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "http/server.h"

#define BIG (8 * 1024 * 1024)

/* What the handlers below saw. */
static struct {
    struct http_server *server;
    int port;
    int requests;
    int closes, completed;
    int body_ends;
    int collected;
    struct buf body;
    struct http_exchange *held; /* the exchange of /hold, until on_close */
    bool paused;
    size_t most_queued;
    size_t to_send;
    const char *big;
    bool inside;
    bool free_server_in_close;
    char last_path[64];
    char last_query[64];
    char peer[64];
} seen;

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)ctx;
    assert_false(seen.inside);
    seen.closes++;
    seen.completed += completed;
    if (seen.held == exchange)
        seen.held = NULL;
    if (seen.free_server_in_close)
        seen.server = http_server_free(seen.server);
}

/* --- handlers --------------------------------------------------------------------------------- */

static void on_collected(struct http_exchange *exchange, const char *body, size_t length, void *ctx)
{
    (void)ctx;
    assert_false(seen.inside);
    assert_int_equal(body[length], '\0');
    seen.collected++;
    http_exchange_reply(exchange, 200, "text/plain", body, length);
}

static void on_body_data(struct http_exchange *exchange, const char *bytes, size_t length,
                         void *ctx)
{
    (void)ctx;
    assert_false(seen.inside);
    assert_false(seen.paused);
    buf_add(&seen.body, bytes, length);
    if (strcmp(http_exchange_path(exchange), "/pausing") == 0) {
        http_exchange_pause_body(exchange);
        seen.paused = true;
        seen.held = exchange;
    }
    if (strcmp(http_exchange_path(exchange), "/echo") == 0)
        http_exchange_write(exchange, bytes, length);
    if (strcmp(http_exchange_path(exchange), "/free-in-data") == 0)
        seen.server = http_server_free(seen.server);
}

static void on_body_end(struct http_exchange *exchange, void *ctx)
{
    (void)ctx;
    assert_false(seen.paused);
    seen.body_ends++;
    if (strcmp(http_exchange_path(exchange), "/echo") == 0)
        http_exchange_end(exchange);
    else
        http_exchange_reply(exchange, 200, NULL, "ok", 2);
}

static const struct http_body_events body_events = {.on_data = on_body_data, .on_end = on_body_end};

static void send_more(struct http_exchange *exchange, void *ctx)
{
    (void)ctx;
    assert_false(seen.inside);
    while (seen.to_send > 0 && !http_exchange_is_full(exchange)) {
        size_t part = MIN((size_t)30000, seen.to_send);
        http_exchange_write(exchange, seen.big + BIG - seen.to_send, part);
        seen.to_send -= part;
    }
    if (seen.to_send == 0)
        http_exchange_end(exchange);
}

static void handle(struct http_exchange *exchange, const char *path)
{
    if (strcmp(path, "/pong") == 0) {
        http_exchange_reply(exchange, 200, "text/plain", "pong", 4);
    } else if (strcmp(path, "/collect") == 0) {
        http_exchange_collect(exchange, 1000, on_collected, NULL);
    } else if (strcmp(path, "/echo") == 0) {
        http_exchange_begin(exchange, 200, -1);
        http_exchange_read_body(exchange, &body_events, NULL);
    } else if (strcmp(path, "/read") == 0 || strcmp(path, "/pausing") == 0 ||
               strcmp(path, "/free-in-data") == 0) {
        http_exchange_read_body(exchange, &body_events, NULL);
    } else if (strcmp(path, "/hold") == 0) {
        seen.held = exchange;
    } else if (strcmp(path, "/stream") == 0) {
        http_exchange_begin(exchange, 200, -1);
        seen.held = exchange;
    } else if (strcmp(path, "/big") == 0) {
        http_exchange_on_drain(exchange, send_more, NULL);
        http_exchange_begin(exchange, 200,
                            strcmp(http_exchange_query(exchange), "chunked") == 0 ? -1 : BIG);
    } else if (strcmp(path, "/status") == 0) {
        http_exchange_reply(exchange, atoi(http_exchange_query(exchange)), NULL, NULL, 0);
    } else if (strcmp(path, "/short") == 0) {
        http_exchange_begin(exchange, 200, 10);
        http_exchange_write(exchange, "12345", 5);
        http_exchange_end(exchange);
    } else if (strcmp(path, "/long") == 0) {
        http_exchange_begin(exchange, 200, 3);
        http_exchange_write(exchange, "12345", 5);
    } else if (strcmp(path, "/headers") == 0) {
        assert_true(http_exchange_add_header(exchange, "Set-Cookie", "a=1"));
        assert_true(http_exchange_add_header(exchange, "Set-Cookie", "b=2"));
        assert_false(http_exchange_add_header(exchange, "X-Bad", "a\r\nb: c"));
        http_exchange_reply_error(exchange, 418, "TEAPOT", "not \"%s\"", "coffee");
    } else {
        http_exchange_reply_error(exchange, 404, "NOT_FOUND", "no %s", path);
    }
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    assert_ptr_equal(ctx, &seen);
    seen.requests++;
    const char *path = http_exchange_path(exchange);
    snprintf(seen.last_path, sizeof(seen.last_path), "%s", path);
    snprintf(seen.last_query, sizeof(seen.last_query), "%s", http_exchange_query(exchange));
    snprintf(seen.peer, sizeof(seen.peer), "%s", http_exchange_peer(exchange));
    http_exchange_on_close(exchange, on_close, NULL);
    seen.inside = true;
    handle(exchange, path);
    seen.inside = false;
    if (strcmp(path, "/big") == 0) {
        seen.to_send = BIG;
        send_more(exchange, NULL);
    }
}

static void start_with(struct http_server_limits limits)
{
    memset(&seen, 0, sizeof(seen));
    buf_init(&seen.body, PEER_MAX);
    struct http_server_config config = {
        .loop = &loop, .on_request = on_request, .ctx = &seen, .limits = limits};
    seen.server = http_server_new(&config);
    struct error err = ERROR_INIT;
    assert_int_equal(http_server_listen_tcp(seen.server, "127.0.0.1", 0, &seen.port, &err), 0);
}

static int setup(void **state)
{
    world_setup(state);
    start_with((struct http_server_limits){0});
    return 0;
}

static int teardown(void **state)
{
    seen.server = http_server_free(seen.server);
    buf_done(&seen.body);
    return world_teardown(state);
}

/* The server with other limits than the default. */
static void restart(struct http_server_limits limits)
{
    http_server_free(seen.server);
    buf_done(&seen.body);
    turn_loop(3);
    start_with(limits);
}

static struct peer *dial(void)
{
    return peer_connect(seen.port);
}

static bool ends_with(const struct peer *peer, const char *text)
{
    size_t length = strlen(text);
    return peer->in.length >= length &&
           memcmp(peer->in.data + peer->in.length - length, text, length) == 0;
}

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
    assert_true(ends_with(peer, "\r\n\r\n5\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\n\r\n"));
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
    AUTO_FREE char *name = make_pattern(70000);
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\nX: ");
    peer_send_bytes(peer, name, 70000);
    peer_expect(peer, "HTTP/1.1 431 ");
    WAIT(peer->eof); /* and not a reset, though much was unread */
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
    peer_send(peer, "POST /pausing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    for (size_t i = 1; i <= 2; i++) {
        WAIT(seen.body.length == i);
        assert_true(seen.paused);
        turn_loop(5);
        assert_int_equal(seen.body.length, i);
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

/* --- tests: ends ------------------------------------------------------------------------------ */

static void test_wrong_length(void **state)
{
    (void)state;
    static const char *const paths[] = {"/short", "/long"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct peer *peer = dial();
        AUTO_FREE char *request = mem_printf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", paths[i]);
        peer_send(peer, request);
        WAIT(seen.closes == (int)i + 1);
        peer_expect_end(peer);
        peer_close(peer);
    }
    assert_int_equal(seen.completed, 0);
}

static void test_disconnect_while_streaming(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "\r\n\r\n"); /* the head goes out although nothing was written */
    http_exchange_write(seen.held, "one", 3);
    peer_expect(peer, "3\r\none\r\n");
    peer_close(peer); /* the answer is quiet now */
    WAIT(seen.closes == 1);
    assert_int_equal(seen.completed, 0);
    assert_null(seen.held);

    peer = dial();
    peer_send(peer, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "\r\n\r\n");
    peer_reset(peer);
    WAIT(seen.closes == 2);
    assert_int_equal(seen.completed, 0);
}

/* A client that half-closes still gets an answer that is there already. */
static void test_half_close(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct peer *peer = dial();
    peer_pause(peer, true);
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.held != NULL);
    http_exchange_reply(seen.held, 200, NULL, bytes, BIG);
    peer_end(peer);
    turn_loop(5);
    assert_int_equal(seen.closes, 0);
    peer_pause(peer, false);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.completed, 1);
    peer_expect_end(peer);
    assert_true(peer->in.length > BIG);
    peer_close(peer);
}

static void test_abort_and_late_answers(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.held != NULL);
    http_exchange_abort(seen.held);
    http_exchange_reply(seen.held, 200, NULL, "late", 4);
    assert_int_equal(seen.closes, 0);
    peer_expect_end(peer);
    assert_int_equal(peer->in.length, 0);
    assert_int_equal(seen.closes, 1);
    assert_int_equal(seen.completed, 0);
    peer_close(peer);
}

static void test_free_with_open_exchanges(void **state)
{
    (void)state;
    struct peer *peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = dial();
        peer_send(peers[i], i == 0 ? "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"
                                   : "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
        WAIT(seen.requests == i + 1);
    }
    seen.server = http_server_free(seen.server);
    assert_int_equal(seen.closes, 3);
    assert_int_equal(seen.completed, 0);
    for (int i = 0; i < 3; i++) {
        peer_expect_end(peers[i]);
        peer_close(peers[i]);
    }
}

static void test_free_inside_callbacks(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "POST /free-in-data HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab");
    WAIT(seen.server == NULL);
    assert_int_equal(seen.closes, 1);
    peer_expect_end(peer);
    peer_close(peer);

    restart((struct http_server_limits){0});
    peer = dial();
    seen.free_server_in_close = true;
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\nGET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect_end(peer);
    assert_int_equal(seen.requests, 1);
    assert_int_equal(peer_count(peer, "pong"), 1);
    peer_close(peer);
}

/* --- tests: limits ---------------------------------------------------------------------------- */

static void test_head_timeout(void **state)
{
    (void)state;
    restart((struct http_server_limits){.head_timeout_ms = 100});
    struct peer *idle = dial();
    struct peer *slow = dial();
    peer_send(slow, "GET /pong HTTP/1.1\r\nHost:");
    WAIT(slow->eof);
    assert_true(peer_has(slow, "HTTP/1.1 408 "));
    assert_false(idle->eof); /* has sent nothing: another limit */
    peer_close(slow);
    peer_close(idle);
}

static void test_idle_timeout(void **state)
{
    (void)state;
    restart((struct http_server_limits){.idle_timeout_ms = 100});
    struct peer *peer = dial();
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    struct peer *quiet = dial();
    peer_send(quiet, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(peer->eof);
    assert_true(ends_with(peer, "pong")); /* nothing but the answer */
    assert_false(quiet->eof);             /* at work, however quiet */
    peer_close(peer);
    peer_close(quiet);
    WAIT(http_server_connection_count(seen.server) == 0);
}

static void test_stall_timeout(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    restart((struct http_server_limits){.stall_timeout_ms = 100});
    seen.big = bytes;
    /* A body that was asked for and does not come. */
    struct peer *body = dial();
    peer_send(body, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    WAIT(body->eof);
    assert_true(peer_has(body, "HTTP/1.1 408 "));
    peer_close(body);
    /* An answer that nobody reads. */
    struct peer *answer = dial();
    peer_pause(answer, true);
    seen.closes = 0;
    peer_send(answer, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.closes == 1);
    assert_int_equal(seen.completed, 1); /* the 408 above only */
    peer_close(answer);
    /* Neither a quiet answer nor a body nobody asked for is a stall. */
    struct peer *quiet = dial();
    struct peer *unasked = dial();
    peer_send(quiet, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_send(unasked, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    seen.closes = 0;
    pass_time(400);
    assert_int_equal(seen.closes, 0);
    assert_int_equal(http_server_connection_count(seen.server), 2);
    peer_close(quiet);
    peer_close(unasked);
}

static void test_connection_limit(void **state)
{
    (void)state;
    restart((struct http_server_limits){.connections = 2});
    struct peer *a = dial();
    struct peer *b = dial();
    WAIT(http_server_connection_count(seen.server) == 2);
    struct peer *c = dial();
    peer_expect_end(c);
    peer_send(a, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(a, "pong");
    peer_close(b);
    WAIT(http_server_connection_count(seen.server) == 1);
    struct peer *d = dial();
    peer_send(d, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(d, "pong");
    peer_close(a);
    peer_close(c);
    peer_close(d);
}

/* Without descriptors, new connections are dropped and the old ones go on. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    struct peer *old = dial();
    peer_send(old, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(old, "pong");
    struct peer *fresh = dial();
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)fresh->fd + 1;
    /* Fill the gaps below, too. */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int fill[64];
    size_t filled = 0;
    while (filled < ARRAY_LEN(fill) && (fill[filled] = dup(2)) >= 0)
        filled++;
    peer_expect_end(fresh);
    peer_send(old, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(peer_count(old, "pong") == 2);
    while (filled > 0)
        close(fill[--filled]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    peer_close(fresh);
    peer_close(old);
}

/* An idle server does not keep waking the loop: with nothing else to do, the loop blocks. */
static void test_no_wakeups(void **state)
{
    (void)state;
    struct peer *peer = dial();
    peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\n\r\n");
    peer_expect(peer, "pong");
    peer_close(peer);
    WAIT(http_server_connection_count(seen.server) == 0);
    turn_loop(5);
    uv_timer_stop(&guard);
    /* -1: for ever. A pending task or an armed timer would give a number. */
    pass_time(1);
    assert_true(uv_backend_timeout(&loop) > 1000 || uv_backend_timeout(&loop) == -1);
}

/* --- tests: upgrades -------------------------------------------------------------------------- */

static struct http_stream *taken;
static struct buf taken_in;

static void on_taken_data(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    buf_add(&taken_in, bytes, length);
}

static void on_taken_end(void *ctx)
{
    (void)ctx;
}

static void on_taken_drain(void *ctx)
{
    (void)ctx;
}

static void on_taken_error(void *ctx, int status)
{
    (void)ctx;
    (void)status;
}

static const struct http_stream_events taken_events = {.on_data = on_taken_data,
                                                       .on_end = on_taken_end,
                                                       .on_drain = on_taken_drain,
                                                       .on_error = on_taken_error};

static void take(struct http_exchange *exchange)
{
    const char *rest;
    size_t length;
    taken = http_exchange_take_stream(exchange, &rest, &length);
    assert_non_null(taken);
    buf_add(&taken_in, rest, length);
    http_stream_set_events(taken, &taken_events, NULL);
    http_stream_read_start(taken);
}

static void test_take_stream(void **state)
{
    (void)state;
    buf_init(&taken_in, 1000);
    struct peer *peer = dial();
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n"
                    "early");
    WAIT(seen.held != NULL);
    take(seen.held);
    assert_int_equal(seen.closes, 0);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.completed, 1);
    assert_int_equal(http_server_connection_count(seen.server), 0);
    http_stream_write(taken, "raw bytes", 9);
    peer_expect(peer, "raw bytes");
    peer_send(peer, " late");
    WAIT(taken_in.length == 10);
    assert_string_equal(taken_in.data, "early late");
    http_stream_close(taken);
    peer_expect_end(peer);
    assert_int_equal(peer->in.length, 9);
    buf_done(&taken_in);
    peer_close(peer);
}

/* Upgrades may be ignored, and are HTTP then. */
static void test_upgrade_ignored(void **state)
{
    (void)state;
    struct peer *peer = dial();
    for (size_t i = 1; i <= 2; i++) {
        peer_send(peer, "GET /pong HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
                        "Upgrade: h2c\r\n\r\n");
        WAIT(peer_count(peer, "pong") == i);
    }
    const char *rest;
    size_t length;
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.held != NULL);
    assert_null(http_exchange_take_stream(seen.held, &rest, &length)); /* did not ask */
    peer_close(peer);
    WAIT(seen.closes == 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keep_alive),
        TEST(test_connection_close),
        TEST(test_unix_listener),
        TEST(test_listen_errors),
        TEST(test_pipelining),
        TEST(test_pipelining_is_bounded),
        TEST(test_chunked_both_ways),
        TEST(test_http_1_0),
        TEST(test_no_body_answers),
        TEST(test_headers_and_errors),
        TEST(test_refusals),
        TEST(test_collect),
        TEST(test_collect_too_large),
        TEST(test_pause_and_resume),
        TEST(test_big_upload),
        TEST(test_big_download),
        TEST(test_expect_continue),
        TEST(test_unread_body),
        TEST(test_wrong_length),
        TEST(test_disconnect_while_streaming),
        TEST(test_half_close),
        TEST(test_abort_and_late_answers),
        TEST(test_free_with_open_exchanges),
        TEST(test_free_inside_callbacks),
        TEST(test_head_timeout),
        TEST(test_idle_timeout),
        TEST(test_stall_timeout),
        TEST(test_connection_limit),
        TEST(test_out_of_descriptors),
        TEST(test_no_wakeups),
        TEST(test_take_stream),
        TEST(test_upgrade_ignored),
    };
    return cmocka_run_group_tests_name("http/server", tests, NULL, NULL);
}
