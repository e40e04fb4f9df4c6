/* Reverse proxy of one exchange: streams request and response with back-pressure both ways, byte
 * for byte, except what HTTP says belongs to one hop (Connection and what it names, Keep-Alive, TE,
 * Trailer, Transfer-Encoding, Upgrade, Proxy-*). Upgrades (WebSocket and any other) are tunnelled.
 *
 * The exchange is the proxy's from the call on: it answers, and watches on_close and on_drain. */
#pragma once

#include "http/client.h"
#include "http/server.h"

struct http_proxy_options {
    struct http_client *client;
    struct http_address address;
    const char *target;          /* origin-form target to send; copied */
    const char *const *drop;     /* request headers that must not pass, NULL-terminated; or NULL */
    const char *forwarded_proto; /* "http"; X-Forwarded-For/-Host/-Proto are set from this and the
                                    exchange: For appended, the others kept when present */
    const char *request_id;      /* X-Request-ID of the answer when not NULL */
    /* What to say when the upstream cannot be reached or answers nonsense: 502, 504 with this code;
     * 503 when its connector cannot try now. */
    const char *error_code;
    uint64_t response_timeout_ms; /* request sent to response head, then 504; 0: no limit */
};

void http_proxy_start(struct http_exchange *exchange, const struct http_proxy_options *options);
