/* The server's WebSocket over real sockets: what the frames themselves may be is tested in
 * test_websocket_frame.c. */
#include "peer.h"

#include "http/websocket.h"

static struct {
    struct http_server *server;
    int port;
    struct http_websocket_limits limits;
    struct http_websocket *socket; /* NULL after on_close */
    struct buf messages;           /* "text hello|binary x|" */
    int message_count;
    int closes;
    int code;
    int drains;
    bool inside;
    bool pause_each;      /* pause at each message */
    const char *close_at; /* close when this message comes */
} seen;

static void on_message(void *ctx, bool text, const char *bytes, size_t length)
{
    assert_ptr_equal(ctx, &seen);
    assert_false(seen.inside);
    assert_non_null(seen.socket);
    assert_int_equal(bytes[length], '\0');
    seen.message_count++;
    buf_printf(&seen.messages, "%s ", text ? "text" : "binary");
    buf_add(&seen.messages, bytes, length);
    buf_add_char(&seen.messages, '|');
    seen.inside = true;
    if (seen.pause_each)
        http_websocket_pause(seen.socket);
    if (seen.close_at != NULL && strcmp(seen.close_at, bytes) == 0)
        http_websocket_close(seen.socket, 4000, "enough");
    seen.inside = false;
}

static void on_drain(void *ctx)
{
    (void)ctx;
    assert_false(seen.inside);
    seen.drains++;
}

static void on_close(void *ctx, int code)
{
    (void)ctx;
    assert_false(seen.inside);
    seen.closes++;
    seen.code = code;
    seen.socket = NULL;
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    static const struct http_websocket_events events = {on_message, on_drain, on_close};
    (void)ctx;
    seen.inside = true;
    if (http_websocket_check(exchange))
        seen.socket = http_websocket_start(exchange, &seen.limits, &events, &seen);
    seen.inside = false;
}

