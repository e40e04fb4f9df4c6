#include "http/client.h"

#include <stdlib.h>

#include "base/mem.h"
#include "http/client_internal.h"

#define SWEEP_GRAIN_MS  50
#define IDLE_TIMEOUT_MS 30000
#define IDLE_MAX        256

static uint64_t on_sweep(struct http_schedule *schedule, uint64_t now_ms)
{
    struct http_client *client = CONTAINER_OF(schedule, struct http_client, schedule);
    uint64_t next_ms = http_pool_sweep(client, now_ms);
    struct http_call *call = TAILQ_FIRST(&client->calls);
    while (call != NULL) {
        uint64_t deadline_ms = http_call_deadline(call);
        if (deadline_ms <= now_ms) {
            /* The callback may cancel any other call, so start over. */
            http_call_expire(call);
            if (client->closing)
                return HTTP_NO_DEADLINE;
            call = TAILQ_FIRST(&client->calls);
            next_ms = http_pool_sweep(client, now_ms);
            continue;
        }
        next_ms = MIN(next_ms, deadline_ms);
        call = TAILQ_NEXT(call, link);
    }
    return next_ms;
}

struct http_client *http_client_new(const struct http_client_config *config)
{
    struct http_client *client = mem_alloc(sizeof(*client));
    client->config = *config;
    if (client->config.idle_timeout_ms == 0)
        client->config.idle_timeout_ms = IDLE_TIMEOUT_MS;
    if (client->config.idle_max == 0)
        client->config.idle_max = IDLE_MAX;
    TAILQ_INIT(&client->calls);
    TAILQ_INIT(&client->pool);
    TAILQ_INIT(&client->guests);
    http_schedule_init(&client->schedule, config->loop, SWEEP_GRAIN_MS, on_sweep);
    return client;
}

static void on_schedule_closed(struct http_schedule *schedule)
{
    free(CONTAINER_OF(schedule, struct http_client, schedule));
}

struct http_client *http_client_free(struct http_client *client)
{
    if (client == NULL)
        return NULL;
    client->closing = true;
    while (!TAILQ_EMPTY(&client->calls))
        http_call_cancel(TAILQ_FIRST(&client->calls));
    while (!TAILQ_EMPTY(&client->guests)) {
        struct http_client_guest *guest = TAILQ_FIRST(&client->guests);
        guest->cut(guest);
    }
    http_pool_drop(client, NULL);
    http_schedule_close(&client->schedule, on_schedule_closed);
    return NULL;
}

void http_client_drop(struct http_client *client, const struct http_address *address)
{
    http_pool_drop(client, address);
}

void http_client_add_guest(struct http_client *client, struct http_client_guest *guest)
{
    TAILQ_INSERT_TAIL(&client->guests, guest, link);
}

void http_client_remove_guest(struct http_client *client, struct http_client_guest *guest)
{
    TAILQ_REMOVE(&client->guests, guest, link);
}
