/* A sandbox as the server knows it: what was asked for, and in which state it is. Env is not part
 * of it: it may hold secrets, goes to the runtime once and is stored nowhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "model/labels.h"
#include "model/limits.h"
#include "model/string_list.h"

/* Pending -> Running -> (Pausing -> Paused -> Resuming -> Running) -> Stopping -> gone;
 * Terminated and Failed are final: the sandbox stays visible until it is deleted or expires. */
enum sandbox_state {
    SANDBOX_PENDING,
    SANDBOX_RUNNING,
    SANDBOX_PAUSING,
    SANDBOX_PAUSED,
    SANDBOX_RESUMING,
    SANDBOX_STOPPING,
    SANDBOX_TERMINATED,
    SANDBOX_FAILED,
};
#define SANDBOX_STATE_COUNT 8

const char *sandbox_state_name(enum sandbox_state state);           /* "Pending" ... */
int sandbox_state_parse(const char *name, enum sandbox_state *ret); /* without case; -EINVAL */

struct sandbox {
    char id[ID_UUID_LEN + 1];
    char *image;
    struct string_list entrypoint; /* exactly as in the request */
    struct labels metadata;
    struct limits limits;
    char *platform_os; /* NULL both, unless the request had a platform */
    char *platform_arch;
    int64_t created_at_ms;
    int64_t expires_at_ms; /* 0: never */
    enum sandbox_state state;
    char *reason;  /* machine-readable, or NULL */
    char *message; /* for people, or NULL */
    int64_t last_transition_at_ms;
    char execd_token[ID_TOKEN_LEN + 1]; /* what opens port 44772 */
};

void sandbox_done(struct sandbox *sandbox); /* frees; zeroed and usable again */

bool sandbox_may_become(enum sandbox_state from, enum sandbox_state to);

/* The one way to change the state. ERR_CONFLICT, and nothing changed, when `from` does not lead to
 * `to`. */
int sandbox_set_state(struct sandbox *sandbox, enum sandbox_state to, const char *reason,
                      const char *message, int64_t now_ms, struct error *err);
