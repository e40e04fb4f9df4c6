#include "peer.h"

#include "http/stream.h"

struct log {
    struct http_stream *stream;
    int connects, ends, drains, errors;
    int status;
    struct buf in;
    bool close_in_data;
    bool inside; /* set around calls, to see that none calls back */
};

static void on_connect(void *ctx)
{
    struct log *log = ctx;
    assert_false(log->inside);
    log->connects++;
}

static void on_data(void *ctx, const char *bytes, size_t length)
{
    struct log *log = ctx;
    assert_false(log->inside);
    assert_non_null(log->stream); /* nothing after close */
    buf_add(&log->in, bytes, length);
    if (log->close_in_data)
        http_stream_close(TAKE_PTR(log->stream));
}

static void on_end(void *ctx)
{
    struct log *log = ctx;
    assert_non_null(log->stream);
    log->ends++;
}

static void on_drain(void *ctx)
{
    struct log *log = ctx;
    assert_false(log->inside);
    log->drains++;
}

static void on_error(void *ctx, int status)
{
    struct log *log = ctx;
    assert_false(log->inside);
    log->errors++;
    log->status = status;
}

static const struct http_stream_events events = {
    .on_connect = on_connect,
    .on_data = on_data,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_error = on_error,
};

static void log_init(struct log *log)
{
    *log = (struct log){0};
    buf_init(&log->in, PEER_MAX);
}

static void log_done(struct log *log)
{
    http_stream_close(log->stream);
    buf_done(&log->in);
}

/* A stream connected to a raw peer. */
static struct peer *join(struct log *log, struct listener *listener)
{
    struct http_address address;
    log_init(log);
    assert_int_equal(http_address_tcp(&address, "127.0.0.1", listener->port), 0);
    size_t before = listener->count;
    log->inside = true;
    log->stream = http_stream_connect(&loop, &address, &events, log, NULL);
    log->inside = false;
    assert_non_null(log->stream);
    WAIT(log->connects == 1 && listener->count == before + 1);
    return listener->accepted[before];
}

