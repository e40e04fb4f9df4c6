/* Heads of requests and responses, how they are framed, and how they are written. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "http/headers.h"

#define HTTP_HEAD_MAX   (64 * 1024)
#define HTTP_METHOD_MAX 32

/* How the body after a head ends. */
enum http_framing {
    HTTP_NO_BODY,
    HTTP_LENGTH, /* content_length bytes */
    HTTP_CHUNKED,
    HTTP_UNTIL_CLOSE, /* responses only */
};

struct http_head {
    char method[HTTP_METHOD_MAX]; /* requests: as received; responses: "" */
    char *target;                 /* requests: exactly the bytes received ("/a%2Fb?x=1") */
    int status;                   /* responses */
    int minor;                    /* HTTP/1.minor: 0 or 1 */
    struct http_headers headers;
    enum http_framing framing;
    uint64_t content_length; /* with HTTP_LENGTH */
    bool keep_alive;         /* the connection may carry another message after this one */
    bool upgrade;            /* request: Connection: upgrade with Upgrade:, or CONNECT */
    bool expect_continue;    /* request: Expect: 100-continue */
};

void http_head_init(struct http_head *head);
void http_head_done(struct http_head *head);

/* "Not Found"; "Unknown" for codes we have no name for. */
const char *http_status_text(int status);

/* Does a response with this status to this request method have a body at all? (1xx, 204, 304, HEAD)
 */
bool http_response_has_body(const char *request_method, int status);

/* Append the head to `out`, framing headers included: Content-Length or Transfer-Encoding and
 * Connection are written from framing/content_length/keep_alive/minor, and members of those names
 * in `headers` are left out, so that they can never disagree. An `upgrade` head instead keeps its
 * own Connection and Upgrade fields. -EMSGSIZE when `out` is full, -EINVAL when the head cannot be
 * sent (chunks in HTTP/1.0, a method or target that breaks the line); nothing is added then. */
int http_head_write_request(const struct http_head *head, struct buf *out);
int http_head_write_response(const struct http_head *head, struct buf *out);
