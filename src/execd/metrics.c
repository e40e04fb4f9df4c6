#include "execd/metrics.h"

#include "execd/reply.h"

void execd_metrics_handle_get(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_metrics_handle_watch(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}