static void write_bytes(struct log *log, const void *bytes, size_t length)
{
    log->inside = true;
    http_stream_write(log->stream, bytes, length);
    log->inside = false;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_addresses(void **state)
{
    (void)state;
    struct http_address address;
    assert_int_equal(http_address_tcp(&address, "127.0.0.1", 80), 0);
    assert_int_equal(address.tcp.ss_family, AF_INET);
    assert_int_equal(http_address_tcp(&address, "::1", 80), 0);
    assert_int_equal(address.tcp.ss_family, AF_INET6);
    assert_int_equal(http_address_tcp(&address, "localhost", 80), -EINVAL);
    assert_int_equal(http_address_tcp(&address, "127.0.0.1", 0), -EINVAL);
    assert_int_equal(http_address_tcp(&address, "127.0.0.1", 65536), -EINVAL);
    char path[200];
    memset(path, 'x', sizeof(path));
    path[107] = '\0';
    assert_int_equal(http_address_unix(&address, path), 0);
    path[107] = 'x';
    path[108] = '\0';
    assert_int_equal(http_address_unix(&address, path), -ENAMETOOLONG);
}

static void test_both_ways(void **state)
{
    (void)state;
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    assert_string_equal(http_stream_peer(log.stream), "127.0.0.1");
    http_stream_read_start(log.stream);
    peer_send(peer, "hello");
    WAIT(log.in.length == 5);
    char word[] = "world";
    uv_buf_t parts[] = {uv_buf_init(word, 3), uv_buf_init(word, 0), uv_buf_init(word + 3, 2)};
    http_stream_write_parts(log.stream, parts, 3);
    assert_int_equal(http_stream_queued(log.stream), 0); /* written at once */
    peer_expect(peer, "world");
    peer_end(peer);
    WAIT(log.ends == 1);
    http_stream_shutdown(log.stream);
    peer_expect_end(peer);
    assert_true(peer->eof);
    assert_int_equal(log.errors, 0);
    log_done(&log);
    listener_close(listener);
}

static void test_unix_and_early_write(void **state)
{
    (void)state;
    char dir[] = "/tmp/stream-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = mem_printf("%s/socket", dir);
    struct listener *listener = listener_of_fd(bind_unix(path));
    struct http_address address;
    assert_int_equal(http_address_unix(&address, path), 0);
    struct log log;
    log_init(&log);
    log.stream = http_stream_connect(&loop, &address, &events, &log, NULL);
    assert_string_equal(http_stream_peer(log.stream), "unix");
    write_bytes(&log, "early", 5); /* before it is connected */
    http_stream_shutdown(log.stream);
    WAIT(listener->count == 1);
    peer_expect_end(listener->accepted[0]);
    assert_string_equal(listener->accepted[0]->in.data, "early");
    assert_int_equal(log.connects, 1);
    log_done(&log);
    listener_close(listener);
    unlink(path);
    rmdir(dir);
}

static void test_connect_refused(void **state)
{
    (void)state;
    struct listener *listener = listen_tcp();
    int port = listener->port;
    listener_close(listener);
    struct http_address address;
    http_address_tcp(&address, "127.0.0.1", port);
    struct log log;
    log_init(&log);
    log.inside = true;
    log.stream = http_stream_connect(&loop, &address, &events, &log, NULL);
    log.inside = false;
    assert_non_null(log.stream);
    WAIT(log.errors == 1);
    assert_int_equal(log.status, UV_ECONNREFUSED);
    assert_int_equal(log.connects, 0);
    log_done(&log);
}

#define BIG (8 * 1024 * 1024)

static void test_slow_reader(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    peer_pause(peer, true);
    size_t sent = 0, most = 0;
    int waits = 0;
    while (sent < BIG) {
        while (sent < BIG && !http_stream_is_full(log.stream)) {
            size_t part = MIN((size_t)10000, BIG - sent);
            write_bytes(&log, bytes + sent, part);
            sent += part;
        }
        most = MAX(most, http_stream_queued(log.stream));
        if (sent == BIG)
            break;
        int before = log.drains;
        turn_loop(3);
        assert_int_equal(log.drains, before); /* nobody reads: no room */
        peer_pause(peer, false);
        WAIT(log.drains > before);
        assert_true(http_stream_queued(log.stream) <= HTTP_STREAM_LOW_BYTES);
        peer_pause(peer, true);
        waits++;
    }
    assert_true(waits > 0);
    assert_true(most <= HTTP_STREAM_HIGH_BYTES + 10000);
    http_stream_shutdown(log.stream);
    peer_pause(peer, false);
    peer_expect_end(peer);
    assert_int_equal(peer->in.length, BIG);
    assert_memory_equal(peer->in.data, bytes, BIG);
    log_done(&log);
    listener_close(listener);
}

static void test_close_after_write(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    peer_pause(peer, true);
    write_bytes(&log, bytes, BIG);
    assert_true(http_stream_queued(log.stream) > 0);
    http_stream_close_after_write(TAKE_PTR(log.stream));
    peer_pause(peer, false);
    peer_expect_end(peer);
    assert_true(peer->eof);
    assert_int_equal(peer->in.length, BIG);
    assert_memory_equal(peer->in.data, bytes, BIG);
    assert_int_equal(log.drains + log.errors + log.ends, 0);
    log_done(&log);
    listener_close(listener);
}

static void test_close_in_callback(void **state)
{
    (void)state;
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    log.close_in_data = true;
    http_stream_read_start(log.stream);
    peer_send(peer, "bye");
    WAIT(log.stream == NULL);
    peer_expect_end(peer);
    log_done(&log);
    listener_close(listener);
}

static void test_read_stop(void **state)
{
    (void)state;
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    http_stream_read_start(log.stream);
    http_stream_read_start(log.stream);
    http_stream_read_stop(log.stream);
    peer_send(peer, "later");
    turn_loop(5);
    assert_int_equal(log.in.length, 0);
    assert_false(http_stream_is_quiet(log.stream));
    http_stream_read_start(log.stream);
    WAIT(log.in.length == 5);
    assert_true(http_stream_is_quiet(log.stream));
    log_done(&log);
    listener_close(listener);
}

/* What the peer had sent before it reset the connection is still delivered. */
static void test_answer_before_reset(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    peer_pause(peer, true);
    write_bytes(&log, bytes, BIG);
    peer_send(peer, "too large");
    uv_poll_stop(&peer->poll);
    peer->fd = fd_close(peer->fd); /* with unread input: the kernel resets */
    http_stream_read_start(log.stream);
    WAIT(log.errors == 1);
    assert_memory_equal(log.in.data, "too large", 9);
    turn_loop(3);
    assert_int_equal(log.errors, 1);
    log_done(&log);
    listener_close(listener);
}

static void test_reset_without_reader(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    peer_pause(peer, true);
    write_bytes(&log, bytes, BIG);
    listener->accepted[0] = NULL;
    peer_reset(peer);
    WAIT(log.errors == 1);
    log_done(&log);
    listener_close(listener);
}

static void test_overflow(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct listener *listener = listen_tcp();
    struct log log;
    struct peer *peer = join(&log, listener);
    peer_pause(peer, true);
    for (int i = 0; i < 20; i++)
        write_bytes(&log, bytes, BIG);
    assert_true(http_stream_queued(log.stream) <= HTTP_STREAM_QUEUE_MAX);
    peer_pause(peer, false);
    WAIT(log.errors == 1);
    assert_int_equal(log.status, UV_ENOBUFS);
    log_done(&log);
    listener_close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test_setup_teardown(test_both_ways, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_unix_and_early_write, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_connect_refused, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_slow_reader, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_close_after_write, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_close_in_callback, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_read_stop, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_answer_before_reset, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_reset_without_reader, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_overflow, world_setup, world_teardown),
    };
    return cmocka_run_group_tests_name("http/stream", tests, NULL, NULL);
}
