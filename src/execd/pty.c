#include "execd/pty.h"

#include "execd/reply.h"

void execd_pty_handle_create(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_pty_handle_status(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_pty_handle_delete(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_pty_handle_socket(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_ptys_end(struct execd *execd)
{
    (void)execd;
}

bool execd_ptys_are_over(const struct execd *execd)
{
    (void)execd;
    return true;
}
