/* What the sandbox uses of processor and memory. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

void execd_metrics_handle_get(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd);
void execd_metrics_handle_watch(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd);
