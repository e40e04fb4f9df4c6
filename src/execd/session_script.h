/* What execd says to the bash of a session, as text for bash. Pure: no I/O.
 *
 * bash is interactive, since only an interactive one returns to its top level, with everything it
 * knows, when it is interrupted; but it has no terminal, no prompt and no history, and reads lines
 * from a pipe. Users see nothing of that (no "[1] 4711" for a job, no "exit"): what they run is
 * started from PROMPT_COMMAND, where bash behaves as in a script, at its top level and in no
 * function, so that `declare` makes no locals.
 *
 * bash answers on a pipe of its own, see execd/session_frames.h. That pipe and the ones behind
 * standard output and error are close-on-exec in bash, so no program started there has them.
 *
 * What bash keeps for execd is the function __execd and variables named __execd_*. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* Where bash finds its files at the start. It moves them to numbers 89 to 92 of its own. */
#define EXECD_SESSION_FD_CONTROL 93
#define EXECD_SESSION_FD_STDOUT  94
#define EXECD_SESSION_FD_STDERR  95
#define EXECD_SESSION_FD_NOTHING 96 /* standard input of what the user runs */

/* Tells bash to give up what it runs. A real-time signal, since scripts trap none of those; bash
 * runs the trap when the foreground program has ended, before the next command. */
#define EXECD_SESSION_STOP_SIGNAL 61

/* How bash is called. */
extern const char *const execd_session_script_arguments[]; /* NULL-terminated, without argv[0] */

/* The first text for a new bash: what it shall do for us, then the state saved from an earlier one
 * (or none: length 0), then `nonce` for frames that belong to no run. */
int execd_session_script_start(struct buf *out, const char *nonce, const char *state,
                               size_t length);

/* Run `code`, after entering `cwd` (NULL: stay). With `wrap` look for an EXIT trap of the user's
 * first. */
int execd_session_script_run(struct buf *out, const char *nonce, const char *code, const char *cwd,
                             bool wrap);

/* Does the shell with this state save it when it exits? Not when a file that the user sourced has
 * replaced the EXIT trap. */
bool execd_session_script_is_wrapped(const char *state);

/* After an interruption: tell the end, if it was not told yet. */
int execd_session_script_end(struct buf *out);

/* These return 0, or -EMSGSIZE when `out` is full. */

/* A command, on one line, that gives the variable these bytes (any but NUL). It takes at most five
 * times the length, plus 40. */
int execd_session_script_assign(struct buf *out, const char *name, const char *bytes,
                                size_t length);
