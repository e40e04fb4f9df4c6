#include "peer.h"

#include "http/client.h"
#include "http/client_internal.h"

#define BIG (8 * 1024 * 1024)

static struct http_client *client;
static struct listener *upstream;

/* What one call reported. */
struct result {
    struct http_call *call;
    int heads, dones, errors, drains, upgrades;
    int status;
    enum error_code code;
    struct buf body;
    char header[64]; /* X-Test */
    bool inside;
    bool cancel_in_head, cancel_in_body, pause_in_body, restart_in_done, free_in_body;
    struct result *next; /* started in on_done */
    struct http_stream *stream;
    struct buf rest;
};

static struct http_call *start_get(struct result *result);

static void on_head(struct http_call *call, const struct http_head *head, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    assert_ptr_equal(call, result->call);
    result->heads++;
    result->status = head->status;
    const char *value = http_headers_find(&head->headers, "X-Test");
    snprintf(result->header, sizeof(result->header), "%s", value != NULL ? value : "");
    if (result->cancel_in_head)
        http_call_cancel(TAKE_PTR(result->call));
}

static void on_body(struct http_call *call, const char *bytes, size_t length, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    assert_ptr_equal(call, result->call);
    buf_add(&result->body, bytes, length);
    if (result->pause_in_body)
        http_call_pause(call);
    if (result->cancel_in_body)
        http_call_cancel(TAKE_PTR(result->call));
    if (result->free_in_body)
        client = http_client_free(client);
}

static void on_done(struct http_call *call, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    assert_ptr_equal(call, result->call);
    result->call = NULL;
    result->dones++;
    if (result->next != NULL)
        start_get(result->next);
}

static void on_error(struct http_call *call, const struct error *err, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    assert_ptr_equal(call, result->call);
    assert_true(err->message[0] != '\0');
    result->call = NULL;
    result->code = err->code;
    result->errors++;
}

static void on_drain(struct http_call *call, void *ctx)
{
    struct result *result = ctx;
    (void)call;
    assert_false(result->inside);
    result->drains++;
}

static void on_upgrade(struct http_call *call, const struct http_head *head,
                       struct http_stream *stream, const char *rest, size_t rest_length, void *ctx)
{
    struct result *result = ctx;
    (void)call;
    result->call = NULL;
    result->upgrades++;
    result->status = head->status;
    result->stream = stream;
    buf_add(&result->rest, rest, rest_length);
}

static const struct http_call_events events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
    .on_error = on_error,
    .on_drain = on_drain,
    .on_upgrade = on_upgrade,
};

static void result_init(struct result *result)
{
    *result = (struct result){0};
    buf_init(&result->body, PEER_MAX);
    buf_init(&result->rest, PEER_MAX);
}

static void result_done(struct result *result)
{
    http_call_cancel(result->call);
    buf_done(&result->body);
    buf_done(&result->rest);
}

static struct http_address address_of(int port)
{
    struct http_address address;
    assert_int_equal(http_address_tcp(&address, "127.0.0.1", port), 0);
    return address;
}

static void head_of(struct http_head *head, const char *method, const char *target)
{
    http_head_init(head);
    snprintf(head->method, sizeof(head->method), "%s", method);
    head->target = mem_dup(target);
    http_headers_add(&head->headers, "Host", "test");
}

static void start(struct result *result, struct http_call_options *options)
{
    result->inside = true;
    result->call = http_client_start(client, options, &events, result);
    result->inside = false;
    assert_non_null(result->call);
}

static struct http_call *start_method(struct result *result, const char *method)
{
    struct http_head head;
    head_of(&head, method, "/x");
    struct http_call_options options = {.address = address_of(upstream->port), .head = &head};
    start(result, &options);
    http_head_done(&head);
    return result->call;
}

static struct http_call *start_get(struct result *result)
{
    return start_method(result, "GET");
}

static void start_post(struct result *result, int64_t length)
{
    struct http_head head;
    head_of(&head, "POST", "/x");
    head.framing = length < 0 ? HTTP_CHUNKED : HTTP_LENGTH;
    head.content_length = length < 0 ? 0 : (uint64_t)length;
    struct http_call_options options = {.address = address_of(upstream->port), .head = &head};
    start(result, &options);
    http_head_done(&head);
}

static struct peer *accepted(size_t index)
{
    WAIT(upstream->count > index);
    return upstream->accepted[index];
}

static int setup(void **state)
{
    world_setup(state);
    upstream = listen_tcp();
    struct http_client_config config = {.loop = &loop};
    client = http_client_new(&config);
    return 0;
}

static int teardown(void **state)
{
    client = http_client_free(client);
    listener_close(upstream);
    return world_teardown(state);
}

#define REQUEST "GET /x HTTP/1.1\r\nHost: test\r\n\r\n"
#define ANSWER  "HTTP/1.1 200 OK\r\nX-Test: yes\r\nContent-Length: 2\r\n\r\nok"