static int setup(void **state)
{
    world_setup(state);
    memset(&seen, 0, sizeof(seen));
    buf_init(&seen.messages, PEER_MAX);
    struct http_server_config config = {.loop = &loop, .on_request = on_request};
    seen.server = http_server_new(&config);
    assert_int_equal(http_server_listen_tcp(seen.server, "127.0.0.1", 0, &seen.port, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    buf_done(&seen.messages);
    http_server_free(seen.server);
    return world_teardown(state);
}

#define REQUEST                                                        \
    "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n" \
    "Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"              \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

/* Connected, and the answer's head forgotten. */
static struct peer *dial(void)
{
    struct peer *peer = peer_connect(seen.port);
    peer_send(peer, REQUEST "\r\n");
    peer_expect(peer, "\r\n\r\n");
    assert_true(peer_has(peer, "HTTP/1.1 101 "));
    /* The example of RFC 6455. */
    assert_true(peer_has(peer, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    buf_clear(&peer->in);
    return peer;
}

static void send_frame(struct peer *peer, int opcode, const char *payload, size_t length)
{
    uint8_t head[HTTP_WEBSOCKET_HEAD_MAX];
    size_t head_length =
        http_websocket_write_head((enum http_websocket_opcode)opcode, length, head);
    head[1] |= 0x80;
    peer_send_bytes(peer, head, head_length);
    peer_send_bytes(peer, "\0\0\0\0", 4);
    peer_send_bytes(peer, payload, length);
}

static void send_text(struct peer *peer, const char *text)
{
    send_frame(peer, HTTP_WEBSOCKET_TEXT, text, strlen(text));
}

static bool is_at_end(const struct peer *peer, const char *bytes, size_t length)
{
    return peer->in.length >= length &&
           memcmp(peer->in.data + peer->in.length - length, bytes, length) == 0;
}

#define HAS_CLOSE(peer, bytes) is_at_end(peer, bytes, sizeof(bytes) - 1)

/* --- messages --------------------------------------------------------------------------------- */

static void test_both_ways(void **state)
{
    (void)state;
    struct peer *peer = dial();
    send_text(peer, "hello");
    send_frame(peer, HTTP_WEBSOCKET_BINARY, "", 0);
    WAIT(seen.message_count == 2);
    assert_string_equal(seen.messages.data, "text hello|binary |");
    uv_buf_t parts[] = {uv_buf_init((char[]){"ab"}, 2), uv_buf_init((char[]){""}, 0),
                        uv_buf_init((char[]){"c"}, 1)};
    http_websocket_send_binary(seen.socket, parts, ARRAY_LEN(parts));
    http_websocket_send_text(seen.socket, "text", 4);
    WAIT(is_at_end(peer,
                   "\x82\x03"
                   "abc\x81\x04text",
                   11));
    /* The peer closes; its code comes back. */
    send_frame(peer, HTTP_WEBSOCKET_CLOSE, "\x0f\xa1you", 5);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, 4001);
    peer_expect_end(peer);
    assert_true(HAS_CLOSE(peer, "\x88\x02\x0f\xa1"));
    peer_close(peer);
}

static void test_frames_behind_the_request(void **state)
{
    (void)state;
    struct peer *peer = peer_connect(seen.port);
    peer_send_bytes(peer, REQUEST "\r\n\x81\x81\0\0\0\0a\x88\x80\0\0\0\0",
                    strlen(REQUEST) + 2 + 7 + 6);
    WAIT(seen.closes == 1);
    assert_string_equal(seen.messages.data, "text a|");
    assert_int_equal(seen.code, HTTP_WEBSOCKET_NO_CODE);
    peer_expect_end(peer);
    assert_true(HAS_CLOSE(peer, "\r\n\r\n\x88\x00"));
    peer_close(peer);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        const char *status;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", " 426 "},
        {REQUEST "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", " 400 "},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: Upgrade\r\n"
         "Upgrade: websocket\r\n\r\n",
         " 400 "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct peer *peer = peer_connect(seen.port);
        peer_send(peer, cases[i].request);
        peer_expect(peer, cases[i].status);
        peer_close(peer);
    }
    assert_null(seen.socket);
}

/* --- pausing ---------------------------------------------------------------------------------- */

static void test_pause(void **state)
{
    (void)state;
    seen.pause_each = true;
    seen.limits.silence_ms = 50; /* time spent paused is no silence */
    struct peer *peer = dial();
    for (int i = 0; i < 3; i++)
        send_text(peer, "x");
    for (int i = 1; i <= 3; i++) {
        pass_time(80);
        assert_int_equal(seen.message_count, i);
        assert_int_equal(seen.closes, 0);
        seen.inside = true;
        http_websocket_resume(seen.socket);
        seen.inside = false;
    }
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, HTTP_WEBSOCKET_NO_CLOSE);
    peer_expect_end(peer);
    peer_close(peer);
}

/* What a paused socket is sent stays with the peer. */
static void test_pause_stops_reading(void **state)
{
    (void)state;
    seen.pause_each = true;
    struct peer *peer = dial();
    AUTO_FREE char *big = make_pattern(60000);
    for (int i = 0; i < 500; i++)
        send_frame(peer, HTTP_WEBSOCKET_BINARY, big, 60000);
    WAIT(seen.message_count == 1);
    pass_time(100);
    assert_int_equal(seen.message_count, 1);
    assert_true(peer->out.length > 10 * 1000 * 1000);
    seen.pause_each = false;
    http_websocket_resume(seen.socket);
    WAIT(seen.message_count == 500);
    peer_close(peer);
    WAIT(seen.closes == 1);
}

/* --- closing ---------------------------------------------------------------------------------- */

static void test_we_close(void **state)
{
    (void)state;
    struct peer *peer = dial();
    seen.close_at = "stop";
    send_text(peer, "stop");
    send_text(peer, "dropped");
    WAIT(HAS_CLOSE(peer, "\x88\x08\x0f\xa0"
                         "enough"));
    http_websocket_send_text(seen.socket, "ignored", 7);
    http_websocket_close(seen.socket, 1000, "again");
    assert_int_equal(seen.closes, 0);
    send_text(peer, "dropped");
    send_frame(peer, HTTP_WEBSOCKET_CLOSE, "\x0f\xa0", 2);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, 4000);
    peer_expect_end(peer);
    assert_string_equal(seen.messages.data, "text stop|");
    assert_false(peer_has(peer, "ignored"));
    peer_close(peer);
}

