/* /proxy/{port}/...: the way to a program of the sandbox that listens on 127.0.0.1:{port}.
 *
 * Path and query go on byte for byte, request and answer are streamed, upgrades are tunnelled. A
 * port that is ours is not called but served: /proxy/44772/command is /command, since that is where
 * some runtimes send every request. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

/* /proxy/44772/proxy/44772/... is followed so many times. */
#define EXECD_PROXY_NESTING_MAX 4

/* One "/proxy/{port}" at the beginning of a target; `rest` is what follows, as it was written:
 * "/a%2Fb?x=1", "?x=1" or "". */
struct execd_proxy_path {
    int port;
    const char *rest; /* borrowed from the target */
};

enum execd_proxy_parse { EXECD_PROXY_NONE, EXECD_PROXY_BAD_PORT, EXECD_PROXY_OK };
enum execd_proxy_parse execd_proxy_parse(const char *target, struct execd_proxy_path *ret);

void execd_proxy_handle(struct http_exchange *exchange, const struct http_route_match *match,
                        void *execd);

/* Cuts what is open. */
void execd_proxy_done(struct execd *execd);
