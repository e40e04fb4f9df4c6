/* Making store and runtime agree, at start and whenever the runtime was away: what only the runtime
 * has is removed, what only the store has is lost, what ended meanwhile is recorded, and what was
 * half made or half removed is cleared away. */
#pragma once

#include "server/lifecycle.h"

struct server_reconcile_config {
    struct store *store;
    struct runtime *runtime;
    struct server_lifecycle *lifecycle;
    int64_t (*now_ms)(void);
};

/* `done` once, later: err when the runtime could not be asked or the store failed. */
void server_reconcile_start(const struct server_reconcile_config *config, runtime_done_fn *done,
                            void *ctx);
