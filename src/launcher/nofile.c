#include "launcher/nofile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/process.h"

#define PROCS_MAX (32u << 20) /* a list of all pids there can be */
#define LOOKS_MAX 20
#define FILES_MAX 1048576u

/* Above its hard limit a process, and whoever sets it for one, needs this. */
static bool may_raise(void)
{
    return process_has_capability(CAP_SYS_RESOURCE);
}

static uint32_t kernel_max(void)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 64);
    uint64_t number = 0;
    if (file_read_at(AT_FDCWD, "/proc/sys/fs/nr_open", &text, NULL) < 0 || text.length == 0)
        return FILES_MAX;
    text.data[strcspn(text.data, "\n")] = '\0';
    if (str_to_u64(text.data, 0, UINT64_MAX, &number) < 0)
        return FILES_MAX;
    return (uint32_t)MIN(number, (uint64_t)FILES_MAX);
}

uint32_t nofile_max(void)
{
    struct rlimit own = {FILES_MAX, FILES_MAX};
    if (may_raise())
        return kernel_max();
    getrlimit(RLIMIT_NOFILE, &own);
    return (uint32_t)MIN(own.rlim_max, (rlim_t)FILES_MAX);
}

uint32_t nofile_effective(uint32_t files)
{
    return files != 0 ? files : MIN(nofile_max(), NOFILE_DEFAULT);
}

int nofile_check(uint32_t files, struct error *err)
{
    uint32_t max = nofile_max();
    if (files <= max)
        return 0;
    return error_set(err, ERR_UNSUPPORTED,
                     "an open-files limit of %u cannot be set: this machine allows the launcher %u "
                     "at most; ask for no more, or raise its own limit (LimitNOFILE)",
                     files, max);
}

/* prlimit(2), and where root lacks CAP_SYS_RESOURCE, as in many containers, as the owner of the
 * sandbox's user namespace, who needs no capability. By bare system call, of this one thread; what
 * root could do it can do again afterwards. Nobody can signal or trace us meanwhile: our real and
 * saved ids stay. */
static int limit_as(uid_t owner, pid_t pid, const struct rlimit *new, struct rlimit *old)
{
    if (prlimit(pid, RLIMIT_NOFILE, new, old) == 0)
        return 0;
    if (errno != EPERM || syscall(SYS_setresuid, -1, owner, -1) < 0)
        return -errno;
    int r = prlimit(pid, RLIMIT_NOFILE, new, old) < 0 ? -errno : 0;
    if (syscall(SYS_setresuid, -1, 0, -1) < 0)
        abort(); /* cannot be, and nobody may go on as somebody else */
    return r;
}

int nofile_set(pid_t pid, uid_t owner, uint32_t files)
{
    struct rlimit limit = {files, files};
    return limit_as(owner, pid, &limit, NULL);
}

int nofile_check_change(uint32_t from, uint32_t to, struct error *err)
{
    if (to <= from || may_raise())
        return nofile_check(to, err);
    return error_set(
        err, ERR_UNSUPPORTED,
        "the open-files limit of a running sandbox cannot be raised from %u to %u: the "
        "launcher lacks CAP_SYS_RESOURCE; it can be lowered",
        from, to);
}

/* Append the processes of one group; groups that this layout does not have are passed over. */
static int list_group(const struct cgroups *groups, const char *name, const char *sub,
                      struct buf *pids)
{
    char path[CGROUP_NAME_MAX + 64];
    struct error err = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/%scgroup.procs", name, sub);
    if (file_read_at(groups->items[0].fd, path, pids, &err) < 0 && err.code != ERR_NOT_FOUND)
        return err.sys != 0 ? -err.sys : -EIO;
    return 0;
}

/* 1: changed, 0: nothing to do or nobody there any more. */
static int change_process(pid_t pid, uid_t owner, uint32_t from, uint32_t to)
{
    struct rlimit old, new = {to, to};
    AUTO_CLOSE int pidfd = -1;
    /* A pid is named, since there is no prlimit by pidfd. That it was just listed and lives makes
     * it the one that was meant, short of all pids being used up in between. */
    if (process_open(pid, &pidfd) < 0 || process_signal(pidfd, 0) < 0)
        return 0;
    int r = limit_as(owner, pid, NULL, &old);
    if (r < 0)
        return r == -ESRCH ? 0 : r;
    bool own_choice = old.rlim_max < MIN(from, to);
    if (own_choice || (old.rlim_max == to && old.rlim_cur <= to))
        return 0;
    r = limit_as(owner, pid, &new, NULL);
    if (r < 0)
        return r == -ESRCH ? 0 : r;
    return 1;
}

/* How many were changed, or -errno. */
static int look(const struct cgroups *groups, const char *name, uid_t owner, uint32_t from,
                uint32_t to)
{
    static const char *const subs[] = {"", "init/", "work/"};
    CLEANUP(buf_done) struct buf pids;
    buf_init(&pids, PROCS_MAX);
    for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
        int r = list_group(groups, name, subs[i], &pids);
        if (r < 0)
            return r;
    }
    int changed = 0;
    char *save = NULL;
    for (char *line = pids.length > 0 ? strtok_r(pids.data, "\n", &save) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        uint64_t pid;
        if (str_to_u64(line, 2, INT32_MAX, &pid) < 0)
            continue;
        int r = change_process((pid_t)pid, owner, from, to);
        if (r < 0)
            return r;
        changed += r;
    }
    return changed;
}

int nofile_change(const struct cgroups *groups, const char *name, pid_t first, uid_t owner,
                  uint32_t from, uint32_t to, struct error *err)
{
    if (from == to)
        return 0;
    int r = nofile_check_change(from, to, err);
    if (r < 0)
        return r;
    if (groups->count == 0)
        return error_set(err, ERR_UNSUPPORTED,
                         "the open-files limit of a running sandbox cannot be changed: without "
                         "control groups its processes cannot be listed");
    r = change_process(first, owner, from, to); /* what it starts from now on has the new one */
    for (int i = 0; i < LOOKS_MAX; i++) {
        if (r >= 0)
            r = look(groups, name, owner, from, to);
        if (r < 0)
            return error_set_errno(err, -r, "cannot set the open-files limit of a process");
        if (r == 0)
            return 0;
    }
    return error_set(err, ERR_CONFLICT,
                     "the open-files limit cannot be set: the sandbox makes processes faster than "
                     "they can be looked at; try again");
}
