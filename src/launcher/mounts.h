/* Mounts by file descriptor: made or cloned in the air, given their attributes there, and only then
 * attached somewhere. All return 0 (or an fd) or -errno. */
#pragma once

#include <stdint.h>

struct mounts_option {
    const char *key;
    const char *value; /* NULL: a flag */
};

/* A new file system that is mounted nowhere yet. `options` ends with a NULL key; attributes are
 * MOUNT_ATTR_*. */
int mounts_new(const char *type, const struct mounts_option *options, uint64_t attributes);

/* A bind mount of dir_fd/path in the air, without what is mounted below it. userns_fd >= 0 maps its
 * ids through that namespace; -EINVAL when the file system cannot do that. */
int mounts_clone(int dir_fd, const char *path, uint64_t attributes, int userns_fd);

/* The first half of it: as it is, and the second: give a mount in the air its attributes. */
int mounts_take(int dir_fd, const char *path);
int mounts_restrict(int mount_fd, uint64_t attributes, int userns_fd);

int mounts_attach(int mount_fd, int dir_fd, const char *path);
int mounts_move(int from_fd, const char *from, int to_fd, const char *to);
