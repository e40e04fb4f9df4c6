/* Which request goes where, and who may ask. */
#pragma once

#include "execd/execd.h"
#include "http/server.h"

/* Context of a listener. /internal/ exists only where `internal` is set: on the socket inherited
 * from the runtime, never on TCP. */
struct execd_listener {
    struct execd *execd;
    bool internal;
};

/* on_request of http/server.h; ctx is a struct execd_listener. */
void execd_routes_handle(struct http_exchange *exchange, void *listener);

/* A request that was let in already, under a new target: what is public, and nothing else. */
void execd_routes_dispatch(struct http_exchange *exchange, struct execd *execd);
