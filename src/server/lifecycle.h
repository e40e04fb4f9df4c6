/* Making and ending sandboxes: the one place that changes store and runtime together.
 *
 * A row comes before the runtime is asked and goes after the runtime has let go, so that whatever
 * exists is in the store, and a crash at any point leaves something the reconcile can finish. While
 * something is under way for a sandbox it has a job; further requests for the same sandbox join it.
 *
 * Functions that return int: negative with err means nothing was begun and `done` is never called;
 * otherwise it is called exactly once, later. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/create_request.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"
#include "server/config.h"
#include "server/images.h"
#include "store/store.h"

#define SERVER_LIFECYCLE_CREATES_MAX 256

struct server_lifecycle;

struct server_lifecycle_config {
    struct store *store; /* borrowed, as is the runtime */
    struct runtime *runtime;
    const struct server_images *images; /* borrowed; NULL: none besides "host" */
    enum server_network network;        /* what a sandbox gets that asks for none by name */
    int64_t (*now_ms)(void);            /* wall clock; clock_unix_ms but in tests */
    /* A sandbox with this expiry was stored. May be NULL. */
    void (*on_expiry)(int64_t expires_at_ms, void *ctx);
    void *ctx;
};

struct server_lifecycle *server_lifecycle_new(const struct server_lifecycle_config *config);
/* After the runtime is gone (it has then finished every job). Accepts NULL, returns NULL. */
struct server_lifecycle *server_lifecycle_free(struct server_lifecycle *lifecycle);

/* While the runtime is away, requests that need it fail with ERR_UNAVAILABLE before they change
 * anything. True at first. */
void server_lifecycle_set_available(struct server_lifecycle *lifecycle, bool available);
bool server_lifecycle_is_available(const struct server_lifecycle *lifecycle);

/* On success the sandbox is Running; it is borrowed during the call. On failure nothing is left.
 * ERR_LIMIT and ERR_UNAVAILABLE may go away by themselves, ERR_INVALID is the client's. So are, of
 * volumes, ERR_DENIED, ERR_NOT_FOUND and ERR_INVALID with sys, as in runtime.h. */
typedef void server_lifecycle_created_fn(const struct error *err, const struct sandbox *sandbox,
                                         void *ctx);
int server_lifecycle_create(struct server_lifecycle *lifecycle,
                            const struct create_request *request, server_lifecycle_created_fn *done,
                            void *ctx, struct error *err);

/* One that is being made is removed as soon as it is made. ERR_NOT_FOUND at once. `done` may be
 * NULL. Once begun, a removal is finished even if the server or the launcher dies in between. */
int server_lifecycle_remove(struct server_lifecycle *lifecycle, const char *id,
                            runtime_done_fn *done, void *ctx, struct error *err);

/* The runtime says that a sandbox ended (see runtime_events): keep it as Terminated or Failed, or
 * remove it when its time was up. */
void server_lifecycle_exited(struct server_lifecycle *lifecycle,
                             const struct runtime_sandbox *sandbox);

/* Something is under way for this sandbox. */
bool server_lifecycle_is_busy(const struct server_lifecycle *lifecycle, const char *id);
