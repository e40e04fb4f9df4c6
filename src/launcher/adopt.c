#include "launcher/adopt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "launcher/process.h"

static int open_recorded(const struct launcher *launcher, const struct record *record)
{
    return record_open_process(record, launcher->state.boot_id);
}

static int read_record(int parent_fd, const char *name, struct record *ret, struct error *err)
{
    AUTO_CLOSE int dir = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "cannot open '%s'", name);
    return record_read(dir, ret, err);
}

static int read_own_record(struct launcher *launcher, const char *name, struct record *ret,
                           struct error *err)
{
    int r = read_record(launcher->state.sandboxes_fd, name, ret, err);
    if (r == 0 && !str_equal(ret->id, name))
        r = error_set(err, ERR_INVALID, "record is of another sandbox");
    return r;
}

/* Whether its CREATE was answered, or was about to be. The record of an end has been written only
 * for those. */
static bool was_made(const struct launcher *launcher, const struct record *record)
{
    char socket[ID_UUID_LEN + 8];
    snprintf(socket, sizeof(socket), "%s.sock", record->id);
    return record->exit_reason != MESSAGE_EXIT_NONE ||
           faccessat(launcher->state.run_fd, socket, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Its files become loose ones, which are cleared next, and its group is one that nobody has, whose
 * processes are killed. This one by itself, too, since there are machines without groups. */
static int clear_unmade(struct launcher *launcher, const struct record *record, struct error *err)
{
    AUTO_FREE char *name = NULL;
    AUTO_CLOSE int pidfd = open_recorded(launcher, record);
    if (pidfd >= 0)
        process_signal(pidfd, SIGKILL);
    log_info("removing sandbox %s, which was being made", record->id);
    return remove_detach(launcher, record->id, record->range, &name, err);
}

static int adopt_one(struct launcher *launcher, const char *name, struct error *err)
{
    struct record record = {0};
    struct error reason = ERROR_INIT;
    int r = read_own_record(launcher, name, &record, &reason);
    if (r < 0 && reason.sys != 0 && reason.sys != ENOENT && reason.sys != ENOTDIR) {
        /* Nothing is known about it, so nothing may be done to it: it may well be alive. */
        *err = reason;
        return r;
    }
    if (r == 0 && !was_made(launcher, &record))
        return clear_unmade(launcher, &record, err);
    if (r == 0) {
        r = idrange_reserve(&launcher->ranges, record.range);
        if (r < 0)
            error_set(&reason, ERR_CONFLICT, "its id range %u is used twice", record.range);
    }
    if (r < 0) {
        /* Half made, or damaged by a power failure. At once: its range is not known to be in use.
         */
        log_warn("removing what is left of sandbox '%s': %s", name, reason.message);
        return file_remove_tree_at(launcher->state.sandboxes_fd, name, err);
    }
    int pidfd = open_recorded(launcher, &record);
    r = sandbox_adopt(launcher, &record, pidfd, err);
    if (r < 0)
        fd_close(pidfd);
    else
        log_info("sandbox %s %s", record.id, pidfd >= 0 ? "still runs: adopted" : "has ended");
    return r;
}

static int for_each_name(int dir_fd, int (*each)(struct launcher *, const char *, struct error *),
                         struct launcher *launcher, struct error *err)
{
    int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(copy);
        return error_set_errno(err, errno, "cannot read a directory of the state");
    }
    rewinddir(dir);
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = each(launcher, entry->d_name, err);
    }
    closedir(dir);
    return r;
}

/* One whose removal had begun, and which may not have been killed yet. */
static int end_loose(struct launcher *launcher, const char *name, struct error *err)
{
    (void)err;
    struct record record;
    if (read_record(launcher->state.loose_fd, name, &record, NULL) < 0)
        return 0; /* of a slot */
    AUTO_CLOSE int pidfd = open_recorded(launcher, &record);
    if (pidfd >= 0)
        process_signal(pidfd, SIGKILL);
    return 0;
}

/* Sockets of sandboxes that are gone. */
static int check_socket(struct launcher *launcher, const char *name, struct error *err)
{
    (void)err;
    size_t length = strlen(name);
    if (length <= strlen(".sock") || !str_equal(name + length - strlen(".sock"), ".sock"))
        return 0;
    AUTO_FREE char *stem = mem_dup_n(name, length - strlen(".sock"));
    if (id_is_uuid(stem) && sandbox_find(launcher, stem) == NULL)
        unlinkat(launcher->state.run_fd, name, 0);
    return 0;
}

/* A group nobody is recorded for: of a slot that waited, or of a sandbox whose record is lost. */
static void check_group(void *context, const char *name)
{
    struct launcher *launcher = context;
    for (size_t i = 0; i < launcher->sandboxes.count; i++) {
        if (str_equal(launcher->sandboxes.items[i]->record.cgroup, name))
            return;
    }
    cgroup_kill(&launcher->cgroups, name);
    remove_later(launcher, NULL, name, 0);
}

int adopt_all(struct launcher *launcher, struct error *err)
{
    int r = for_each_name(launcher->state.sandboxes_fd, adopt_one, launcher, err);
    if (r == 0)
        r = for_each_name(launcher->state.loose_fd, end_loose, launcher, err);
    if (r == 0)
        r = for_each_name(launcher->state.run_fd, check_socket, launcher, err);
    if (r < 0)
        return r;
    remove_leftovers(launcher);
    cgroup_each(&launcher->cgroups, check_group, launcher);
    link_pool_sweep(launcher);
    return 0;
}