/* A paused socket can be closed, and hears the peer's close behind what waits. */
static void test_close_while_paused(void **state)
{
    (void)state;
    seen.pause_each = true;
    struct peer *peer = dial();
    send_text(peer, "a");
    send_text(peer, "b");
    send_frame(peer, HTTP_WEBSOCKET_CLOSE, "\x03\xe8", 2);
    WAIT(seen.message_count == 1);
    http_websocket_close(seen.socket, 1001, "");
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, 1000);
    assert_int_equal(seen.message_count, 1);
    peer_expect_end(peer);
    peer_close(peer);
}

static void test_peer_does_not_answer_the_close(void **state)
{
    (void)state;
    seen.limits.close_ms = 50;
    struct peer *peer = dial();
    http_websocket_close(seen.socket, 1000, "bye");
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, HTTP_WEBSOCKET_NO_CLOSE);
    peer_expect_end(peer);
    peer_close(peer);
}

/* The time for the close begins when it is written, behind all that was sent before. */
static void test_slow_reader_gets_the_close(void **state)
{
    (void)state;
    seen.limits.close_ms = 200;
    struct peer *peer = dial();
    peer_pause(peer, true);
    size_t length = 8 * 1024 * 1024;
    AUTO_FREE char *big = make_pattern(length);
    http_websocket_send_text(seen.socket, big, length);
    assert_true(http_websocket_is_full(seen.socket));
    http_websocket_close(seen.socket, 1000, "bye");
    pass_time(400);
    assert_int_equal(seen.closes, 0);
    peer_pause(peer, false);
    WAIT(HAS_CLOSE(peer, "\x88\x05\x03\xe8"
                         "bye"));
    assert_int_equal(peer->in.length, length + 10 + 7);
    send_frame(peer, HTTP_WEBSOCKET_CLOSE, "\x03\xe8", 2);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, 1000);
    peer_expect_end(peer);
    peer_close(peer);
}

static void test_protocol_error(void **state)
{
    (void)state;
    struct peer *peer = dial();
    send_text(peer, "good");
    AUTO_FREE char *more = make_pattern(1024 * 1024);
    peer_send(peer, "\x81\x05hello");
    peer_send(peer, more);
    WAIT(seen.closes == 1); /* at once: the owner need not wait for the peer */
    assert_int_equal(seen.code, 1002);
    WAIT(peer->out.length == 0);
    peer_expect_end(peer);
    assert_true(peer->eof); /* not a reset, which might take the close frame with it */
    assert_false(peer->reset);
    assert_memory_equal(peer->in.data, "\x88\x1d\x03\xea", 4);
    peer_close(peer);
}

static void test_message_too_large(void **state)
{
    (void)state;
    seen.limits.message_bytes = 1000;
    struct peer *peer = dial();
    AUTO_FREE char *big = make_pattern(1001);
    send_frame(peer, HTTP_WEBSOCKET_TEXT, big, 1000);
    WAIT(seen.message_count == 1);
    send_frame(peer, HTTP_WEBSOCKET_TEXT, big, 1001);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, 1009);
    peer_expect_end(peer);
    peer_close(peer);
}

/* One that never goes away by itself is cut. */
static void test_lingering_ends(void **state)
{
    (void)state;
    seen.limits.close_ms = 50;
    struct peer *peer = dial();
    peer_send(peer, "\x81\x05");
    WAIT(seen.closes == 1);
    WAIT(peer->eof);
    pass_time(100);
    peer_send(peer, "x");
    pass_time(20);
    peer_send(peer, "x");
    WAIT(peer->reset);
    peer_close(peer);
}

