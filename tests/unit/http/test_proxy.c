/* Raw client, our proxy, raw upstream: both ends see exact bytes. */
#include "peer.h"

#include "http/proxy.h"

#define BIG (8 * 1024 * 1024)

static struct {
    struct http_server *server;
    struct http_client *client;
    struct listener *upstream;
    int port;
    struct http_proxy_options options;
} world;

static void on_request(struct http_exchange *exchange, void *ctx)
{
    (void)ctx;
    AUTO_FREE char *target = mem_dup(http_exchange_head(exchange)->target);
    world.options.target = target;
    http_proxy_start(exchange, &world.options);
    world.options.target = NULL;
}

static int setup(void **state)
{
    world_setup(state);
    struct http_server_config server = {.loop = &loop, .on_request = on_request};
    struct http_client_config client = {.loop = &loop};
    world.server = http_server_new(&server);
    world.client = http_client_new(&client);
    world.upstream = listen_tcp();
    assert_int_equal(http_server_listen_tcp(world.server, "127.0.0.1", 0, &world.port, NULL), 0);
    world.options = (struct http_proxy_options){
        .client = world.client, .forwarded_proto = "http", .error_code = "PROXY::FAILED"};
    http_address_tcp(&world.options.address, "127.0.0.1", world.upstream->port);
    return 0;
}

static int teardown(void **state)
{
    http_server_free(world.server);
    http_client_free(world.client);
    listener_close(world.upstream);
    return world_teardown(state);
}

static struct peer *dial(void)
{
    return peer_connect(world.port);
}

static struct peer *accepted(size_t index)
{
    WAIT(world.upstream->count > index);
    return world.upstream->accepted[index];
}

#define FORWARDED "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: http\r\n"
#define ANSWER    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* --- tests: bytes ----------------------------------------------------------------------------- */

static void test_exact_bytes(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client,
              "GET /a%2Fb/../c?x=%20&&y=/ HTTP/1.1\r\nHost: Example:80\r\nx-ODD-case:  v  w \r\n"
              "Cookie: a=1\r\nCookie: b=2\r\nAuthorization: Bearer t\r\nAccept: */*\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    assert_string_equal(upstream->in.data,
                        "GET /a%2Fb/../c?x=%20&&y=/ HTTP/1.1\r\nHost: Example:80\r\n"
                        "x-ODD-case: v  w\r\nCookie: a=1\r\nCookie: b=2\r\n"
                        "Authorization: Bearer t\r\nAccept: */*\r\n"
                        "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: Example:80\r\n"
                        "X-Forwarded-Proto: http\r\n\r\n");
    peer_send(upstream, "HTTP/1.1 404 Not Found\r\nServer: s\r\nset-cookie: a=1\r\nDate: then\r\n"
                        "set-cookie: b=2\r\nContent-Length: 5\r\n\r\nhello");
    peer_expect(client, "hello");
    assert_string_equal(client->in.data,
                        "HTTP/1.1 404 Not Found\r\nServer: s\r\nset-cookie: a=1\r\nDate: then\r\n"
                        "set-cookie: b=2\r\nContent-Length: 5\r\n\r\nhello");
    peer_close(client);
}

static void test_hop_fields(void **state)
{
    (void)state;
    static const char *const drop[] = {"open-sandbox-api-key", NULL};
    world.options.drop = drop;
    world.options.request_id = "id-1";
    struct peer *client = dial();
    peer_send(client,
              "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Mine, Host\r\nX-Mine: 1\r\n"
              "Keep-Alive: 5\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\n"
              "Proxy-Authorization: p\r\nOPEN-SANDBOX-API-KEY: secret\r\nX-Yours: 2\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    assert_string_equal(upstream->in.data,
                        "GET / HTTP/1.1\r\nHost: h\r\nX-Yours: 2\r\n" FORWARDED "\r\n");
    peer_send(upstream, "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\n"
                        "Keep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nX-Request-ID: other\r\n"
                        "X-Fine: 1\r\nContent-Length: 0\r\n\r\n");
    peer_expect(client, "\r\n\r\n");
    assert_string_equal(client->in.data, "HTTP/1.1 200 OK\r\nX-Request-ID: id-1\r\nX-Fine: 1\r\n"
                                         "Content-Length: 0\r\n\r\n");
    peer_close(client);
}

