/* Removes sandboxes whose time has come. One timer for the earliest expiry in the store, which is
 * where expiries live: a restart forgets nothing. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "server/lifecycle.h"
#include "store/store.h"

struct server_expiry;

struct server_expiry_config {
    uv_loop_t *loop;
    struct store *store;
    struct server_lifecycle *lifecycle;
    int64_t (*now_ms)(void);
};

struct server_expiry *server_expiry_new(const struct server_expiry_config *config);
struct server_expiry *server_expiry_free(struct server_expiry *expiry); /* NULL ok, returns NULL */

/* Remove what is due and set the timer for the next. Call at start and when the runtime is back. */
void server_expiry_run(struct server_expiry *expiry);

/* A sandbox that expires then was stored. */
void server_expiry_note(struct server_expiry *expiry, int64_t expires_at_ms);
