/* The pool and its dangers, time-outs, upgrades, fetch. */
#include "client_fixture.h"

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
    turn_loop(5);
    upstream->accepted[upstream->count - 1] = NULL;
    peer_reset(peer);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pool_forgets_closed),
        TEST(test_stale_retry),
        TEST(test_pool_limits),
        TEST(test_drop),
        TEST(test_timeouts),
        TEST(test_early_answer),
        TEST(test_upgrade),
        TEST(test_fetch),
    };
    return cmocka_run_group_tests_name("http/client_pool", tests, NULL, NULL);
}
