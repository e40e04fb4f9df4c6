#include "model/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static const char *const names[SANDBOX_STATE_COUNT] = {
    [SANDBOX_PENDING] = "Pending",       [SANDBOX_RUNNING] = "Running",
    [SANDBOX_PAUSING] = "Pausing",       [SANDBOX_PAUSED] = "Paused",
    [SANDBOX_RESUMING] = "Resuming",     [SANDBOX_STOPPING] = "Stopping",
    [SANDBOX_TERMINATED] = "Terminated", [SANDBOX_FAILED] = "Failed",
};

#define BIT(state) (1u << (state))
#define ENDS       (BIT(SANDBOX_STOPPING) | BIT(SANDBOX_TERMINATED) | BIT(SANDBOX_FAILED))

/* Where each state may lead. Every living state may end; a final one may only be deleted. */
static const unsigned successors[SANDBOX_STATE_COUNT] = {
    [SANDBOX_PENDING] = BIT(SANDBOX_RUNNING) | ENDS,
    [SANDBOX_RUNNING] = BIT(SANDBOX_PAUSING) | ENDS,
    [SANDBOX_PAUSING] = BIT(SANDBOX_PAUSED) | BIT(SANDBOX_RUNNING) | ENDS,
    [SANDBOX_PAUSED] = BIT(SANDBOX_RESUMING) | ENDS,
    [SANDBOX_RESUMING] = BIT(SANDBOX_RUNNING) | BIT(SANDBOX_PAUSED) | ENDS,
    [SANDBOX_STOPPING] = BIT(SANDBOX_TERMINATED) | BIT(SANDBOX_FAILED),
    [SANDBOX_TERMINATED] = BIT(SANDBOX_STOPPING),
    [SANDBOX_FAILED] = BIT(SANDBOX_STOPPING),
};

const char *sandbox_state_name(enum sandbox_state state)
{
    return names[state];
}

int sandbox_state_parse(const char *name, enum sandbox_state *ret)
{
    for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
        if (str_equal_nocase(name, names[i])) {
            *ret = (enum sandbox_state)i;
            return 0;
        }
    }
    return -EINVAL;
}

void sandbox_done(struct sandbox *sandbox)
{
    free(sandbox->image);
    string_list_done(&sandbox->entrypoint);
    labels_done(&sandbox->metadata);
    free(sandbox->platform_os);
    free(sandbox->platform_arch);
    free(sandbox->reason);
    free(sandbox->message);
    explicit_bzero(sandbox->execd_token, sizeof(sandbox->execd_token));
    *sandbox = (struct sandbox){0};
}

bool sandbox_may_become(enum sandbox_state from, enum sandbox_state to)
{
    return (successors[from] & BIT(to)) != 0;
}

int sandbox_set_state(struct sandbox *sandbox, enum sandbox_state to, const char *reason,
                      const char *message, int64_t now_ms, struct error *err)
{
    if (!sandbox_may_become(sandbox->state, to))
        return error_set(err, ERR_CONFLICT, "sandbox %s is %s and cannot become %s", sandbox->id,
                         names[sandbox->state], names[to]);
    sandbox->state = to;
    free(sandbox->reason);
    free(sandbox->message);
    sandbox->reason = mem_dup(reason);
    sandbox->message = mem_dup(message);
    sandbox->last_transition_at_ms = now_ms;
    return 0;
}
