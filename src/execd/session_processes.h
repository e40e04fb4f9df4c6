/* The processes of a session's shell, found in /proc: which of them a run has started, and which
 * were there before.
 *
 * A shell leads a session of the kernel (setsid), which all its descendants are in unless they make
 * one of their own. The number of such a session is not given to anybody else while one member
 * lives. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EXECD_SESSION_CHILDREN_MAX 256
#define EXECD_SESSION_PASTS_MAX    16

struct execd_session_process {
    pid_t pid;
    pid_t parent;
    pid_t session;
    uint64_t start_ticks; /* since boot */
    bool dead;            /* a zombie */
};

/* One line of /proc/<pid>/stat; false when it is none. The program's name in it can hold anything.
 */
bool execd_session_process_parse(const char *line, struct execd_session_process *ret);

/* What exists when a run begins: its shell's children then, and the time. */
struct execd_session_moment {
    uint64_t ticks;
    pid_t children[EXECD_SESSION_CHILDREN_MAX]; /* those beyond are told by their time */
    size_t child_count;
};

void execd_session_moment_take(struct execd_session_moment *moment, pid_t shell);

/* Does processes[index] come from what `shell` has started since the moment? Its topmost ancestor
 * below the shell decides; the shell itself does not count. An orphan as old as the moment, to the
 * tick, is taken for older: rather is one left than a wrong one killed. The processes are sorted by
 * pid. */
bool execd_session_process_is_since(const struct execd_session_process *processes, size_t count,
                                    size_t index, pid_t shell,
                                    const struct execd_session_moment *moment);

/* Send a signal to every process of the shell's session that comes from what was started since the
 * moment (NULL: to all) and is itself not older than min_ticks, but not to the shell. The number of
 * those it was sent to, or -errno when processes cannot be listed here. */
int execd_session_processes_signal(pid_t shell, const struct execd_session_moment *moment,
                                   uint64_t min_ticks, int signal);
uint64_t execd_session_ticks_now(void);

/* Shells that have ended, whose background jobs may live on. */
struct execd_session_pasts {
    struct {
        pid_t shell;
        uint64_t died_ticks;
    } items[EXECD_SESSION_PASTS_MAX]; /* the oldest is forgotten when there are more */
    size_t count;
};

void execd_session_pasts_add(struct execd_session_pasts *pasts, pid_t shell);
/* Signal what is left of them. As above. A session whose oldest process is younger than the death
 * of the shell has the same number, but is another one. */
int execd_session_pasts_signal(const struct execd_session_pasts *pasts, int signal);
