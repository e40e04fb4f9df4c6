#include "launcher/disk_change.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "launcher/process.h"

struct disk_change {
    struct launcher *launcher;
    struct disk_change *next;
    char id[ID_UUID_LEN + 1];
    struct message_limits limits;
    struct peer_reply reply;
    int pidfd;
    int report_fd; /* of a pipe: how it went, as a struct error */
    struct loop_source exit_source;
    disk_change_done *done;
};

static void free_change(struct disk_change *change)
{
    struct disk_change **link = &change->launcher->disk_changes.list;
    while (*link != change)
        link = &(*link)->next;
    *link = change->next;
    loop_unwatch(&change->launcher->loop, &change->exit_source);
    fd_close(change->pidfd);
    fd_close(change->report_fd);
    free(change);
}

/* What a process does, with descriptors of its own. */
struct job {
    const struct disks *disks;
    uint64_t bytes; /* enlarge to this; 0: drop, and kill the sandbox */
    int dir_fd;
    int sandbox_pidfd; /* -1: none */
    int report_fd;
};

/* The sandbox is killed from here, not by the launcher when it hears of the end: one that was
 * killed in between would leave a sandbox that lives on a dead disk. */
static NORETURN void work(const struct job *job)
{
    enum { DIR_FD = 3, REPORT_FD, SANDBOX_FD };
    const int keep[] = {job->dir_fd, job->report_fd, job->sandbox_pidfd};
    struct error err = ERROR_INIT;
    if (process_settle(keep, ARRAY_LEN(keep)) < 0)
        _exit(1);
    if (job->bytes > 0)
        disk_grow(job->disks, DIR_FD, job->bytes, &err);
    else
        disk_drop(job->disks, DIR_FD, &err);
    if (job->sandbox_pidfd >= 0)
        process_signal(SANDBOX_FD, SIGKILL);
    _exit(file_write_all(REPORT_FD, &err, sizeof(err)) < 0 ? 1 : 0);
}

static void change_ended(struct loop_source *source)
{
    struct disk_change *change = CONTAINER_OF(source, struct disk_change, exit_source);
    struct disk_change ended = *change;
    struct error err = ERROR_INIT;
    siginfo_t info;
    waitid(P_PIDFD, (id_t)change->pidfd, &info, WEXITED | WNOHANG);
    if (read(change->report_fd, &err, sizeof(err)) != (ssize_t)sizeof(err))
        error_set(&err, ERR_INTERNAL, "the process that changes the disk ended without a word");
    free_change(change);
    ended.done(ended.launcher, ended.id, &ended.limits, ended.reply, &err);
}

static int start_process(struct disk_change *change, struct job *job, struct error *err)
{
    struct launcher *launcher = change->launcher;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set_errno(err, errno, "cannot make a pipe");
    change->report_fd = ends[0];
    AUTO_CLOSE int report = ends[1];
    job->disks = &launcher->disks;
    job->report_fd = report;
    pid_t pid = process_clone(0, -1, &change->pidfd);
    if (pid < 0)
        return error_set_errno(err, -pid, "cannot make a process that changes the disk");
    if (pid == 0)
        work(job);
    return loop_watch(&launcher->loop, &change->exit_source, change->pidfd, change_ended, err);
}

bool disk_change_pending(const struct launcher *launcher, const char *id)
{
    const struct disk_change *at = launcher->disk_changes.list;
    while (at != NULL && !str_equal(at->id, id))
        at = at->next;
    return at != NULL;
}

static int start(struct launcher *launcher, const char *id, struct job *job,
                 struct disk_change given, struct error *err)
{
    struct disk_change *change = mem_alloc(sizeof(*change));
    *change = given;
    change->launcher = launcher;
    change->next = launcher->disk_changes.list;
    change->pidfd = -1;
    change->report_fd = -1;
    change->exit_source.fd = -1;
    snprintf(change->id, sizeof(change->id), "%s", id);
    launcher->disk_changes.list = change;
    int r = start_process(change, job, err);
    if (r < 0)
        free_change(change);
    return r;
}

int disk_change_start(struct launcher *launcher, const char *id, int dir_fd,
                      const struct message_limits *limits, struct peer_reply reply,
                      disk_change_done *done, struct error *err)
{
    struct job job = {.bytes = limits->disk_bytes, .dir_fd = dir_fd, .sandbox_pidfd = -1};
    struct disk_change given = {.limits = *limits, .reply = reply, .done = done};
    return start(launcher, id, &job, given, err);
}

int disk_change_drop(struct launcher *launcher, const char *id, int dir_fd, int sandbox_pidfd,
                     disk_change_done *done, struct error *err)
{
    struct job job = {.dir_fd = dir_fd, .sandbox_pidfd = sandbox_pidfd};
    return start(launcher, id, &job, (struct disk_change){.done = done}, err);
}

void disk_change_forget_all(struct launcher *launcher)
{
    while (launcher->disk_changes.list != NULL)
        free_change(launcher->disk_changes.list);
}
