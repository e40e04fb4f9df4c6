/* Somebody who makes connections that this process cannot make with an address alone, such as those
 * to a port in the network of a sandbox. An http_address can name one; see http/stream.h.
 *
 * start() returns a handle at once and never calls back from inside. `done` is called exactly once,
 * unless cancel() came before, which guarantees silence: with a connected, non-blocking stream
 * socket that is the callee's from then on, or with -1 and the reason. ERR_UNAVAILABLE and
 * ERR_LIMIT mean that it could not be tried now, and may be later; every other code is about what
 * was to be reached. There is no time-out: who waits cancels. */
#pragma once

#include "base/error.h"

struct http_connector;
struct http_connecting; /* the connector's own */

typedef void http_connected_fn(int fd, const struct error *err, void *ctx);

struct http_connector {
    struct http_connecting *(*start)(struct http_connector *self, const char *host, int port,
                                     http_connected_fn *done, void *ctx);
    void (*cancel)(struct http_connector *self, struct http_connecting *connecting);
};
