#include "execd/session.h"

#include "execd/reply.h"

void execd_session_handle_create(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_session_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_session_handle_delete(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_session_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_sessions_end(struct execd *execd)
{
    (void)execd;
}

bool execd_sessions_are_over(const struct execd *execd)
{
    (void)execd;
    return true;
}
