/* A server whose handlers do what the path says, and note what they saw: for the tests of the
 * server, which talk to it byte by byte. */
#pragma once

#include "peer.h"

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

static inline void on_close(struct http_exchange *exchange, bool completed, void *ctx)
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

static inline void on_collected(struct http_exchange *exchange, const char *body, size_t length,
                                void *ctx)
{
    (void)ctx;
    assert_false(seen.inside);
    assert_int_equal(body[length], '\0');
    seen.collected++;
    http_exchange_reply(exchange, 200, "text/plain", body, length);
}

static inline void on_body_data(struct http_exchange *exchange, const char *bytes, size_t length,
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

static inline void on_body_end(struct http_exchange *exchange, void *ctx)
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

static inline void send_more(struct http_exchange *exchange, void *ctx)
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

static inline void handle(struct http_exchange *exchange, const char *path)
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

static inline void on_request(struct http_exchange *exchange, void *ctx)
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

static inline void start_with(struct http_server_limits limits)
{
    memset(&seen, 0, sizeof(seen));
    buf_init(&seen.body, PEER_MAX);
    struct http_server_config config = {
        .loop = &loop, .on_request = on_request, .ctx = &seen, .limits = limits};
    seen.server = http_server_new(&config);
    struct error err = ERROR_INIT;
    assert_int_equal(http_server_listen_tcp(seen.server, "127.0.0.1", 0, &seen.port, &err), 0);
}

static inline int setup(void **state)
{
    world_setup(state);
    start_with((struct http_server_limits){0});
    return 0;
}

static inline int teardown(void **state)
{
    seen.server = http_server_free(seen.server);
    buf_done(&seen.body);
    return world_teardown(state);
}

/* The server with other limits than the default. */
static inline void restart(struct http_server_limits limits)
{
    http_server_free(seen.server);
    buf_done(&seen.body);
    turn_loop(3);
    start_with(limits);
}

static inline struct peer *dial(void)
{
    return peer_connect(seen.port);
}

static inline bool ends_with(const struct peer *peer, const char *text)
{
    size_t length = strlen(text);
    return peer->in.length >= length &&
           memcmp(peer->in.data + peer->in.length - length, text, length) == 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