static void test_forwarded(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(
        client,
        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n"
        "X-Forwarded-For: 2.2.2.2, 3.3.3.3\r\nX-Forwarded-Host: front\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    assert_string_equal(upstream->in.data,
                        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\n"
                        "X-Forwarded-Proto: https\r\n"
                        "X-Forwarded-For: 2.2.2.2, 3.3.3.3, 127.0.0.1\r\n"
                        "X-Forwarded-Host: front\r\n\r\n");
    peer_close(client);

    /* A client that fills the list cannot hide itself. */
    struct buf request;
    buf_init(&request, 100000);
    buf_add_str(&request, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 127; i++)
        buf_printf(&request, "X-%d: y\r\n", i);
    buf_add_str(&request, "\r\n");
    client = dial();
    peer_send(client, request.data);
    peer_expect(client, "HTTP/1.1 431 ");
    buf_done(&request);
    peer_close(client);
}

static void test_unix_peer(void **state)
{
    (void)state;
    char dir[] = "/tmp/proxy-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = mem_printf("%s/socket", dir);
    assert_int_equal(http_server_listen_fd(world.server, bind_unix(path), NULL), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    struct peer *client = peer_new(fd);
    peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    assert_false(peer_has(upstream, "X-Forwarded-For"));
    peer_close(client);
    peer_expect_end(upstream); /* the client has gone: so has the call */
    unlink(path);
    rmdir(dir);
}

static void test_framings(void **state)
{
    (void)state;
    static const struct {
        const char *request, *forwarded, *answer, *relayed;
        bool end;
    } cases[] = {
        {"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody",
         "POST /p HTTP/1.1\r\nHost: h\r\n" FORWARDED "Content-Length: 4\r\n\r\nbody",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false},
        {"PUT /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
         "PUT /p HTTP/1.1\r\nHost: h\r\n" FORWARDED
         "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
         "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
         false},
        {"GET /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody",
         "GET /p HTTP/1.1\r\nHost: h\r\n" FORWARDED "Content-Length: 4\r\n\r\nbody",
         "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
         "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", false},
        {"HEAD /p HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD /p HTTP/1.1\r\nHost: h\r\n" FORWARDED "\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n", false},
        {"HEAD /p HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD /p HTTP/1.1\r\nHost: h\r\n" FORWARDED "\r\n",
         "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", false},
        {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
         "OPTIONS * HTTP/1.1\r\nHost: h\r\n" FORWARDED "\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
        {"GET /old HTTP/1.0\r\nHost: h\r\n\r\n",
         "GET /old HTTP/1.1\r\nHost: h\r\n" FORWARDED "\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
         "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabc", false},
        {"GET /e HTTP/1.1\r\nHost: h\r\n\r\n", "GET /e HTTP/1.1\r\nHost: h\r\n" FORWARDED "\r\n",
         "HTTP/1.1 200 OK\r\n\r\nuntil",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nuntil\r\n0\r\n\r\n", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct peer *client = dial();
        peer_send(client, cases[i].request);
        struct peer *upstream = accepted(0); /* one pooled connection serves them all */
        WAIT(upstream->in.length >= strlen(cases[i].forwarded));
        assert_string_equal(upstream->in.data, cases[i].forwarded);
        buf_clear(&upstream->in);
        peer_send(upstream, cases[i].answer);
        if (cases[i].end)
            peer_end(upstream);
        WAIT(client->in.length >= strlen(cases[i].relayed));
        turn_loop(3);
        assert_string_equal(client->in.data, cases[i].relayed);
        peer_close(client);
    }
    assert_int_equal(world.upstream->count, 1);
}

static void test_expect_continue(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client,
              "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    peer_expect(client, "HTTP/1.1 100 Continue\r\n\r\n");
    peer_send(client, "hi");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\nhi");
    peer_send(upstream, "HTTP/1.1 100 Continue\r\n\r\n" ANSWER);
    peer_expect(client, "ok");
    assert_int_equal(peer_count(client, "100 Continue"), 1);
    peer_close(client);
}

/* What goes wrong before anything was sent is told, also when the head was good. */
static void test_bad_body_behind_good_head(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nX-Odd: 1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 204 OK\r\nX-Odd: 1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    };
    world.options.request_id = "id-1";
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct peer *client = dial();
        peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        struct peer *upstream = accepted(i);
        peer_expect(upstream, "\r\n\r\n");
        peer_send(upstream, answers[i]);
        peer_expect(client, "}");
        assert_true(peer_has(client, "HTTP/1.1 502 "));
        assert_true(peer_has(client, "X-Request-ID: id-1"));
        assert_false(peer_has(client, "X-Odd"));
        peer_close(client);
    }
}

/* --- tests: flow ------------------------------------------------------------------------------ */

static size_t body_length(const struct peer *peer)
{
    const char *end = memmem(peer->in.data, peer->in.length, "\r\n\r\n", 4);
    return end == NULL ? 0 : peer->in.length - (size_t)(end + 4 - peer->in.data);
}

static void test_big_download(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct peer *client = dial();
    peer_pause(client, true);
    peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    peer_send(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
    peer_send_bytes(upstream, bytes, BIG);
    turn_loop(200);
    assert_true(upstream->out.length > 0); /* feels that the client does not read */
    peer_pause(client, false);
    WAIT(body_length(client) == BIG);
    assert_memory_equal(client->in.data + client->in.length - BIG, bytes, BIG);
    peer_close(client);
}

static void test_big_upload(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct peer *client = dial();
    peer_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    peer_pause(upstream, true);
    peer_send_bytes(client, bytes, BIG);
    turn_loop(200);
    assert_true(client->out.length > 0);
    peer_pause(upstream, false);
    WAIT(body_length(upstream) == BIG);
    assert_memory_equal(upstream->in.data + upstream->in.length - BIG, bytes, BIG);
    peer_send(upstream, ANSWER);
    peer_expect(client, "ok");
    peer_send(client, "GET /again HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_expect(upstream, "GET /again");
    peer_close(client);
}

static void test_streaming(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client, "GET /events HTTP/1.1\r\nHost: h\r\n\r\n");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    peer_send(upstream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n");
    peer_expect(client, "\r\n\r\n"); /* the head comes before any event */
    peer_send(upstream, "4\r\none\n\r\n");
    peer_expect(client, "4\r\none\n\r\n");
    peer_close(client);
    peer_expect_end(upstream); /* cancelled */
}

static void test_early_answer(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nsome");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\nsome");
    peer_send(upstream, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
    peer_expect(client, "HTTP/1.1 413 ");
    peer_expect(client, "\r\n\r\nbig");
    peer_expect_end(upstream);
    /* The rest of the body is thrown away, and the client's connection lives on. */
    AUTO_FREE char *rest = make_pattern(96);
    peer_send_bytes(client, rest, 96);
    peer_send(client, "GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_expect(accepted(1), "GET /next");
    peer_close(client);
}

/* --- tests: failures -------------------------------------------------------------------------- */

static void test_unreachable(void **state)
{
    (void)state;
    struct listener *other = listen_tcp();
    http_address_tcp(&world.options.address, "127.0.0.1", other->port);
    listener_close(other);
    world.options.request_id = "id-2";
    struct peer *client = dial();
    peer_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    peer_expect(client, "}");
    assert_true(peer_has(client, "HTTP/1.1 502 "));
    assert_true(peer_has(client, "{\"code\":\"PROXY::FAILED\",\"message\":\""));
    assert_true(peer_has(client, "X-Request-ID: id-2\r\n"));
    peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); /* the connection lives on */
    WAIT(peer_count(client, "HTTP/1.1 502 ") == 2);
    peer_close(client);
}

static void test_timeout(void **state)
{
    (void)state;
    world.options.response_timeout_ms = 100;
    struct peer *client = dial();
    peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_expect(client, "}");
    assert_true(peer_has(client, "HTTP/1.1 504 "));
    assert_true(peer_has(client, "{\"code\":\"PROXY::FAILED\""));
    peer_close(client);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const answers[] = {"nonsense\r\n\r\n", "",
                                          "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct peer *client = dial();
        peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        peer_expect(accepted(i), "\r\n\r\n");
        peer_send(accepted(i), answers[i]);
        peer_end(accepted(i));
        peer_expect(client, "HTTP/1.1 502 ");
        peer_close(client);
    }
}

/* An answer that breaks off must not look like a whole one. */
static void test_upstream_dies(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(answers); i++) {
        struct peer *client = dial();
        peer_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        struct peer *upstream = accepted(i);
        peer_expect(upstream, "\r\n\r\n");
        peer_send(upstream, answers[i / 2]);
        peer_expect(client, "half");
        world.upstream->accepted[i] = NULL;
        if (i % 2 == 0)
            peer_close(upstream);
        else
            peer_reset(upstream);
        peer_expect_end(client);
        assert_false(peer_has(client, "\r\n0\r\n\r\n"));
        peer_close(client);
    }
}

static void test_free_while_relaying(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nsome");
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\nsome");
    world.server = http_server_free(world.server);
    peer_expect_end(client);
    peer_expect_end(upstream);
    peer_close(client);
}

static void test_connect_method(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client, "CONNECT /x HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(peer_has(client, "HTTP/1.1 501 ") || peer_has(client, "HTTP/1.1 400 "));
    assert_int_equal(world.upstream->count, 0);
    peer_close(client);
}

/* --- tests: upgrades -------------------------------------------------------------------------- */

#define UPGRADE                                                                                \
    "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
    "Sec-WebSocket-Key: k\r\n\r\n"
#define SWITCHING                                                                       \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
    "Sec-WebSocket-Accept: a\r\n\r\n"

/* A tunnel between the two. */
static struct peer *open_tunnel(struct peer **ret_upstream)
{
    struct peer *client = dial();
    size_t index = world.upstream->count;
    peer_send(client, UPGRADE "early-up ");
    struct peer *upstream = accepted(index);
    peer_expect(upstream, "\r\n\r\n");
    assert_string_equal(upstream->in.data,
                        "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n" FORWARDED "\r\n");
    buf_clear(&upstream->in);
    peer_send(upstream, SWITCHING "early-down ");
    peer_expect(client, "early-down ");
    assert_string_equal(client->in.data, SWITCHING "early-down ");
    buf_clear(&client->in);
    peer_expect(upstream, "early-up ");
    buf_clear(&upstream->in);
    *ret_upstream = upstream;
    return client;
}

static void test_tunnel(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = make_pattern(BIG);
    struct peer *upstream;
    struct peer *client = open_tunnel(&upstream);
    assert_int_equal(http_server_connection_count(world.server), 0);
    /* Both ways at once, each through a reader that is slow at first. */
    peer_pause(client, true);
    peer_pause(upstream, true);
    peer_send_bytes(client, bytes, BIG);
    peer_send_bytes(upstream, bytes, BIG);
    turn_loop(200);
    assert_true(client->out.length > 0 && upstream->out.length > 0);
    peer_pause(client, false);
    peer_pause(upstream, false);
    WAIT(client->in.length == BIG && upstream->in.length == BIG);
    assert_memory_equal(client->in.data, bytes, BIG);
    assert_memory_equal(upstream->in.data, bytes, BIG);
    /* Half-close: the other direction still works. */
    peer_end(client);
    WAIT(upstream->eof);
    buf_clear(&client->in);
    peer_send(upstream, "last words");
    peer_end(upstream);
    WAIT(client->eof);
    assert_string_equal(client->in.data, "last words");
    peer_close(client);
}

static void test_tunnel_breaks(void **state)
{
    (void)state;
    struct peer *upstream;
    struct peer *client = open_tunnel(&upstream);
    peer_reset(client);
    peer_expect_end(upstream);

    client = open_tunnel(&upstream);
    world.upstream->accepted[1] = NULL;
    peer_reset(upstream);
    peer_expect_end(client);
    peer_close(client);

    client = open_tunnel(&upstream); /* cut with the client object, in teardown */
    world.client = http_client_free(world.client);
    peer_expect_end(client);
    peer_expect_end(upstream);
    peer_close(client);
}

static void test_upgrade_refused(void **state)
{
    (void)state;
    struct peer *client = dial();
    peer_send(client, UPGRADE);
    struct peer *upstream = accepted(0);
    peer_expect(upstream, "\r\n\r\n");
    peer_send(upstream, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    peer_expect(client, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    peer_send(client, "GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_expect(upstream, "GET /next");
    peer_close(client);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exact_bytes),
        TEST(test_hop_fields),
        TEST(test_forwarded),
        TEST(test_unix_peer),
        TEST(test_framings),
        TEST(test_expect_continue),
        TEST(test_bad_body_behind_good_head),
        TEST(test_big_download),
        TEST(test_big_upload),
        TEST(test_streaming),
        TEST(test_early_answer),
        TEST(test_unreachable),
        TEST(test_timeout),
        TEST(test_nonsense),
        TEST(test_upstream_dies),
        TEST(test_free_while_relaying),
        TEST(test_connect_method),
        TEST(test_tunnel),
        TEST(test_tunnel_breaks),
        TEST(test_upgrade_refused),
    };
    return cmocka_run_group_tests_name("http/proxy", tests, NULL, NULL);
}
