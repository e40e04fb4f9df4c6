/* A shell or command on a pseudo-terminal, or on three pipes, with its input and output. Knows
 * nothing of HTTP.
 *
 * It is the leader of a session of its own. It ends when the leader has exited and everything that
 * could be read at that moment has been handed on; processes that it left in the background live
 * on, but their terminal is hung up. Apart from process.h because a terminal is one file for both
 * directions, takes input, and tells its emptiness in another way than a pipe.
 *
 * A paused process is not read from: its writers block in the kernel. Input that the program does
 * not read is queued, up to a maximum; the owner is expected to stop when is_full() says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "execd/process.h"
#include "execd/pty_request.h"

struct execd_pty_process;

#define EXECD_PTY_OUTPUT_MAX (32 * 1024 - 1) /* in one on_output: with its channel byte 32 KiB */
#define EXECD_PTY_INPUT_HIGH (64 * 1024)     /* is_full() above this ... */
#define EXECD_PTY_INPUT_LOW  (16 * 1024)     /* ... until on_input_room at this */
#define EXECD_PTY_INPUT_MAX  (EXECD_PTY_INPUT_HIGH + 1024 * 1024)

/* Callbacks never run inside a call. After on_end, which comes exactly once, the pointer is dead.
 */
struct execd_pty_process_events {
    void (*on_start)(
        void *ctx); /* the program runs; once, before any output; not if it never ran */
    void (*on_output)(void *ctx, enum execd_output which, const char *bytes, size_t length);
    void (*on_input_room)(void *ctx);
    void (*on_input_lost)(
        void *ctx); /* the program has closed its input; what was queued is lost */
    void (*on_end)(void *ctx, const struct execd_process_result *result);
};

/* NULL with err when no terminal or no process could be made; what goes wrong in the new process
 * itself is told by on_end. `request` is not used after the call. */
struct execd_pty_process *execd_pty_process_start(struct execd *execd,
                                                  const struct execd_pty_request *request,
                                                  bool pipes,
                                                  const struct execd_pty_process_events *events,
                                                  void *ctx, struct error *err);

bool execd_pty_process_is_started(const struct execd_pty_process *process);

void execd_pty_process_pause(struct execd_pty_process *process); /* idempotent, as is resume */
void execd_pty_process_resume(struct execd_pty_process *process);

/* ERR_LIMIT when the queue has no room for all of it, ERR_CONFLICT when the input is closed;
 * nothing was taken then. */
int execd_pty_process_write(struct execd_pty_process *process, const char *bytes, size_t length,
                            struct error *err);
bool execd_pty_process_is_full(const struct execd_pty_process *process);
/* After what is queued: pipes are closed, a terminal gets its end-of-file character. */
int execd_pty_process_end_input(struct execd_pty_process *process, struct error *err);

void execd_pty_process_resize(struct execd_pty_process *process, unsigned short cols,
                              unsigned short rows); /* nothing with pipes */
/* To the terminal's foreground job; with pipes to the leader's group. */
void execd_pty_process_signal(struct execd_pty_process *process, int signal);

/* For every process of the session: SIGHUP now, and SIGKILL when the leader has exited, or half a
 * second later at the latest. */
void execd_pty_process_hang_up(struct execd_pty_process *process);
void execd_pty_process_kill(struct execd_pty_process *process); /* SIGKILL at once */
