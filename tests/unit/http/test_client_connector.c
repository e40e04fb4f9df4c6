/* Calls over connections that a connector makes: here one that does as the test says. */
#include "client_fixture.h"

#include <fcntl.h>

/* One request to the connector at a time. */
struct http_connecting {
    http_connected_fn *done;
    void *ctx;
    char host[HTTP_ADDRESS_HOST_MAX];
    int port;
};

static struct http_connecting pending;
static int starts, cancels;

static struct http_connecting *connector_start(struct http_connector *self, const char *host,
                                               int port, http_connected_fn *done, void *ctx)
{
    (void)self;
    assert_null(pending.done);
    pending = (struct http_connecting){.done = done, .ctx = ctx, .port = port};
    snprintf(pending.host, sizeof(pending.host), "%s", host);
    starts++;
    return &pending;
}

static void connector_cancel(struct http_connector *self, struct http_connecting *connecting)
{
    (void)self;
    assert_ptr_equal(connecting, &pending);
    assert_non_null(pending.done);
    pending = (struct http_connecting){0};
    cancels++;
}

static struct http_connector connector = {.start = connector_start, .cancel = connector_cancel};

static void finish(int fd, const struct error *err)
{
    struct http_connecting old = pending;
    pending = (struct http_connecting){0};
    assert_non_null(old.done);
    old.done(fd, err, old.ctx);
}

static void make(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)upstream->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    finish(fd, NULL);
}

static void fail_with(enum error_code code)
{
    struct error err = ERROR_INIT;
    error_set(&err, code, "as the test says");
    finish(-1, &err);
}

static void begin(struct result *result, const char *host, int port, bool has_body)
{
    struct http_head head;
    result_init(result);
    head_of(&head, has_body ? "POST" : "GET", "/x");
    if (has_body)
        head.framing = HTTP_CHUNKED;
    struct http_call_options options = {.head = &head, .connect_timeout_ms = 50};
    assert_int_equal(http_address_connector(&options.address, &connector, host, port), 0);
    start(result, &options);
    http_head_done(&head);
}

static void finish_get(struct result *result, struct peer *peer)
{
    peer_expect(peer, REQUEST);
    peer_send(peer, ANSWER);
    WAIT(result->dones == 1);
    assert_int_equal(result->status, 200);
    result_done(result);
}

static int begin_test(void **state)
{
    starts = cancels = 0;
    return setup(state);
}

static int end_test(void **state)
{
    assert_null(pending.done);
    return teardown(state);
}

static void test_request_waits_for_it(void **state)
{
    (void)state;
    struct result result;
    begin(&result, "box", 80, false);
    turn_loop(3);
    assert_string_equal(pending.host, "box");
    assert_int_equal(pending.port, 80);
    make();
    finish_get(&result, accepted(0));
}

static void test_body_written_before(void **state)
{
    (void)state;
    struct result result;
    begin(&result, "box", 80, true);
    http_call_write(result.call, "hello", 5);
    turn_loop(3);
    http_call_end(result.call);
    make();
    peer_expect(accepted(0), "5\r\nhello\r\n0\r\n\r\n");
    peer_send(accepted(0), ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);
}

/* Of the same host and port alone. */
static void test_pool(void **state)
{
    (void)state;
    struct result result;
    begin(&result, "box", 80, false);
    make();
    finish_get(&result, accepted(0));
    begin(&result, "box", 80, false);
    WAIT(peer_count(accepted(0), REQUEST) == 2);
    peer_send(accepted(0), ANSWER);
    WAIT(result.dones == 1);
    result_done(&result);
    assert_int_equal(starts, 1);

    begin(&result, "box2", 80, false);
    assert_int_equal(starts, 2);
    make();
    finish_get(&result, accepted(1));
    begin(&result, "box", 81, false);
    assert_int_equal(starts, 3);
    make();
    finish_get(&result, accepted(2));
    assert_int_equal(client->pool_count, 3);

    struct http_address address;
    http_address_connector(&address, &connector, "box", 81);
    http_client_drop(client, &address);
    assert_int_equal(client->pool_count, 2);
    http_address_connector(&address, &connector, "box", 0);
    http_client_drop(client, &address);
    assert_int_equal(client->pool_count, 1); /* box2's */
}

static void test_failures(void **state)
{
    (void)state;
    static const struct {
        enum error_code code;
        bool untried;
    } rows[] = {{ERR_UNAVAILABLE, true}, {ERR_LIMIT, true}, {ERR_NOT_FOUND, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct result result;
        begin(&result, "box", 80, false);
        fail_with(rows[i].code);
        assert_int_equal(result.errors, 1);
        assert_int_equal(result.code, rows[i].code);
        assert_int_equal(result.untried, rows[i].untried);
        result_done(&result);
    }
}

static void test_time_out_and_cancel(void **state)
{
    (void)state;
    struct result result;
    begin(&result, "box", 80, false);
    WAIT(result.errors == 1);
    assert_int_equal(result.code, ERR_TIMEOUT);
    assert_int_equal(cancels, 1);
    result_done(&result);
    begin(&result, "box", 80, true);
    http_call_write(result.call, "x", 1);
    http_call_cancel(TAKE_PTR(result.call));
    assert_int_equal(cancels, 2);
    result_done(&result);
}

/* A pooled connection that its peer has closed is made anew, once. */
static void test_retry(void **state)
{
    (void)state;
    struct result result;
    begin(&result, "box", 80, false);
    make();
    finish_get(&result, accepted(0));
    begin(&result, "box", 80, false);
    WAIT(peer_count(accepted(0), REQUEST) == 2);
    peer_end(accepted(0));
    WAIT(starts == 2);
    make();
    finish_get(&result, accepted(1));
}

static void test_freed_while_it_is_made(void **state)
{
    (void)state;
    struct result result;
    begin(&result, "box", 80, false);
    client = http_client_free(client);
    assert_int_equal(cancels, 1);
    assert_int_equal(result.errors, 0);
    result.call = NULL;
    result_done(&result);
}

#undef TEST
#define TEST(function) cmocka_unit_test_setup_teardown(function, begin_test, end_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_waits_for_it),
        TEST(test_body_written_before),
        TEST(test_pool),
        TEST(test_failures),
        TEST(test_time_out_and_cancel),
        TEST(test_retry),
        TEST(test_freed_while_it_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
