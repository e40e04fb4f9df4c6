/* The only place that waits for children.
 *
 * As PID 1 execd inherits every orphan of the sandbox and must reap it, so something has to wait
 * for "any child", and that something sees the exits of our own children too. It is therefore the
 * only one that waits: a table maps the pid of each child we made to its owner; an exit that is in
 * the table goes to the owner, any other is an orphan and is forgotten.
 *
 * No exit can be lost or stolen: a child is entered before the loop runs again after its fork, only
 * execd_reaper_run() reaps, and it runs on the loop. For the same reason a pid in the table cannot
 * name another process: the kernel does not give the number away before we reap it. A process group
 * may be signalled by number exactly while its leader is in the table.
 *
 * Signals of one kind are merged while pending, so run() reaps until there is nothing left; a child
 * that exits after that raises SIGCHLD again. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct execd_exit {
    int code;   /* exit code, when signal is 0 */
    int signal; /* the signal that killed it, or 0 */
};

typedef void execd_exit_fn(void *ctx, struct execd_exit exit);

/* Embedded in its owner. */
struct execd_child {
    pid_t pid; /* 0 once reaped */
    execd_exit_fn *on_exit;
    void *ctx;
    struct execd_child *next;
};

struct execd_reaper {
    struct execd_child *buckets[64]; /* by pid; a zeroed reaper is an empty one */
    size_t count;
};

/* Right after the fork. on_exit is called once, from execd_reaper_run(), after which the child is
 * out of the table. */
void execd_reaper_add(struct execd_reaper *reaper, struct execd_child *child, pid_t pid,
                      execd_exit_fn *on_exit, void *ctx);

/* SIGCHLD came: reap everything that has exited. */
void execd_reaper_run(struct execd_reaper *reaper);

/* Signal the child's process group. Nothing happens when it was reaped already. */
void execd_child_kill_group(const struct execd_child *child, int signal);
