/* The shell of a session: a bash that is started when it is first needed and again when it has
 * died, and runs one command text at a time. Knows nothing of HTTP.
 *
 * Stays from run to run: variables, functions, aliases, working directory, umask, shell options,
 * traps, positional parameters, `$?`, jobs, open files above 2. Standard input, output and error
 * belong to a run: what `exec >file` does to them ends with it.
 *
 * When bash dies (exit, `set -e`, exec, kill), the next run gets a new one with what the old one
 * saved: at its exit, or else after the run before. Not saved are jobs (they live on, but no shell
 * knows them), open files, the directory stack, and a state over EXECD_SESSION_STATE_MAX bytes. A
 * function that calls exit leaves its local variables behind as global ones.
 *
 * A run that is interrupted or takes too long is given up by bash, which stays as it is; what the
 * run has started gets the signal, what earlier runs left in the background does not. A bash that
 * does not obey is killed in the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "execd/credentials.h"
#include "execd/env.h"
#include "execd/process.h"

#define EXECD_SESSION_STATES_MAX (32 * 1024 * 1024) /* bytes saved, for all shells together */

struct execd;
struct execd_session_shell;

/* Callbacks never run inside a call. */
struct execd_session_shell_events {
    void (*on_output)(void *ctx, enum execd_output which, const char *bytes, size_t length);
    /* Once for each run. A killed one tells SIGKILL, an interrupted one SIGINT. */
    void (*on_run_end)(void *ctx, const struct execd_process_result *result);
    void (*on_over)(void *ctx); /* after end(): the pointer is dead */
};

/* Takes what `env` holds. `cwd` is where the first bash starts. `states` counts the bytes saved by
 * all shells that share it. */
struct execd_session_shell *execd_session_shell_new(struct execd *execd, struct execd_env *env,
                                                    const char *cwd,
                                                    const struct execd_credentials *credentials,
                                                    size_t *states,
                                                    const struct execd_session_shell_events *events,
                                                    void *ctx);

/* Not while another run is going on. timeout_ms 0: none; it counts from now. */
int execd_session_shell_run(struct execd_session_shell *shell, const char *code, const char *cwd,
                            uint64_t timeout_ms, struct error *err);
void execd_session_shell_interrupt(struct execd_session_shell *shell);
void execd_session_shell_pause(struct execd_session_shell *shell); /* idempotent, as is resume */
void execd_session_shell_resume(struct execd_session_shell *shell);

/* SIGTERM to everything that was started in the session, SIGKILL to what is left a second later
 * (with `now`, at once). A run that is going on ends as killed. */
void execd_session_shell_end(struct execd_session_shell *shell, bool now);

/* The working directory after the last run. */
const char *execd_session_shell_cwd(const struct execd_session_shell *shell);
const struct execd_env *execd_session_shell_env(const struct execd_session_shell *shell);
