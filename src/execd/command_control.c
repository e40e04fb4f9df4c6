#include "execd/command.h"

#include "execd/reply.h"

void execd_command_handle_interrupt(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_command_handle_status(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_command_handle_logs(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_command_handle_stream(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_command_handle_stdin(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_command_handle_stdin_close(struct http_exchange *exchange,
                                      const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_command_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}
