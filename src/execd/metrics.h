/* What the sandbox uses of processor and memory.
 *
 * GET /metrics answers with one sample, GET /metrics/watch with one at once and then one a second,
 * as an event stream. The use of processors is a difference between two looks: while somebody asks,
 * a look is taken every second and kept, so that an answer needs no waiting. The first answer after
 * a pause waits a tenth of a second for its second look; nothing is looked at when nobody asks. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_METRICS_WATCHERS_MAX 64

void execd_metrics_handle_get(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd);
void execd_metrics_handle_watch(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd);

/* After the servers are gone. */
void execd_metrics_done(struct execd *execd);
