#include "execd/files.h"

#include "execd/reply.h"

void execd_files_handle_search(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_files_handle_move(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_files_handle_permissions(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_files_handle_replace(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_files_handle_delete(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_directories_handle_list(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_directories_handle_make(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}

void execd_directories_handle_delete(struct http_exchange *exchange,
                                     const struct http_route_match *match, void *execd)
{
    (void)match;
    (void)execd;
    execd_reply_not_built(exchange);
}
