#include "execd/proxy.h"

#include "execd/reply.h"

void execd_proxy_handle(struct http_exchange *exchange, const struct http_route_match *match,
                        void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}
