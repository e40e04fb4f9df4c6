/* A client, a raw server for it, and a record of what its calls reported. */
#pragma once

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
    bool untried;
    struct buf body;
    char header[64]; /* X-Test */
    bool inside;
    bool cancel_in_head, cancel_in_body, pause_in_body, restart_in_done, free_in_body;
    struct result *next; /* started in on_done */
    struct http_stream *stream;
    struct buf rest;
};

static inline struct http_call *start_get(struct result *result);

static inline void on_head(struct http_call *call, const struct http_head *head, void *ctx)
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

static inline void on_body(struct http_call *call, const char *bytes, size_t length, void *ctx)
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

static inline void on_done(struct http_call *call, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    assert_ptr_equal(call, result->call);
    result->call = NULL;
    result->dones++;
    if (result->next != NULL)
        start_get(result->next);
}

static inline void on_error(struct http_call *call, const struct error *err, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    assert_ptr_equal(call, result->call);
    assert_true(err->message[0] != '\0');
    result->call = NULL;
    result->code = err->code;
    result->untried = http_call_is_untried(call);
    result->errors++;
}

static inline void on_drain(struct http_call *call, void *ctx)
{
    struct result *result = ctx;
    (void)call;
    assert_false(result->inside);
    result->drains++;
}

static inline void on_upgrade(struct http_call *call, const struct http_head *head,
                              struct http_stream *stream, const char *rest, size_t rest_length,
                              void *ctx)
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

static inline void result_init(struct result *result)
{
    *result = (struct result){0};
    buf_init(&result->body, PEER_MAX);
    buf_init(&result->rest, PEER_MAX);
}

static inline void result_done(struct result *result)
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

static inline void head_of(struct http_head *head, const char *method, const char *target)
{
    http_head_init(head);
    snprintf(head->method, sizeof(head->method), "%s", method);
    head->target = mem_dup(target);
    http_headers_add(&head->headers, "Host", "test");
}

static inline void start(struct result *result, struct http_call_options *options)
{
    result->inside = true;
    result->call = http_client_start(client, options, &events, result);
    result->inside = false;
    assert_non_null(result->call);
}

static inline struct http_call *start_method(struct result *result, const char *method)
{
    struct http_head head;
    head_of(&head, method, "/x");
    struct http_call_options options = {.address = address_of(upstream->port), .head = &head};
    start(result, &options);
    http_head_done(&head);
    return result->call;
}

static inline struct http_call *start_get(struct result *result)
{
    return start_method(result, "GET");
}

static inline void start_post(struct result *result, int64_t length)
{
    struct http_head head;
    head_of(&head, "POST", "/x");
    head.framing = length < 0 ? HTTP_CHUNKED : HTTP_LENGTH;
    head.content_length = length < 0 ? 0 : (uint64_t)length;
    struct http_call_options options = {.address = address_of(upstream->port), .head = &head};
    start(result, &options);
    http_head_done(&head);
}

static inline struct peer *accepted(size_t index)
{
    WAIT(upstream->count > index);
    return upstream->accepted[index];
}

static inline int setup(void **state)
{
    world_setup(state);
    upstream = listen_tcp();
    struct http_client_config config = {.loop = &loop};
    client = http_client_new(&config);
    return 0;
}

static inline int teardown(void **state)
{
    client = http_client_free(client);
    listener_close(upstream);
    return world_teardown(state);
}

#define REQUEST "GET /x HTTP/1.1\r\nHost: test\r\n\r\n"
#define ANSWER  "HTTP/1.1 200 OK\r\nX-Test: yes\r\nContent-Length: 2\r\n\r\nok"

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