static void test_broken_connections(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct peer *peer = dial();
        send_frame(peer, HTTP_WEBSOCKET_TEXT, "x", 1);
        WAIT(seen.message_count == i + 1);
        if (i == 0)
            peer_end(peer);
        else if (i == 1)
            peer_reset(peer);
        else
            peer_close(peer);
        WAIT(seen.closes == i + 1);
        assert_int_equal(seen.code, HTTP_WEBSOCKET_NO_CLOSE);
        if (i == 0) {
            peer_expect_end(peer);
            peer_close(peer);
        }
    }
}

/* --- keepalive -------------------------------------------------------------------------------- */

static void test_pings(void **state)
{
    (void)state;
    seen.limits.ping_ms = 20;
    seen.limits.silence_ms = 200;
    struct peer *peer = dial();
    for (int i = 0; i < 15; i++) { /* longer than the silence that is allowed */
        WAIT(peer->in.length >= 2);
        assert_memory_equal(peer->in.data, "\x89\x00", 2);
        buf_clear(&peer->in);
        send_frame(peer, HTTP_WEBSOCKET_PONG, "", 0);
    }
    assert_int_equal(seen.closes, 0);
    WAIT(seen.closes == 1); /* no more pongs */
    assert_int_equal(seen.code, HTTP_WEBSOCKET_NO_CLOSE);
    peer_expect_end(peer);
    peer_close(peer);
}

static void test_pongs(void **state)
{
    (void)state;
    struct peer *peer = dial();
    send_frame(peer, HTTP_WEBSOCKET_PING, "one", 3);
    send_frame(peer, HTTP_WEBSOCKET_PING, "", 0);
    WAIT(is_at_end(peer, "\x8a\x03one\x8a\x00", 7));
    /* While the output is full only the last one is kept, and answered after it. */
    peer_pause(peer, true);
    size_t length = 8 * 1024 * 1024;
    AUTO_FREE char *big = make_pattern(length);
    http_websocket_send_text(seen.socket, big, length);
    buf_clear(&peer->in);
    for (int i = 0; i < 1000; i++)
        send_frame(peer, HTTP_WEBSOCKET_PING, "two", 3);
    send_frame(peer, HTTP_WEBSOCKET_PING, "three", 5);
    send_text(peer, "behind them");
    WAIT(seen.message_count == 1);
    peer_pause(peer, false);
    WAIT(is_at_end(peer, "\x8a\x05three", 7));
    assert_int_equal(peer->in.length, length + 10 + 7);
    assert_true(seen.drains > 0);
    peer_close(peer);
    WAIT(seen.closes == 1);
}

static void test_stall(void **state)
{
    (void)state;
    seen.limits.stall_ms = 100;
    struct peer *peer = dial();
    peer_pause(peer, true);
    size_t length = 8 * 1024 * 1024;
    AUTO_FREE char *big = make_pattern(length);
    http_websocket_send_text(seen.socket, big, length);
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, HTTP_WEBSOCKET_NO_CLOSE);
    peer_pause(peer, false);
    peer_expect_end(peer);
    assert_true(peer->in.length < length);
    peer_close(peer);
}

/* Bad text: not one byte of the message is given on. */
static void test_bad_text(void **state)
{
    (void)state;
    struct peer *peer = dial();
    send_text(peer, "\xc3(");
    WAIT(seen.closes == 1);
    assert_int_equal(seen.code, 1007);
    assert_int_equal(seen.message_count, 0);
    peer_expect_end(peer);
    peer_close(peer);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_both_ways),
        TEST(test_frames_behind_the_request),
        TEST(test_refusals),
        TEST(test_pause),
        TEST(test_pause_stops_reading),
        TEST(test_we_close),
        TEST(test_close_while_paused),
        TEST(test_peer_does_not_answer_the_close),
        TEST(test_slow_reader_gets_the_close),
        TEST(test_protocol_error),
        TEST(test_message_too_large),
        TEST(test_lingering_ends),
        TEST(test_broken_connections),
        TEST(test_pings),
        TEST(test_pongs),
        TEST(test_stall),
        TEST(test_bad_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
