/* The server's side of a WebSocket (RFC 6455): handshake, messages both ways with back-pressure,
 * keepalive, close. No extensions, no subprotocols; the Origin is not looked at, so a handler must
 * not trust a request for the cookies it carries.
 *
 * Life
 * - http_websocket_start() takes the stream of an exchange; from then on on_close comes exactly
 *   once, when the connection is gone for whatever reason, and the pointer is dead after it.
 * - http_websocket_close() sends a close frame behind everything sent before and waits for the
 *   peer's, for a bounded time. Nothing but on_close is called any more, and nothing can be sent.
 * - A peer that breaks the protocol is closed with the code that says how; one that closes is
 *   answered. One that is silent for too long, or takes no output for too long, is cut.
 * - Callbacks never run inside a call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/server.h"
#include "http/websocket_frame.h"

struct http_websocket;

struct http_websocket_events {
    /* A whole message; the bytes are borrowed during the call and NUL-terminated. */
    void (*on_message)(void *ctx, bool text, const char *bytes, size_t length);
    /* Takes more after is_full(); comes also when all that waited is written. */
    void (*on_drain)(void *ctx);
    void (*on_close)(void *ctx, int code); /* the peer's, or an http_websocket_code */
};

struct http_websocket_limits {
    size_t message_bytes; /* default 1 MiB */
    uint64_t ping_ms;     /* between pings. default 30,000 */
    uint64_t silence_ms;  /* without a byte from the peer. default 60,000 */
    uint64_t stall_ms;    /* output that waits and does not move. default 10,000 */
    uint64_t close_ms;    /* for the peer's close, once ours is written. default 5,000 */
};

/* Does the request ask for a WebSocket in the right way? If not it is answered here: 426 for
 * another protocol or version, else 400. */
bool http_websocket_check(struct http_exchange *exchange);

/* Answer 101 and take the connection. Only right after http_websocket_check(), before any answer.
 * `limits` may be NULL; members that are 0 take their defaults. The events table is borrowed. */
struct http_websocket *http_websocket_start(struct http_exchange *exchange,
                                            const struct http_websocket_limits *limits,
                                            const struct http_websocket_events *events, void *ctx);

/* Text must be UTF-8. The parts are joined to one message, and copied. */
void http_websocket_send_text(struct http_websocket *socket, const char *text, size_t length);
#define HTTP_WEBSOCKET_PARTS_MAX 7
void http_websocket_send_binary(struct http_websocket *socket, const uv_buf_t *parts,
                                unsigned count);
bool http_websocket_is_full(const struct http_websocket *socket); /* wait for on_drain */

/* No on_message between pause() and resume(); what arrives waits with the peer. Both idempotent.
 * Time spent paused is no silence. */
void http_websocket_pause(struct http_websocket *socket);
void http_websocket_resume(struct http_websocket *socket);

/* `code` as http_websocket_code_is_valid() allows, `reason` of at most 123 bytes. Idempotent. */
void http_websocket_close(struct http_websocket *socket, int code, const char *reason);

/* The value of Sec-WebSocket-Accept for a Sec-WebSocket-Key. */
#define HTTP_WEBSOCKET_ACCEPT_LEN 28
void http_websocket_accept_value(const char *key, char ret[HTTP_WEBSOCKET_ACCEPT_LEN + 1]);
