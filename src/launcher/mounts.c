#include "launcher/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/mem.h"

int mounts_new(const char *type, const struct mounts_option *options, uint64_t attributes)
{
    AUTO_CLOSE int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    for (const struct mounts_option *option = options; option && option->key; option++) {
        unsigned command = option->value != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        if (fsconfig(fs, command, option->key, option->value, 0) < 0)
            return -errno;
    }
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
    return fd < 0 ? -errno : fd;
}

int mounts_take(int dir_fd, const char *path)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    int fd = open_tree(dir_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

int mounts_restrict(int mount_fd, uint64_t attributes, int userns_fd)
{
    struct mount_attr change = {.attr_set = attributes, .propagation = MS_PRIVATE};
    if (userns_fd >= 0) {
        change.attr_set |= MOUNT_ATTR_IDMAP;
        change.userns_fd = (uint64_t)userns_fd;
    }
    return mount_setattr(mount_fd, "", AT_EMPTY_PATH, &change, sizeof(change)) < 0 ? -errno : 0;
}

int mounts_clone(int dir_fd, const char *path, uint64_t attributes, int userns_fd)
{
    AUTO_CLOSE int fd = mounts_take(dir_fd, path);
    int r = fd < 0 ? fd : mounts_restrict(fd, attributes, userns_fd);
    return r < 0 ? r : TAKE_FD(fd);
}

int mounts_attach(int mount_fd, int dir_fd, const char *path)
{
    return move_mount(mount_fd, "", dir_fd, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

int mounts_move(int from_fd, const char *from, int to_fd, const char *to)
{
    return move_mount(from_fd, from, to_fd, to, 0) < 0 ? -errno : 0;
}
