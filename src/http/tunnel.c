#include "http/tunnel.h"

#include <stdlib.h>

#include "base/mem.h"
#include "http/client_internal.h"

struct side {
    struct http_tunnel *tunnel;
    struct http_stream *stream;
    struct side *other;
    bool ended; /* sends no more */
};

struct http_tunnel {
    struct http_client_guest guest;
    struct http_client *client;
    struct side sides[2];
};

static void tunnel_free(struct http_tunnel *tunnel)
{
    http_client_remove_guest(tunnel->client, &tunnel->guest);
    free(tunnel);
}

static void on_data(void *ctx, const char *bytes, size_t length)
{
    struct side *side = ctx;
    http_stream_write(side->other->stream, bytes, length);
    if (http_stream_is_full(side->other->stream))
        http_stream_read_stop(side->stream);
}

static void on_drain(void *ctx)
{
    struct side *side = ctx;
    if (!side->other->ended)
        http_stream_read_start(side->other->stream);
}

static void on_end(void *ctx)
{
    struct side *side = ctx;
    side->ended = true;
    if (!side->other->ended) {
        http_stream_shutdown(side->other->stream);
        return;
    }
    http_stream_close_after_write(side->stream);
    http_stream_close_after_write(side->other->stream);
    tunnel_free(side->tunnel);
}

static void on_error(void *ctx, int status)
{
    struct side *side = ctx;
    (void)status;
    http_stream_close(side->stream);
    http_stream_close_after_write(side->other->stream);
    tunnel_free(side->tunnel);
}

static const struct http_stream_events events = {
    .on_data = on_data,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_error = on_error,
};

static void cut(struct http_client_guest *guest)
{
    struct http_tunnel *tunnel = CONTAINER_OF(guest, struct http_tunnel, guest);
    http_stream_close(tunnel->sides[0].stream);
    http_stream_close(tunnel->sides[1].stream);
    tunnel_free(tunnel);
}

void http_tunnel_start(struct http_client *client, struct http_stream *a, struct http_stream *b)
{
    struct http_tunnel *tunnel = mem_alloc(sizeof(*tunnel));
    tunnel->client = client;
    tunnel->guest.cut = cut;
    http_client_add_guest(client, &tunnel->guest);
    tunnel->sides[0] = (struct side){.tunnel = tunnel, .stream = a, .other = &tunnel->sides[1]};
    tunnel->sides[1] = (struct side){.tunnel = tunnel, .stream = b, .other = &tunnel->sides[0]};
    for (size_t i = 0; i < ARRAY_LEN(tunnel->sides); i++) {
        http_stream_set_events(tunnel->sides[i].stream, &events, &tunnel->sides[i]);
        http_stream_read_start(tunnel->sides[i].stream);
    }
}
