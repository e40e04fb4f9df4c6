/* Strict incremental HTTP/1 parser: bytes in, events out, no I/O. One parser per connection and
 * direction; it is used for every message on that connection in turn.
 *
 * A request or response whose framing two implementations could read differently is refused:
 * two Content-Length fields (even equal ones), Content-Length with Transfer-Encoding, a
 * Transfer-Encoding other than exactly "chunked" (or in HTTP/1.0), a bare LF or bare CR anywhere in
 * head, chunk lines or trailers, obs-fold, space before the colon, bad chunk sizes or chunk
 * extensions over 1 KiB, missing or repeated Host (1.1 requests; repeated also in 1.0), an empty
 * or malformed Host, versions other than 1.0 and 1.1, control characters, a target that is neither
 * origin-form nor (OPTIONS only) "*". Trailers are checked, bounded like a head, and dropped.
 *
 * The head is bounded by HTTP_HEAD_MAX bytes and HTTP_HEADER_COUNT_MAX fields.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "http/message.h"

enum http_parser_kind { HTTP_PARSE_REQUESTS, HTTP_PARSE_RESPONSES };

/* Each may return non-zero to stop: http_parser_feed() then returns after the bytes that led to the
 * event, and is called again later with the rest. They must not free the parser. */
struct http_parser_events {
    int (*on_head)(void *ctx, struct http_head *head); /* borrowed until on_complete returns */
    int (*on_body)(void *ctx, const char *bytes, size_t length);
    int (*on_complete)(void *ctx);
};

struct http_parser;

struct http_parser *http_parser_new(enum http_parser_kind kind,
                                    const struct http_parser_events *events, void *ctx);
struct http_parser *http_parser_free(struct http_parser *parser); /* accepts NULL, returns NULL */

/* Responses only: the method of the request that the next response answers (HEAD has no body). */
void http_parser_expect_response_to(struct http_parser *parser, const char *method);

/* Feed bytes. Returns how many were consumed: fewer than `length` when an event asked to stop, when
 * a message was completed (so pipelined bytes wait for their turn), or when an upgrade request's or
 * a 101 response's head was seen (what follows is not HTTP). Feeding nothing (length 0) is allowed
 * and delivers what an earlier stop held back: on_complete, when no more bytes belong to the
 * message. An upgrade request that was not taken goes on in the same way, as one without body.
 *
 * Negative on a violation; err.code is then ERR_INVALID (400), ERR_LIMIT (431) or ERR_UNSUPPORTED
 * (err.sys EPROTONOSUPPORT: 505; EOPNOTSUPP, an unknown transfer coding or method: 501), and the
 * parser is dead. */
ssize_t http_parser_feed(struct http_parser *parser, const char *bytes, size_t length,
                         struct error *err);

/* The peer closed. 0 when that was a legal place (between messages, or the end of an
 * HTTP_UNTIL_CLOSE body: on_complete is called); negative when a message was cut. */
int http_parser_end(struct http_parser *parser, struct error *err);

bool http_parser_is_idle(const struct http_parser *parser); /* between two messages */
bool http_parser_in_head(const struct http_parser *parser); /* some bytes of a head, not all */
