/* /proxy/{port}/...: the way to a program of the sandbox that listens on 127.0.0.1:{port}. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

void execd_proxy_handle(struct http_exchange *exchange, const struct http_route_match *match,
                        void *execd);
