/* HTTP/1.1 server: listens on TCP or unix sockets and hands each request to one function as a
 * `struct http_exchange`: a request and its answer.
 *
 * Rules of an exchange
 * - It is born in on_request when the head is complete, and belongs to the server. It ends when the
 *   answer was ended and the request body was read to its end (the server discards what the handler
 *   did not read, up to 1 MiB, else closes the connection), or when the connection breaks.
 * - A handler answers exactly once: http_exchange_reply(), or begin() + write()* + end(). Until it
 *   has answered it may keep the pointer for as long as on_close has not been called.
 * - on_close is called exactly once for every exchange that set it, when the exchange is over for
 *   whatever reason; `completed` tells whether the whole answer was handed to the kernel. After it
 *   the pointer is dead. A handler that keeps state per exchange frees it there and nowhere else.
 * - None of the functions of an exchange calls back from inside the call.
 * - After end() or reply() no more of the request body is delivered, and the functions of the
 * answer do nothing; so a late answer to a request that the server refused meanwhile is harmless.
 *
 * The server itself answers 400, 408, 413, 431, 501, 505 as JSON {"code","message"} where a request
 * breaks the rules of http/parser.h or of the limits, closes idle and stalled connections, and
 * sends 100-continue when the handler starts to read a body that asked for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "http/message.h"
#include "http/stream.h"

struct http_server;
struct http_exchange;

struct http_server_limits {
    size_t connections;        /* at once; more are accepted and closed. default 4096 */
    uint64_t head_timeout_ms;  /* first byte of a head to its last. default 15,000 */
    uint64_t idle_timeout_ms;  /* between requests. default 120,000 (clients reuse up to 90 s) */
    uint64_t stall_timeout_ms; /* body or answer without progress while wanted. default 60,000 */
};

struct http_server_config {
    uv_loop_t *loop;
    void (*on_request)(struct http_exchange *exchange, void *ctx);
    void *ctx;
    struct http_server_limits limits; /* members that are 0 take their defaults */
};

struct http_server *http_server_new(const struct http_server_config *config);

/* Several listeners are allowed. Port 0 takes a free one; *ret_port (may be NULL) tells which. */
int http_server_listen_tcp(struct http_server *server, const char *ip, int port, int *ret_port,
                           struct error *err);
/* An inherited or self-made listening socket (unix or TCP); ownership moves to the server. */
int http_server_listen_fd(struct http_server *server, int fd, struct error *err);

/* Stop accepting, cut every connection (on_close runs for open exchanges, here and now), release.
 * The loop must run once more for libuv to finish. Accepts NULL, returns NULL. */
struct http_server *http_server_free(struct http_server *server);

size_t http_server_connection_count(const struct http_server *server);

/* --- request ---------------------------------------------------------------------------------- */

const struct http_head *http_exchange_head(const struct http_exchange *exchange);
const char *http_exchange_peer(const struct http_exchange *exchange);
uv_loop_t *http_exchange_loop(const struct http_exchange *exchange);

/* The target split at '?': raw bytes, still percent-encoded. query is "" when there is none. */
const char *http_exchange_path(const struct http_exchange *exchange);
const char *http_exchange_query(const struct http_exchange *exchange);

/* Have the request ask for something else, for whoever dispatches it again. Everything that was
 * borrowed from the old target is dead. */
void http_exchange_set_target(struct http_exchange *exchange, const char *target);

/* Collect the whole body, then call back once with it (NUL-terminated; borrowed during the call).
 * Over max_bytes the server answers 413 itself and the callback never runs. */
typedef void http_exchange_body_fn(struct http_exchange *exchange, const char *body, size_t length,
                                   void *ctx);
void http_exchange_collect(struct http_exchange *exchange, size_t max_bytes,
                           http_exchange_body_fn *on_body, void *ctx);

/* Or stream it. on_data is followed by on_end exactly once, unless the exchange closes first. */
struct http_body_events {
    void (*on_data)(struct http_exchange *exchange, const char *bytes, size_t length, void *ctx);
    void (*on_end)(struct http_exchange *exchange, void *ctx);
};
void http_exchange_read_body(struct http_exchange *exchange, const struct http_body_events *events,
                             void *ctx);
void http_exchange_pause_body(struct http_exchange *exchange); /* no on_data until resumed */
void http_exchange_resume_body(struct http_exchange *exchange);

/* --- answer ----------------------------------------------------------------------------------- */

/* Extra response fields, before reply() or begin(). Ignored (and false) when the server refuses the
 * name or value, see http_headers_add(). */
bool http_exchange_set_header(struct http_exchange *exchange, const char *name, const char *value);
bool http_exchange_add_header(struct http_exchange *exchange, const char *name, const char *value);

/* A whole answer. content_type NULL: no such field; length 0 gives Content-Length: 0. */
void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const void *body, size_t length);
/* {"code": code, "message": formatted}: every error we answer looks like this. */
void http_exchange_reply_error(struct http_exchange *exchange, int status, const char *code,
                               const char *format, ...) PRINTF_LIKE(4, 5);

/* A streamed answer: length >= 0 announces Content-Length (exactly so many bytes must be written),
 * -1 means chunked (or until close for HTTP/1.0 clients). end() after less than was announced cuts
 * the connection, so that a short body is never taken for a whole one. */
void http_exchange_begin(struct http_exchange *exchange, int status, int64_t length);
void http_exchange_write(struct http_exchange *exchange, const void *bytes, size_t length);
/* The next bytes of the body from a file, `length` of them at most and as many as can go in one
 * turn; where possible the kernel copies them. Returns how many, 0 when the file ends at `offset`,
 * or -errno when it cannot be read. Afterwards ask is_full(). */
#define HTTP_FILE_TURN_BYTES (1024 * 1024)
ssize_t http_exchange_write_file(struct http_exchange *exchange, int fd, uint64_t offset,
                                 size_t length);
void http_exchange_end(struct http_exchange *exchange);
void http_exchange_abort(
    struct http_exchange *exchange); /* cut now: the answer cannot be finished */

bool http_exchange_is_begun(const struct http_exchange *exchange);
/* Wait for on_drain, which comes for certain unless the exchange closes. */
bool http_exchange_is_full(const struct http_exchange *exchange);

/* Switching protocols: forget HTTP, the caller owns the stream from now on. `*ret_rest` are bytes
 * that arrived after the head (borrowed until the caller returns to the loop). on_close runs with
 * completed = true, later. Only for requests whose head says upgrade, whose body (if any) has
 * arrived, and before any answer; else NULL. The caller sets the stream's events at once and starts
 * reading. */
struct http_stream *http_exchange_take_stream(struct http_exchange *exchange, const char **ret_rest,
                                              size_t *ret_rest_length);

/* --- life ------------------------------------------------------------------------------------- */

typedef void http_exchange_close_fn(struct http_exchange *exchange, bool completed, void *ctx);
typedef void http_exchange_drain_fn(struct http_exchange *exchange, void *ctx);
void http_exchange_on_close(struct http_exchange *exchange, http_exchange_close_fn *fn, void *ctx);
void http_exchange_on_drain(struct http_exchange *exchange, http_exchange_drain_fn *fn, void *ctx);
