#include "execd/reaper.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/macros.h"

static struct execd_child **bucket_of(struct execd_reaper *reaper, pid_t pid)
{
    return &reaper->buckets[(size_t)pid % ARRAY_LEN(reaper->buckets)];
}

void execd_reaper_add(struct execd_reaper *reaper, struct execd_child *child, pid_t pid,
                      execd_exit_fn *on_exit, void *ctx)
{
    struct execd_child **bucket = bucket_of(reaper, pid);
    *child = (struct execd_child){.pid = pid, .on_exit = on_exit, .ctx = ctx, .next = *bucket};
    *bucket = child;
    reaper->count++;
}

static struct execd_child *remove_child(struct execd_reaper *reaper, pid_t pid)
{
    struct execd_child **link = bucket_of(reaper, pid);
    while (*link != NULL && (*link)->pid != pid)
        link = &(*link)->next;
    struct execd_child *child = *link;
    if (child != NULL) {
        *link = child->next;
        child->pid = 0;
        reaper->count--;
    }
    return child;
}

void execd_reaper_run(struct execd_reaper *reaper)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            return; /* nobody has exited, or there is no child at all */
        struct execd_child *child = remove_child(reaper, pid);
        if (child == NULL)
            continue;
        struct execd_exit exit = {0};
        if (WIFSIGNALED(status))
            exit.signal = WTERMSIG(status);
        else
            exit.code = WEXITSTATUS(status);
        child->on_exit(child->ctx, exit);
    }
}

void execd_child_kill_group(const struct execd_child *child, int signal)
{
    if (child->pid > 0)
        kill(-child->pid, signal);
}
