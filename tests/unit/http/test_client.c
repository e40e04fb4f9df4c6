/* Calls: requests and answers of every shape, pausing, cancelling, failing. */
#include "client_fixture.h"

static void test_get_and_reuse(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 3; i++) {
        struct result result;
        result_init(&result);
        start_get(&result);
        struct peer *peer = accepted(0);
        WAIT(peer_count(peer, REQUEST) == i);
        peer_send(peer, ANSWER);
        WAIT(result.dones == 1);
        assert_int_equal(result.heads, 1);
        assert_int_equal(result.status, 200);
        assert_string_equal(result.header, "yes");
        assert_string_equal(result.body.data, "ok");
        result_done(&result);
    }
    assert_int_equal(upstream->count, 1);
    assert_int_equal(accepted(0)->in.length, 3 * strlen(REQUEST));
}

/* Two at once need two connections; the next two find both in the pool. */
static void test_parallel(void **state)
{
    (void)state;
    for (int round = 1; round <= 2; round++) {
        struct result a, b;
        result_init(&a);
        result_init(&b);
        start_get(&a);
        start_get(&b);
        for (size_t i = 0; i < 2; i++) {
            struct peer *peer = accepted(i);
            WAIT(peer_count(peer, REQUEST) == (size_t)round);
            peer_send(peer, ANSWER);
        }
        WAIT(a.dones == 1 && b.dones == 1);
        result_done(&a);
        result_done(&b);
    }
    assert_int_equal(upstream->count, 2);
}

static void test_start_in_done(void **state)
{
    (void)state;
    struct result a, b;
    result_init(&a);
    result_init(&b);
    a.next = &b;
    start_get(&a);
    struct peer *peer = accepted(0);
    peer_expect(peer, REQUEST);
    peer_send(peer, ANSWER);
    WAIT(peer_count(peer, REQUEST) == 2);
    peer_send(peer, ANSWER);
    WAIT(b.dones == 1);
    assert_int_equal(upstream->count, 1);
    result_done(&a);
    result_done(&b);
}

static void test_framings(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *answer;
        const char *body;
        int status;
        bool end;    /* the server closes after it */
        bool reused; /* the connection can be used again */
    } cases[] = {
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
         "abcd", 200, false, true},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, false, true},
        {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", "", 304, false, true},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "", 200, false, true},
        {"GET",
         "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz",
         "z", 200, false, true},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end", 200, true, false},
        {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\ny", "y", 200,
         false, false},
        {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nw", "w", 200, false, false},
        /* Bytes after the answer: nobody may get those as the next answer. */
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nvHTTP/1.1 200", "v", 200, false,
         false},
    };
    size_t connections = 0;
    bool reused = false;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        connections += !reused;
        struct result result;
        result_init(&result);
        start_method(&result, cases[i].method);
        struct peer *peer = accepted(connections - 1);
        buf_clear(&peer->in);
        peer_expect(peer, "\r\n\r\n");
        assert_int_equal(upstream->count, connections);
        peer_send(peer, cases[i].answer);
        if (cases[i].end)
            peer_end(peer);
        WAIT(result.dones == 1);
        assert_int_equal(result.status, cases[i].status);
        assert_string_equal(result.body.data, cases[i].body);
        reused = cases[i].reused;
        if (!reused)
            peer_expect_end(peer);
        result_done(&result);
    }
}

static void test_upload(void **state)
{
    (void)state;
    struct result result;
    result_init(&result);
    start_post(&result, 10);
    http_call_write(result.call, "01234", 5);
    http_call_write(result.call, "56789", 5);
    http_call_end(result.call);
    struct peer *peer = accepted(0);
    peer_expect(peer, "0123456789");
    assert_string_equal(peer->in.data,
                        "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n"
                        "0123456789");
    peer_send(peer, ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);

    buf_clear(&peer->in);
    result_init(&result);
    start_post(&result, -1);
    peer_expect(peer, "\r\n\r\n"); /* the head does not wait for the body for ever */
    http_call_write(result.call, "hello", 5);
    http_call_end(result.call);
    peer_expect(peer, "0\r\n\r\n");
    assert_string_equal(peer->in.data, "POST /x HTTP/1.1\r\nHost: test\r\n"
                                       "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    peer_send(peer, ANSWER);
    WAIT(result.dones == 1);
    assert_int_equal(upstream->count, 1);
    result_done(&result);
}

static void test_big_upload_slow_reader(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct result result;
    result_init(&result);
    start_post(&result, BIG);
    struct peer *peer = NULL;
    size_t sent = 0;
    int waits = 0;
    while (sent < BIG) {
        while (sent < BIG && !http_call_is_full(result.call)) {
            http_call_write(result.call, bytes + sent, 65536);
            sent += 65536;
        }
        assert_true(http_stream_queued(result.call->connection->stream) <=
                    HTTP_STREAM_HIGH_BYTES + 70000);
        int drains = result.drains;
        if (peer == NULL) { /* full even before it is connected */
            assert_true(sent < BIG);
            peer = accepted(0);
        }
        if (sent < BIG) {
            WAIT(result.drains > drains);
            waits++;
        }
    }
    assert_true(waits > 1);
    http_call_end(result.call);
    WAIT(peer->in.length > BIG);
    WAIT(peer->in.length - (size_t)(strstr(peer->in.data, "\r\n\r\n") + 4 - peer->in.data) == BIG);
    const char *body = strstr(peer->in.data, "\r\n\r\n") + 4;
    assert_memory_equal(body, bytes, BIG);
    peer_send(peer, ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);
}

static void test_wrong_length(void **state)
{
    (void)state;
    struct result result;
    result_init(&result);
    start_post(&result, 3);
    result.inside = true;
    http_call_write(result.call, "12345", 5);
    result.inside = false;
    WAIT(result.errors == 1);
    assert_int_equal(result.code, ERR_INVALID);
    result_done(&result);

    result_init(&result);
    start_post(&result, 3);
    http_call_write(result.call, "1", 1);
    http_call_end(result.call);
    WAIT(result.errors == 1);
    result_done(&result);
}

static void test_pause(void **state)
{
    (void)state;
    struct result result;
    result_init(&result);
    result.pause_in_body = true;
    start_get(&result);
    struct peer *peer = accepted(0);
    char answer[4096]; /* chunks that are large enough to be pieces of their own */
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
             "300\r\n%0768d\r\n300\r\n%0768d\r\n300\r\n%0768d\r\n0\r\n\r\n",
             1, 2, 3);
    peer_send(peer, answer);
    for (size_t i = 1; i <= 3; i++) {
        WAIT(result.body.length == i * 768);
        turn_loop(5);
        assert_int_equal(result.body.length, i * 768);
        assert_int_equal(result.dones, 0);
        result.inside = true;
        http_call_resume(result.call);
        result.inside = false;
    }
    WAIT(result.dones == 1);
    assert_int_equal(result.body.data[1535], '2');
    result_done(&result);
}

