#include "server/later.h"

#include <stdlib.h>

#include "base/mem.h"

struct server_later {
    struct http_exchange *exchange; /* NULL once closed */
    bool finished;
};

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    struct server_later *later = ctx;
    (void)exchange;
    (void)completed;
    later->exchange = NULL;
    if (later->finished)
        free(later);
}

struct server_later *server_later_new(struct http_exchange *exchange)
{
    struct server_later *later = mem_alloc(sizeof(*later));
    later->exchange = exchange;
    http_exchange_on_close(exchange, on_close, later);
    return later;
}

struct http_exchange *server_later_finish(struct server_later *later)
{
    struct http_exchange *exchange = later->exchange;
    later->finished = true;
    if (exchange == NULL)
        free(later);
    return exchange;
}
