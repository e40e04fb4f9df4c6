/* A running process group whose standard output and error come back as events: what commands,
 * sessions and code contexts are made of. Knows nothing of HTTP.
 *
 * It ends when the process that was started (the group's leader) has exited and everything that was
 * in the pipes at that moment has been handed on. It does not wait for the end of the pipes: a
 * child left in the background may hold them open for ever. Such children live on; our ends are
 * closed.
 *
 * A paused process is not read from: its writers block in the kernel, nothing piles up here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "execd/reaper.h"
#include "execd/spawn.h"

struct execd;
struct execd_process;

enum execd_output { EXECD_STDOUT, EXECD_STDERR };

struct execd_process_result {
    bool started;           /* false: it never ran, `error` says why */
    struct error error;     /* with !started */
    struct execd_exit exit; /* with started */
    uint64_t duration_ms;
};

/* Callbacks never run inside a call. After on_end, which comes exactly once, the pointer is dead.
 * The first two may be NULL. */
struct execd_process_events {
    void (*on_start)(void *ctx); /* the program runs; never when it could not be started */
    /* The leader has exited, but what is in the pipes has yet to be handed on. Comes once. */
    void (*on_exit)(void *ctx, const struct execd_process_result *result);
    void (*on_output)(void *ctx, enum execd_output which, const char *bytes, size_t length);
    void (*on_end)(void *ctx, const struct execd_process_result *result);
};

/* Start it; out_fd and err_fd of `spawn` are filled in here. After timeout_ms (0: never) the whole
 * group is killed. NULL with err when no process could be made at all; what goes wrong in the new
 * process itself is told by on_end. `spawn` is not used after the call. */
struct execd_process *execd_process_start(struct execd *execd, struct execd_spawn *spawn,
                                          uint64_t timeout_ms,
                                          const struct execd_process_events *events, void *ctx,
                                          struct error *err);

/* The same with one pipe for standard output and error, so that their order is exact; all of it is
 * told as EXECD_STDOUT. */
struct execd_process *execd_process_start_joined(struct execd *execd, struct execd_spawn *spawn,
                                                 uint64_t timeout_ms,
                                                 const struct execd_process_events *events,
                                                 void *ctx, struct error *err);

void execd_process_pause(struct execd_process *process); /* idempotent, as is resume */
void execd_process_resume(struct execd_process *process);
void execd_process_kill(struct execd_process *process, int signal); /* the group */