/* While paused, the server is not read: it feels the back-pressure. */
static void test_pause_bounds_memory(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct result result;
    result_init(&result);
    result.pause_in_body = true;
    start_get(&result);
    struct peer *peer = accepted(0);
    peer_send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
    peer_send_bytes(peer, bytes, BIG);
    WAIT(result.body.length > 0);
    turn_loop(50);
    assert_true(result.body.length <= 65536);
    assert_true(peer->out.length > 0);
    result.pause_in_body = false;
    http_call_resume(result.call);
    WAIT(result.dones == 1);
    assert_int_equal(result.body.length, BIG);
    assert_memory_equal(result.body.data, bytes, BIG);
    result_done(&result);
}

static void test_cancel(void **state)
{
    (void)state;
    struct result result;
    result_init(&result);
    start_get(&result); /* while connecting */
    http_call_cancel(TAKE_PTR(result.call));
    turn_loop(10);

    start_get(&result); /* while waiting */
    WAIT(upstream->count >= 1 && peer_has(upstream->accepted[upstream->count - 1], REQUEST));
    struct peer *peer = upstream->accepted[upstream->count - 1];
    http_call_cancel(TAKE_PTR(result.call));
    peer_expect_end(peer); /* not given to anybody else */

    size_t before = upstream->count;
    result.cancel_in_head = true;
    start_get(&result);
    peer = accepted(before);
    peer_send(peer, ANSWER);
    WAIT(result.heads == 1);
    peer_expect_end(peer);
    assert_int_equal(result.body.length, 0);

    result.cancel_in_head = false;
    result.cancel_in_body = true;
    start_get(&result);
    peer = accepted(before + 1);
    peer_send(peer, ANSWER);
    WAIT(result.body.length == 2);
    peer_expect_end(peer);
    turn_loop(10);
    assert_int_equal(result.dones + result.errors, 0);
    http_call_cancel(NULL);
    result_done(&result);
}

static void test_free_in_callback(void **state)
{
    (void)state;
    struct result result;
    result_init(&result);
    result.free_in_body = true;
    start_get(&result);
    peer_send(accepted(0), ANSWER);
    WAIT(client == NULL);
    result.call = NULL;
    assert_int_equal(result.dones + result.errors, 0);
    result_done(&result);
}

static void test_refused(void **state)
{
    (void)state;
    struct listener *other = listen_tcp();
    int port = other->port;
    listener_close(other);
    struct http_head head;
    head_of(&head, "GET", "/");
    struct http_call_options options = {.address = address_of(port), .head = &head};
    struct result result;
    result_init(&result);
    start(&result, &options);
    WAIT(result.errors == 1);
    /* No such socket: known at once, told later. */
    assert_int_equal(http_address_unix(&options.address, "/nonexistent/socket"), 0);
    start(&result, &options);
    WAIT(result.errors == 2);
    /* A head that cannot be written. */
    free(head.target);
    head.target = mem_dup("/a b");
    start(&result, &options);
    WAIT(result.errors == 3);
    assert_int_equal(result.code, ERR_INVALID);
    http_head_done(&head);
    result_done(&result);
}

static void test_bad_answers(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "",
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct result result;
        result_init(&result);
        start_get(&result);
        struct peer *peer = accepted(i);
        peer_expect(peer, REQUEST);
        peer_send(peer, answers[i]);
        peer_end(peer);
        WAIT(result.errors == 1);
        assert_int_equal(result.dones, 0);
        peer_expect_end(peer);
        result_done(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_get_and_reuse),
        TEST(test_parallel),
        TEST(test_start_in_done),
        TEST(test_framings),
        TEST(test_upload),
        TEST(test_big_upload_slow_reader),
        TEST(test_wrong_length),
        TEST(test_pause),
        TEST(test_pause_bounds_memory),
        TEST(test_cancel),
        TEST(test_free_in_callback),
        TEST(test_refused),
        TEST(test_bad_answers),
    };
    return cmocka_run_group_tests_name("http/client", tests, NULL, NULL);
}
