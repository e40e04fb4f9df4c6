/* How exchanges and connections end, in order and out of it; limits; upgrades. */
#include "server_fixture.h"

#include <sys/resource.h>

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
    peer_send(peer, "POST /collect HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
                    "Upgrade: h2c\r\nContent-Length: 4\r\n\r\nbody");
    peer_expect(peer, "\r\n\r\nbody");
    const char *rest;
    size_t length;
    peer_send(peer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT(seen.held != NULL);
    assert_null(http_exchange_take_stream(seen.held, &rest, &length)); /* did not ask */
    peer_close(peer);
    WAIT(seen.closes == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    return cmocka_run_group_tests_name("http/server_life", tests, NULL, NULL);
}