/* --- tests ------------------------------------------------------------------------------------ */

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
    peer_send(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n");
    for (size_t i = 1; i <= 3; i++) {
        WAIT(result.body.length == i);
        turn_loop(5);
        assert_int_equal(result.body.length, i);
        assert_int_equal(result.dones, 0);
        result.inside = true;
        http_call_resume(result.call);
        result.inside = false;
    }
    WAIT(result.dones == 1);
    assert_string_equal(result.body.data, "abc");
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

/* Puts one connection into the pool. */
static struct peer *prime_pool(void)
{
    struct result result;
    result_init(&result);
    size_t before = upstream->count;
    start_get(&result);
    struct peer *peer = accepted(before);
    peer_expect(peer, REQUEST);
    peer_send(peer, ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);
    buf_clear(&peer->in);
    return peer;
}

static void test_pool_forgets_closed(void **state)
{
    (void)state;
    struct peer *peer = prime_pool();
    peer_end(peer);
    peer_expect_end(peer); /* the client has closed it, too */
    struct result result;
    result_init(&result);
    start_get(&result);
    peer_send(accepted(1), ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);

    /* Closed, but the loop has had no chance to tell: a POST must not go into the void. */
    shutdown(upstream->accepted[1]->fd, SHUT_WR);
    result_init(&result);
    start_post(&result, 2);
    http_call_write(result.call, "hi", 2);
    http_call_end(result.call);
    peer_expect(accepted(2), "hi");
    peer_send(accepted(2), ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);

    /* Bytes nobody asked for spoil it, too. */
    peer_send(accepted(2), "HTTP/1.1 408 Request Timeout\r\n\r\n");
    peer_expect_end(accepted(2));
}

static void test_stale_retry(void **state)
{
    (void)state;
    struct peer *peer = prime_pool();
    struct result result;
    result_init(&result);
    start_get(&result);
    peer_expect(peer, REQUEST);
    peer_end(peer); /* closed without a byte of an answer */
    struct peer *fresh = accepted(1);
    peer_expect(fresh, REQUEST);
    peer_send(fresh, ANSWER);
    WAIT(result.dones == 1);
    assert_int_equal(result.errors, 0);
    result_done(&result);

    /* Not twice, not on a fresh connection, not after a byte, not with a body. */
    result_init(&result);
    start_get(&result);
    WAIT(peer_count(fresh, REQUEST) == 2);
    peer_end(fresh);
    peer_expect(accepted(2), REQUEST);
    peer_end(accepted(2));
    WAIT(result.errors == 1);
    result_done(&result);

    peer = prime_pool();
    result_init(&result);
    start_get(&result);
    peer_expect(peer, REQUEST);
    peer_send(peer, "H");
    peer_end(peer);
    WAIT(result.errors == 1);
    result_done(&result);

    peer = prime_pool();
    result_init(&result);
    start_post(&result, 2);
    http_call_write(result.call, "hi", 2);
    http_call_end(result.call);
    peer_expect(peer, "hi");
    peer_end(peer);
    WAIT(result.errors == 1);
    result_done(&result);
    assert_int_equal(upstream->count, 5);
}

static void test_pool_limits(void **state)
{
    (void)state;
    http_client_free(client);
    struct http_client_config config = {.loop = &loop, .idle_timeout_ms = 100, .idle_max = 1};
    client = http_client_new(&config);
    struct result a, b;
    result_init(&a);
    result_init(&b);
    start_get(&a);
    start_get(&b);
    peer_send(accepted(0), ANSWER);
    peer_send(accepted(1), ANSWER);
    WAIT(a.dones == 1 && b.dones == 1);
    assert_int_equal(client->pool_count, 1);
    WAIT(client->pool_count == 0); /* idle for too long */
    peer_expect_end(accepted(0));
    peer_expect_end(accepted(1));
    result_done(&a);
    result_done(&b);
}

static void test_drop(void **state)
{
    (void)state;
    struct peer *peer = prime_pool();
    struct http_address other = address_of(1);
    http_client_drop(client, &other);
    assert_int_equal(client->pool_count, 1);
    struct http_address address = address_of(upstream->port);
    http_client_drop(client, &address);
    assert_int_equal(client->pool_count, 0);
    peer_expect_end(peer);
}

static void test_timeouts(void **state)
{
    (void)state;
    struct http_head head;
    head_of(&head, "GET", "/");
    struct http_call_options options = {.address = address_of(upstream->port),
                                        .head = &head,
                                        .response_timeout_ms = 100,
                                        .stall_timeout_ms = 100};
    struct result result;
    result_init(&result);
    start(&result, &options);
    WAIT(result.errors == 1);
    assert_int_equal(result.code, ERR_TIMEOUT);
    assert_int_equal(result.heads, 0);
    result_done(&result);

    result_init(&result);
    start(&result, &options);
    peer_send(accepted(1), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    WAIT(result.errors == 1);
    assert_int_equal(result.code, ERR_TIMEOUT);
    assert_int_equal(result.heads, 1);
    result_done(&result);

    /* Paused is not stalled. */
    result_init(&result);
    result.pause_in_body = true;
    start(&result, &options);
    peer_send(accepted(2), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
    WAIT(result.body.length == 1);
    pass_time(300);
    assert_int_equal(result.errors, 0);
    result.pause_in_body = false;
    http_call_resume(result.call);
    peer_send(accepted(2), "b");
    WAIT(result.dones == 1);
    http_head_done(&head);
    result_done(&result);
}

static void test_early_answer(void **state)
{
    (void)state;
    struct result result;
    result_init(&result);
    start_post(&result, 1000);
    http_call_write(result.call, "part", 4);
    struct peer *peer = accepted(0);
    peer_expect(peer, "part");
    peer_send(peer, ANSWER);
    WAIT(result.dones == 1);
    assert_string_equal(result.body.data, "ok");
    peer_expect_end(peer); /* half a request: of no further use */
    result_done(&result);
}

static void test_upgrade(void **state)
{
    (void)state;
    struct http_head head;
    head_of(&head, "GET", "/ws");
    head.upgrade = true;
    http_headers_add(&head.headers, "Connection", "Upgrade");
    http_headers_add(&head.headers, "Upgrade", "test");
    struct http_call_options options = {.address = address_of(upstream->port), .head = &head};
    struct result result;
    result_init(&result);
    start(&result, &options);
    struct peer *peer = accepted(0);
    peer_expect(peer, "Connection: Upgrade\r\nUpgrade: test\r\n");
    peer_send(peer,
              "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n"
              "early");
    WAIT(result.upgrades == 1);
    assert_int_equal(result.status, 101);
    assert_string_equal(result.rest.data, "early");
    http_stream_write(result.stream, "bytes", 5);
    peer_expect(peer, "bytes");
    http_stream_close(result.stream);
    peer_expect_end(peer);

    start(&result, &options); /* a server that does not want to */
    peer_send(accepted(1), ANSWER);
    WAIT(result.dones == 1);
    assert_int_equal(result.upgrades, 1);
    http_head_done(&head);
    result_done(&result);
}

/* --- fetch ------------------------------------------------------------------------------------ */

struct fetched {
    int calls;
    int status;
    struct buf body;
    enum error_code code;
};

static void on_fetched(int status, const char *body, size_t length, const struct error *err,
                       void *ctx)
{
    struct fetched *fetched = ctx;
    fetched->calls++;
    fetched->status = status;
    fetched->code = err != NULL ? err->code : ERR_OK;
    buf_clear(&fetched->body);
    buf_add(&fetched->body, body, length);
}

static void test_fetch(void **state)
{
    (void)state;
    struct fetched fetched = {0};
    buf_init(&fetched.body, 1000);
    struct http_address address = address_of(upstream->port);
    http_client_fetch(client, &address, "POST", "/internal", "{}", 2, 10, 5000, on_fetched,
                      &fetched);
    struct peer *peer = accepted(0);
    peer_expect(peer, "\r\n\r\n{}");
    assert_true(peer_has(peer, "POST /internal HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: application/json\r\nContent-Length: 2\r\n"));
    peer_send(peer, "HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy");
    WAIT(fetched.calls == 1);
    assert_int_equal(fetched.status, 409);
    assert_string_equal(fetched.body.data, "busy");

    http_client_fetch(client, &address, "GET", "/", NULL, 0, 10, 5000, on_fetched, &fetched);
    WAIT(peer_has(peer, "GET / HTTP/1.1\r\n"));
    peer_send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n01234567890");
    WAIT(fetched.calls == 2);
    assert_int_equal(fetched.status, 0);
    assert_int_equal(fetched.code, ERR_LIMIT);

    http_client_fetch(client, &address, "GET", "/", NULL, 0, 10, 100, on_fetched, &fetched);
    WAIT(fetched.calls == 3);
    assert_int_equal(fetched.code, ERR_TIMEOUT);

    http_call_cancel(
        http_client_fetch(client, &address, "GET", "/", NULL, 0, 10, 100, on_fetched, &fetched));
    http_client_fetch(client, &address, "GET", "/", NULL, 0, 10, 0, on_fetched, &fetched);
    turn_loop(5); /* the last one is cancelled with the client */
    assert_int_equal(fetched.calls, 3);
    buf_done(&fetched.body);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

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
        TEST(test_pool_forgets_closed),
        TEST(test_stale_retry),
        TEST(test_pool_limits),
        TEST(test_drop),
        TEST(test_timeouts),
        TEST(test_early_answer),
        TEST(test_upgrade),
        TEST(test_fetch),
    };
    return cmocka_run_group_tests_name("http/client", tests, NULL, NULL);
}
