/* Calls: requests and their responses as the user of the client sees them. The connections under
 * them are in client_link.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/client_internal.h"
#include "http/frame.h"

#define REQUEST_HEAD_MAX   (256 * 1024)
#define CONNECT_TIMEOUT_MS 10000

void http_call_set_state(struct http_call *call, enum http_call_state state)
{
    static const unsigned allowed[] = {
        [HTTP_CALL_CONNECTING] =
            1u << HTTP_CALL_WAITING | 1u << HTTP_CALL_FAILED | 1u << HTTP_CALL_OVER,
        [HTTP_CALL_WAITING] = 1u << HTTP_CALL_CONNECTING | 1u << HTTP_CALL_BODY |
                              1u << HTTP_CALL_UPGRADED | 1u << HTTP_CALL_FAILED |
                              1u << HTTP_CALL_OVER,
        [HTTP_CALL_BODY] = 1u << HTTP_CALL_COMPLETE | 1u << HTTP_CALL_FAILED | 1u << HTTP_CALL_OVER,
        [HTTP_CALL_COMPLETE] = 1u << HTTP_CALL_FAILED | 1u << HTTP_CALL_OVER,
        [HTTP_CALL_UPGRADED] = 1u << HTTP_CALL_OVER,
        [HTTP_CALL_FAILED] = 1u << HTTP_CALL_OVER,
    };
    assert(call->state != HTTP_CALL_OVER && (allowed[call->state] & 1u << state) != 0);
    call->state = state;
    call->since = uv_now(call->client->config.loop);
}

/* --- the end of a call ------------------------------------------------------------------------ */

static void call_free(struct http_call *call)
{
    if (call->release != NULL)
        call->release(call->ctx);
    http_head_done(&call->upgrade_head);
    buf_done(&call->head);
    free(call->failure);
    free(call);
}

/* From here on the call makes no sound. */
static void call_retire(struct http_call *call, bool reusable)
{
    http_call_set_state(call, HTTP_CALL_OVER);
    http_schedule_drop(&call->client->schedule, &call->task);
    TAILQ_REMOVE(&call->client->calls, call, link);
    if (call->connection != NULL)
        http_link_release(call->connection, reusable);
}

void http_call_finish(struct http_call *call, bool reusable)
{
    call_retire(call, reusable && call->request_ended && !call->client->closing);
    call->events->on_done(call, call->ctx);
    call_free(call);
}

void http_call_fail(struct http_call *call, const struct error *err)
{
    call_retire(call, false);
    call->events->on_error(call, err, call->ctx);
    call_free(call);
}

void http_call_upgrade(struct http_call *call, const char *rest, size_t rest_length)
{
    struct http_stream *stream = http_link_take_stream(call->connection);
    call_retire(call, false);
    call->events->on_upgrade(call, &call->upgrade_head, stream, rest, rest_length, call->ctx);
    call_free(call);
}

void http_call_cancel(struct http_call *call)
{
    if (call == NULL || call->state == HTTP_CALL_OVER)
        return;
    call_retire(call, false);
    call_free(call);
}

bool http_call_is_untried(const struct http_call *call)
{
    return call->untried;
}

/* Report a failure that is known now from the loop, later. */
static void fail_later(struct http_call *call, const struct error *err)
{
    if (call->state == HTTP_CALL_FAILED)
        return;
    call->failure = mem_alloc(sizeof(*call->failure));
    *call->failure = *err;
    if (call->connection != NULL)
        http_link_release(call->connection, false);
    http_call_set_state(call, HTTP_CALL_FAILED);
    http_schedule_add(&call->client->schedule, &call->task);
}

static void on_task(struct http_task *task)
{
    struct http_call *call = CONTAINER_OF(task, struct http_call, task);
    if (call->state == HTTP_CALL_FAILED)
        http_call_fail(call, call->failure);
    else
        http_link_run(call->connection);
}

static void wake(struct http_call *call)
{
    if (!call->connection->running)
        http_schedule_add(&call->client->schedule, &call->task);
}

/* --- time-outs -------------------------------------------------------------------------------- */

static uint64_t after(uint64_t since_ms, uint64_t timeout_ms)
{
    return timeout_ms == 0 ? HTTP_NO_DEADLINE : since_ms + timeout_ms;
}

static uint64_t wait_deadline(const struct http_call *call)
{
    const struct http_stream *stream = call->connection != NULL ? call->connection->stream : NULL;
    switch (call->state) {
    case HTTP_CALL_CONNECTING:
        return after(call->since, call->connect_timeout_ms);
    case HTTP_CALL_WAITING:
        if (http_stream_queued(stream) > 0)
            return after(http_stream_last_write_ms(stream), call->stall_timeout_ms);
        return call->request_ended ? after(call->since, call->response_timeout_ms)
                                   : HTTP_NO_DEADLINE;
    case HTTP_CALL_BODY:
        return call->paused ? HTTP_NO_DEADLINE
                            : after(MAX(call->since, http_stream_last_read_ms(stream)),
                                    call->stall_timeout_ms);
    default:
        return HTTP_NO_DEADLINE;
    }
}

