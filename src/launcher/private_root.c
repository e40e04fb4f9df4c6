/* How one leaves a plain chroot for the same tree as a true root:
 *
 * A process in a chroot stands on a directory somewhere inside the root of its mount namespace. The
 * kernel then refuses it user namespaces, since their mounts could be used to climb out. But root
 * may stand up: setns() to the mount namespace one is already in moves the caller to the true root
 * of it, a clone of the chroot's tree made before is put over that root, and entered. This happens
 * in a namespace only the launcher has, so nobody outside sees any of it. */
#include "launcher/private_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/userns.h"

static int same_place(int fd, const char *path, bool *ret_same)
{
    struct statx a, b;
    unsigned mask = STATX_INO | STATX_MNT_ID;
    if (statx(fd, "", AT_EMPTY_PATH, mask, &a) < 0 || statx(AT_FDCWD, path, 0, mask, &b) < 0)
        return -errno;
    *ret_same = a.stx_mnt_id == b.stx_mnt_id && a.stx_ino == b.stx_ino;
    return 0;
}

/* To the root of our mount namespace, wherever we stood before. */
static int stand_up(void)
{
    AUTO_CLOSE int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWNS) < 0)
        return -errno;
    return 0;
}

static int enter_tree(int tree_fd)
{
    if (move_mount(tree_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    if (fchdir(tree_fd) < 0)
        return -errno;
    /* Take the old root out of the namespace. On a machine that runs from its initial file system
     * that one cannot be moved; it then stays underneath, where no path leads. */
    if (syscall(SYS_pivot_root, ".", ".") == 0) {
        if (umount2(".", MNT_DETACH) < 0)
            return -errno;
        return chdir("/") < 0 ? -errno : 0;
    }
    return chroot(".") < 0 ? -errno : 0;
}

/* Some systems let an ordinary user make a user namespace, but do nothing in it. */
static int refused(struct error *err)
{
    int sys = errno;
    char obstacle[USERNS_REASON_MAX];
    userns_obstacle(obstacle);
    if (obstacle[0] == '\0')
        return error_set_errno(err, sys, "cannot make a mount namespace; root is needed");
    return error_set(err, ERR_DENIED, "cannot make a mount namespace: %s (%s)", strerror(sys),
                     obstacle);
}

int private_root_enter(struct error *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return refused(err);
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 && errno != EINVAL)
        return error_set_errno(err, errno, "cannot make mounts private");

    char directory[PATH_MAX];
    if (getcwd(directory, sizeof(directory)) == NULL)
        return error_set_errno(err, errno, "cannot find the working directory");
    AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int tree =
        open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (root < 0 || tree < 0)
        return error_set_errno(err, errno, "cannot clone the root directory's mounts");

    bool same = false;
    int r = stand_up();
    if (r == 0)
        r = same_place(root, "/", &same);
    if (r == 0 && !same)
        r = enter_tree(tree);
    if (r < 0)
        return error_set_errno(err, -r, "cannot make the root directory a true root");
    if (chdir(directory) < 0)
        return error_set_errno(err, errno, "cannot return to the working directory '%s'",
                               directory);
    return 0;
}
