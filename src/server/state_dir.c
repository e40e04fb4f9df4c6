#include "server/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Root (or the user, of whom all is) creates inside a folder that is root's, by name, without
 * following links: nothing that the unprivileged server wrote below `server` is ever opened or
 * chowned here. */
static int make_dir_at(int parent, const char *name, mode_t mode, uid_t uid, gid_t gid,
                       struct error *err)
{
    if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "cannot create %s", name);
    AUTO_CLOSE int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", name);
    if (fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)
        return error_set_errno(err, errno, "cannot give %s to user %u", name, (unsigned)uid);
    return TAKE_FD(fd);
}

static int check_owner(int fd, struct error *err)
{
    struct stat stat;
    uid_t self = geteuid();
    if (fstat(fd, &stat) < 0)
        return error_set_errno(err, errno, "cannot examine it");
    if (stat.st_uid != self || (stat.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_set(err, ERR_DENIED,
                         "it belongs to user %u and has mode %03o; it must belong to %s and be "
                         "writable by nobody else (chown, chmod go-w)",
                         (unsigned)stat.st_uid, (unsigned)stat.st_mode & 07777,
                         self == 0 ? "root" : "the user who starts the server");
    if (self == 0 && (stat.st_mode & S_IXOTH) == 0)
        return error_set(err, ERR_DENIED, "the server's own user cannot enter it (chmod o+x)");
    return 0;
}

/* The lock is on the folder itself: it needs no file that somebody could remove or replace. */
static int lock_dir(int fd, struct error *err)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return error_set(err, ERR_CONFLICT,
                         "another opensandbox-server is using it; stop that "
                         "one, or give this one its own --state");
    return error_set_errno(err, errno, "cannot lock it");
}

static int prepare(int dir, uid_t uid, gid_t gid, struct error *err)
{
    int r = check_owner(dir, err);
    if (r < 0)
        return r;
    AUTO_CLOSE int run = make_dir_at(dir, SERVER_STATE_RUN, 0711, geteuid(), getegid(), err);
    if (run < 0)
        return run;
    AUTO_CLOSE int own = make_dir_at(dir, SERVER_STATE_OWN, 0700, uid, gid, err);
    if (own < 0)
        return own;
    r = lock_dir(own, err);
    return r < 0 ? r : TAKE_FD(own);
}

int server_state_dir_prepare(const char *state_dir, uid_t uid, gid_t gid, struct error *err)
{
    int r = file_make_dirs(state_dir, 0755, err);
    if (r < 0)
        return r;
    AUTO_CLOSE int dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "cannot open state directory %s", state_dir);
    int lock = prepare(dir, uid, gid, err);
    return lock < 0 ? error_wrap(err, "state directory %s", state_dir) : lock;
}