uint64_t http_call_deadline(const struct http_call *call)
{
    return MIN(call->deadline_ms, wait_deadline(call));
}

void http_call_expire(struct http_call *call)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERR_TIMEOUT, "%s",
              call->state == HTTP_CALL_CONNECTING ? "no connection could be made in time"
              : call->state == HTTP_CALL_WAITING  ? "the server did not answer in time"
                                                  : "the answer stopped coming");
    http_call_fail(call, &err);
}

/* --- request ---------------------------------------------------------------------------------- */

static void send_frame(struct http_call *call, const struct http_frame *frame)
{
    struct http_stream *stream = call->connection->stream;
    http_stream_write_parts(stream, frame->parts, frame->count);
    if (http_stream_is_full(stream))
        call->full = true;
    call->head_sent = true;
}

void http_call_send_head(struct http_call *call)
{
    if (call->head_sent)
        return;
    struct http_frame frame;
    http_frame_end(&frame, &call->head, HTTP_NO_BODY);
    send_frame(call, &frame);
}

static bool may_write(const struct http_call *call)
{
    return call->connection != NULL && !call->request_ended;
}

static const struct buf *head_to_send(const struct http_call *call)
{
    static char empty[1];
    static const struct buf none = {.data = empty};
    return call->head_sent ? &none : &call->head;
}

static void fail_length(struct http_call *call, const char *what)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERR_INVALID, "the request body is %s than announced", what);
    fail_later(call, &err);
}

void http_call_write(struct http_call *call, const void *bytes, size_t length)
{
    if (!may_write(call) || length == 0)
        return;
    if (call->framing != HTTP_CHUNKED) {
        if (length > call->remaining) {
            fail_length(call, "longer");
            return;
        }
        call->remaining -= length;
    }
    struct http_frame frame;
    http_frame_piece(&frame, head_to_send(call), call->framing, bytes, length);
    send_frame(call, &frame);
}

void http_call_end(struct http_call *call)
{
    if (!may_write(call))
        return;
    if (call->framing == HTTP_LENGTH && call->remaining > 0) {
        fail_length(call, "shorter");
        return;
    }
    struct http_frame frame;
    http_frame_end(&frame, head_to_send(call), call->framing);
    if (frame.count > 0)
        send_frame(call, &frame);
    call->request_ended = true;
    if (call->state == HTTP_CALL_WAITING)
        call->since = uv_now(call->client->config.loop);
    http_schedule_deadline(&call->client->schedule, http_call_deadline(call));
}

bool http_call_is_full(const struct http_call *call)
{
    return call->connection != NULL && http_stream_is_full(call->connection->stream);
}

void http_call_pause(struct http_call *call)
{
    call->paused = true;
    if (call->connection != NULL && call->connection->stream != NULL)
        http_stream_read_stop(call->connection->stream);
}

void http_call_resume(struct http_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    if (call->connection == NULL)
        return;
    if (call->state == HTTP_CALL_BODY)
        call->since = uv_now(call->client->config.loop);
    http_stream_read_start(call->connection->stream);
    wake(call);
}

static struct http_call *call_new(struct http_client *client,
                                  const struct http_call_options *options,
                                  const struct http_call_events *events, void *ctx)
{
    struct http_call *call = mem_alloc(sizeof(*call));
    call->client = client;
    call->events = events;
    call->ctx = ctx;
    call->since = uv_now(client->config.loop);
    call->address = options->address;
    call->connect_timeout_ms =
        options->connect_timeout_ms != 0 ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    call->response_timeout_ms = options->response_timeout_ms;
    call->stall_timeout_ms = options->stall_timeout_ms;
    call->deadline_ms = HTTP_NO_DEADLINE;
    memcpy(call->method, options->head->method, sizeof(call->method));
    call->framing = options->head->framing;
    call->remaining = call->framing == HTTP_LENGTH ? options->head->content_length : 0;
    call->has_body = call->framing == HTTP_CHUNKED || call->remaining > 0;
    call->wants_upgrade = options->head->upgrade && events->on_upgrade != NULL;
    call->task.run = on_task;
    buf_init(&call->head, REQUEST_HEAD_MAX);
    http_head_init(&call->upgrade_head);
    TAILQ_INSERT_TAIL(&client->calls, call, link);
    return call;
}

struct http_call *http_client_start(struct http_client *client,
                                    const struct http_call_options *options,
                                    const struct http_call_events *events, void *ctx)
{
    struct http_call *call = call_new(client, options, events, ctx);
    struct http_head head = *options->head; /* borrows what the caller's head owns */
    head.minor = 1;
    head.keep_alive = true;
    struct error err = ERROR_INIT;
    if (http_head_write_request(&head, &call->head) < 0) {
        error_set(&err, ERR_INVALID,
                  "the request head cannot be written: check method, target "
                  "and size");
        fail_later(call, &err);
        return call;
    }
    if (http_link_attach(call, true, &err) < 0) {
        fail_later(call, &err);
        return call;
    }
    if (call->has_body)
        wake(call); /* the head waits for the first bytes of the body, but not longer than a turn */
    else
        http_call_end(call);
    http_schedule_deadline(&client->schedule, http_call_deadline(call));
    return call;
}
