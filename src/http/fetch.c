/* A small request with its whole small answer, on top of http_client_start(). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/client_internal.h"

struct fetch {
    http_fetch_fn *on_done;
    void *ctx;
    int status;
    struct buf answer;
};

static void fetch_release(void *ctx)
{
    struct fetch *fetch = ctx;
    buf_done(&fetch->answer);
    free(fetch);
}

static void on_head(struct http_call *call, const struct http_head *head, void *ctx)
{
    struct fetch *fetch = ctx;
    (void)call;
    fetch->status = head->status;
}

static void on_body(struct http_call *call, const char *bytes, size_t length, void *ctx)
{
    struct fetch *fetch = ctx;
    if (buf_add(&fetch->answer, bytes, length) == 0)
        return;
    struct error err = ERROR_INIT;
    error_set(&err, ERR_LIMIT, "the answer is larger than %zu bytes", fetch->answer.max);
    http_call_fail(call, &err);
}

static void on_done(struct http_call *call, void *ctx)
{
    struct fetch *fetch = ctx;
    (void)call;
    fetch->on_done(fetch->status, fetch->answer.data, fetch->answer.length, NULL, fetch->ctx);
}

static void on_error(struct http_call *call, const struct error *err, void *ctx)
{
    struct fetch *fetch = ctx;
    (void)call;
    fetch->on_done(0, "", 0, err, fetch->ctx);
}

static const struct http_call_events events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
    .on_error = on_error,
};

static void make_head(struct http_head *head, const char *method, const char *target,
                      const char *json, size_t json_length)
{
    http_head_init(head);
    size_t length = strlen(method);
    if (length < sizeof(head->method)) /* otherwise empty, and refused when it is written */
        memcpy(head->method, method, length + 1);
    head->target = mem_dup(target);
    http_headers_add(&head->headers, "Host", "localhost");
    if (json != NULL) {
        http_headers_add(&head->headers, "Content-Type", "application/json");
        head->framing = HTTP_LENGTH;
        head->content_length = json_length;
    }
}

struct http_call *http_client_fetch(struct http_client *client, const struct http_address *address,
                                    const char *method, const char *target, const char *json,
                                    size_t json_length, size_t max_answer_bytes,
                                    uint64_t timeout_ms, http_fetch_fn *on_answer, void *ctx)
{
    struct fetch *fetch = mem_alloc(sizeof(*fetch));
    fetch->on_done = on_answer;
    fetch->ctx = ctx;
    buf_init(&fetch->answer, max_answer_bytes);

    struct http_head head;
    make_head(&head, method, target, json, json_length);
    struct http_call_options options = {
        .address = *address, .head = &head, .connect_timeout_ms = timeout_ms};
    struct http_call *call = http_client_start(client, &options, &events, fetch);
    http_head_done(&head);

    call->release = fetch_release;
    if (timeout_ms > 0) {
        call->deadline_ms = uv_now(client->config.loop) + timeout_ms;
        http_schedule_deadline(&client->schedule, call->deadline_ms);
    }
    if (json != NULL) {
        http_call_write(call, json, json_length);
        http_call_end(call);
    }
    return call;
}
