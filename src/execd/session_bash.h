/* One living bash process: lines go in, output and frames come back. It knows of one run at a time
 * and nothing of timeouts, of a second life after its death, or of HTTP.
 *
 * A run ends when bash says so and everything that was in the pipes at that moment has been handed
 * on; background jobs may go on writing. What they write between runs is handed on as well (nobody
 * wants it), what is in the pipes when a run starts is dropped.
 *
 * A paused one is not read from: its writers block in the kernel, nothing piles up here. Frames are
 * read all the same. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "execd/credentials.h"
#include "execd/env.h"
#include "execd/process.h"

struct execd;
struct execd_session_bash;

/* Callbacks never run inside a call. */
struct execd_session_bash_events {
    void (*on_output)(void *ctx, enum execd_output which, const char *bytes, size_t length);
    void (*on_begin)(void *ctx); /* of the run: from now on it can be stopped */
    void (*on_end)(void *ctx, int status, const char *cwd);
    void (*on_state)(void *ctx, const char *text, size_t length); /* NULL: too large to keep */
    /* It is dead, the pointer too. A run that had no on_end gets none. */
    void (*on_exit)(void *ctx, const struct execd_process_result *result);
};

struct execd_session_bash_options {
    const struct execd_env *env; /* PATH in it says where bash is, besides the usual places */
    bool empty;                  /* but bash begins with nothing: `state` brings it all */
    const char *cwd;
    const struct execd_credentials *credentials; /* NULL: as execd itself */
    const char *state;                           /* as told by on_state, or NULL */
    size_t state_length;
};

/* Is there a bash that could be started with this environment? */
bool execd_session_bash_exists(const struct execd_env *env);

struct execd_session_bash *execd_session_bash_start(
    struct execd *execd, const struct execd_session_bash_options *options,
    const struct execd_session_bash_events *events, void *ctx, struct error *err);

/* Only when it is ready. `cwd` may be NULL. */
void execd_session_bash_run(struct execd_session_bash *bash, const char *code, const char *cwd);

/* Make bash give up the run that has begun and tell its end. `signal` goes to what the run has
 * started; bash itself goes back to its top level when its foreground program has ended. */
void execd_session_bash_stop(struct execd_session_bash *bash, int signal);
/* The signal to what was started since: bash may have been about to start a program. */
void execd_session_bash_stop_late(struct execd_session_bash *bash, int signal);
/* The same with SIGKILL, and with SIGINT for a bash that waits for something else. */
void execd_session_bash_stop_again(struct execd_session_bash *bash);

/* A signal to all its processes but itself; false when there are none. */
bool execd_session_bash_signal_others(struct execd_session_bash *bash, int signal);
/* SIGKILL to it and everything in its process group; with `others` to all of its session. */
void execd_session_bash_kill(struct execd_session_bash *bash, bool others);

void execd_session_bash_pause(struct execd_session_bash *bash); /* idempotent, as is resume */
void execd_session_bash_resume(struct execd_session_bash *bash);

pid_t execd_session_bash_pid(const struct execd_session_bash *bash);
bool execd_session_bash_is_alive(const struct execd_session_bash *bash); /* else on_exit follows */
/* For a run: it is alive, runs nothing and has told the state it was left in. If it only has not
 * told it yet, on_state follows; there is nothing to win by being faster, bash would not read. */
bool execd_session_bash_is_ready(const struct execd_session_bash *bash);
