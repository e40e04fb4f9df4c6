/* HTTP/1.1 client on the loop: one request, streamed both ways, over pooled keep-alive connections.
 *
 * Rules of a call
 * - http_client_start() returns a handle at once; nothing is called back inside it.
 * - on_head once, on_body any number of times, then exactly one of on_done (whole response) or
 *   on_error. After on_done/on_error the handle is dead.
 * - http_call_cancel() may be called at any time before that and guarantees silence.
 * - A request without body that failed on a *reused* connection before any response byte is retried
 *   once on a fresh one (the peer may just have closed an idle connection). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "http/message.h"
#include "http/stream.h"

struct http_client;
struct http_call;

struct http_client_config {
    uv_loop_t *loop;
    uint64_t idle_timeout_ms; /* pooled connections; default 30,000 */
    size_t idle_max;          /* pooled connections in all; default 256 */
};

struct http_call_events {
    void (*on_head)(struct http_call *call, const struct http_head *head, void *ctx);
    void (*on_body)(struct http_call *call, const char *bytes, size_t length, void *ctx);
    void (*on_done)(struct http_call *call, void *ctx);
    void (*on_error)(struct http_call *call, const struct error *err, void *ctx);
    void (*on_drain)(struct http_call *call, void *ctx); /* may write again */
    /* Optional; a 101 answer to an upgrade request: the stream is the callee's now, rest are the
     * bytes after the head. The handle is dead afterwards. Without it, 101 is an error, and so is
     * one that does not name the new protocol. */
    void (*on_upgrade)(struct http_call *call, const struct http_head *head,
                       struct http_stream *stream, const char *rest, size_t rest_length, void *ctx);
};

struct http_client *http_client_new(const struct http_client_config *config);
struct http_client *http_client_free(struct http_client *client); /* cancels calls; NULL ok */

/* Forget pooled connections to this address (the sandbox is gone). Of a connector's with port 0:
 * those to all ports of that host. */
void http_client_drop(struct http_client *client, const struct http_address *address);

struct http_call_options {
    struct http_address address;
    const struct http_head *head; /* method, target, headers, framing; copied */
    uint64_t connect_timeout_ms;  /* 0: 10,000 */
    uint64_t response_timeout_ms; /* request sent to response head; 0: none */
    uint64_t stall_timeout_ms;    /* between two reads of the body; 0: none */
};

struct http_call *http_client_start(struct http_client *client,
                                    const struct http_call_options *options,
                                    const struct http_call_events *events, void *ctx);

/* Request body, when head.framing says there is one. */
void http_call_write(struct http_call *call, const void *bytes, size_t length);
void http_call_end(struct http_call *call);
bool http_call_is_full(const struct http_call *call); /* wait for on_drain */

void http_call_pause(struct http_call *call); /* no on_body until resumed */
void http_call_resume(struct http_call *call);
void http_call_cancel(struct http_call *call); /* accepts NULL */

/* In on_error: the connection could not even be tried now, and may be later (http/connector.h). */
bool http_call_is_untried(const struct http_call *call);

/* A small request and its whole small answer, for talking to our own programs. on_done gets status
 * 0 and err on failure, else status and body (borrowed). Returns a handle for http_call_cancel().
 */
typedef void http_fetch_fn(int status, const char *body, size_t length, const struct error *err,
                           void *ctx);
struct http_call *http_client_fetch(struct http_client *client, const struct http_address *address,
                                    const char *method, const char *target, const char *json,
                                    size_t json_length, size_t max_answer_bytes,
                                    uint64_t timeout_ms, http_fetch_fn *on_done, void *ctx);
