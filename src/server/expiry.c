#include "server/expiry.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

/* Never further ahead than this: the timer runs on the monotonic clock, and the wall clock may be
 * set or the machine may sleep meanwhile. */
#define STEP_MAX_MS 60000
/* When something due could not be removed. */
#define RETRY_MS 1000
/* Removals begun in one go. */
#define BATCH_MAX 64

struct server_expiry {
    struct server_expiry_config config;
    uv_timer_t timer;
    int64_t next_ms; /* what the timer is set for; 0: nothing */
};

static void on_timer(uv_timer_t *timer)
{
    server_expiry_run(timer->data);
}

struct server_expiry *server_expiry_new(const struct server_expiry_config *config)
{
    struct server_expiry *expiry = mem_alloc(sizeof(*expiry));
    expiry->config = *config;
    uv_timer_init(config->loop, &expiry->timer);
    expiry->timer.data = expiry;
    return expiry;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

struct server_expiry *server_expiry_free(struct server_expiry *expiry)
{
    if (expiry != NULL)
        uv_close((uv_handle_t *)&expiry->timer, on_closed);
    return NULL;
}

static void set_timer(struct server_expiry *expiry, int64_t at_ms, int64_t least_ms)
{
    int64_t wait_ms = at_ms - expiry->config.now_ms();
    wait_ms = MAX(wait_ms, least_ms);
    expiry->next_ms = at_ms;
    uv_timer_start(&expiry->timer, on_timer, (uint64_t)MIN(wait_ms, (int64_t)STEP_MAX_MS), 0);
}

void server_expiry_note(struct server_expiry *expiry, int64_t expires_at_ms)
{
    if (expiry->next_ms == 0 || expires_at_ms < expiry->next_ms)
        set_timer(expiry, expires_at_ms, 0);
}

static void remove_due(struct server_expiry *expiry)
{
    struct string_list due = {0};
    struct error err = ERROR_INIT;
    if (store_list_expired(expiry->config.store, expiry->config.now_ms(), BATCH_MAX, &due, &err) <
        0)
        log_error("cannot look for expired sandboxes: %s", err.message);
    for (size_t i = 0; i < due.count; i++) {
        if (server_lifecycle_is_busy(expiry->config.lifecycle, due.items[i]))
            continue;
        if (server_lifecycle_remove(expiry->config.lifecycle, due.items[i], NULL, NULL, &err) < 0)
            log_error("cannot remove expired sandbox %s: %s", due.items[i], err.message);
        else
            log_info("sandbox %s expired", due.items[i]);
    }
    string_list_done(&due);
}

void server_expiry_run(struct server_expiry *expiry)
{
    expiry->next_ms = 0;
    uv_timer_stop(&expiry->timer);
    if (!server_lifecycle_is_available(expiry->config.lifecycle))
        return; /* run again when the runtime is back */
    remove_due(expiry);
    int64_t next_ms = 0;
    struct error err = ERROR_INIT;
    if (store_next_expiry(expiry->config.store, &next_ms, &err) < 0) {
        log_error("cannot find the next expiry: %s", err.message);
        next_ms = expiry->config.now_ms();
    }
    /* What is due now is being removed, or failed: look again a little later. */
    if (next_ms != 0)
        set_timer(expiry, next_ms, next_ms <= expiry->config.now_ms() ? RETRY_MS : 0);
}
