/* A byte stream over TCP or a unix socket on a libuv loop: the one place that reads and writes
 * sockets. Output is queued, counted and bounded; input can be paused. Used by server, client and
 * proxy alike.
 *
 * The first stream sets SIGPIPE to be ignored, if it still has its default action.
 *
 * Life: the owner calls http_stream_close() exactly once; no callback runs afterwards and the
 * memory is released later by the loop. Callbacks never run inside a call that started them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/error.h"
#include "http/connector.h"

#define HTTP_ADDRESS_HOST_MAX 64

/* Where a client connects to. */
struct http_address {
    enum { HTTP_ADDRESS_TCP, HTTP_ADDRESS_UNIX, HTTP_ADDRESS_CONNECTOR } kind;
    struct sockaddr_storage tcp; /* numeric addresses only: no name look-up on the loop */
    char unix_path[108];         /* with HTTP_ADDRESS_UNIX, NUL-terminated */
    struct {
        struct http_connector *connector; /* borrowed; outlives the connections it is to make */
        char host[HTTP_ADDRESS_HOST_MAX]; /* in its own words, such as the id of a sandbox */
        int port;
    } made; /* with HTTP_ADDRESS_CONNECTOR */
};

/* "127.0.0.1" or "::1" (no names), port 1..65535. 0 or -EINVAL. */
int http_address_tcp(struct http_address *address, const char *ip, int port);
int http_address_unix(struct http_address *address, const char *path); /* -ENAMETOOLONG */
int http_address_connector(struct http_address *address, struct http_connector *connector,
                           const char *host, int port); /* -ENAMETOOLONG */

struct http_stream;

struct http_stream_events {
    void (*on_connect)(void *ctx); /* clients: connected */
    void (*on_data)(void *ctx, const char *bytes, size_t length);
    void (*on_end)(void *ctx); /* peer will send no more */
    /* The queue was over the high mark and fell below the low one, or it became empty. */
    void (*on_drain)(void *ctx);
    void (*on_error)(void *ctx, int status); /* broken: -errno (uv); close it */
};

#define HTTP_STREAM_HIGH_BYTES (256 * 1024) /* over this a writer should wait for on_drain */
#define HTTP_STREAM_LOW_BYTES  (64 * 1024)
/* A writer that never waits breaks its stream here: on_error gets UV_ENOBUFS. */
#define HTTP_STREAM_QUEUE_MAX (64 * 1024 * 1024)

/* A connection accepted on `listener` (tcp or pipe handle), or one being made. The events table is
 * borrowed and must outlive the stream. NULL only when the kernel refused (err filled). */
struct http_stream *http_stream_accept(uv_stream_t *listener,
                                       const struct http_stream_events *events, void *ctx,
                                       struct error *err);
struct http_stream *http_stream_connect(uv_loop_t *loop, const struct http_address *address,
                                        const struct http_stream_events *events, void *ctx,
                                        struct error *err);

/* Hand a live stream to another owner (keep-alive pools, upgrades). */
void http_stream_set_events(struct http_stream *stream, const struct http_stream_events *events,
                            void *ctx);

void http_stream_read_start(struct http_stream *stream); /* idempotent */
void http_stream_read_stop(struct http_stream *stream);

/* Copies and queues. Tries to write at once, so small answers cost one system call. Errors are
 * reported through on_error, never here: after what the peer had still sent was read, so that an
 * early answer is not lost to a reset. Allowed while connecting. */
void http_stream_write(struct http_stream *stream, const void *bytes, size_t length);
void http_stream_write_parts(struct http_stream *stream, const uv_buf_t *parts, unsigned count);

/* Bytes of a regular file straight from the page cache to the socket. Returns how many went, which
 * is 0 for any reason: something is queued, the socket is full, the connection or the file is
 * broken, the file ends here, the kernel cannot do this. Then read a piece and write() it: that
 * waits for room or reports what is wrong. */
size_t http_stream_send_file(struct http_stream *stream, int fd, uint64_t offset, size_t length);

size_t http_stream_queued(const struct http_stream *stream);
bool http_stream_is_full(const struct http_stream *stream); /* queued > HTTP_STREAM_HIGH_BYTES */

/* After the queue is written: shut down our direction (the peer sees EOF), or close altogether.
 * close_after_write() takes the place of close(): no callback runs after it, and a peer that stops
 * reading is cut. */
void http_stream_shutdown(struct http_stream *stream);
void http_stream_close_after_write(struct http_stream *stream);
void http_stream_close(struct http_stream *stream); /* now; unsent output is lost; accepts NULL */

/* After on_error: why a connector could not connect it. NULL when the status says all. */
const struct error *http_stream_failure(const struct http_stream *stream);

/* When did bytes last move in (milliseconds of uv_now)? For idle and stall time-outs. Output that
 * starts to wait in an empty queue counts as a move. */
uint64_t http_stream_last_read_ms(const struct http_stream *stream);
uint64_t http_stream_last_write_ms(const struct http_stream *stream);

/* For streams at rest (pools): connected, and neither bytes nor EOF wait to be read. */
bool http_stream_is_quiet(const struct http_stream *stream);

/* The memory that all reads go through may go back to the kernel; the next read brings it again.
 * For programs that mostly wait. Not from inside on_data. */
void http_stream_release_buffer(void);

/* "127.0.0.1" or "unix"; for logs and X-Forwarded-For. */
const char *http_stream_peer(const struct http_stream *stream);
