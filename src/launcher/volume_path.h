/* Paths in trees that somebody else may be changing at the same time: sources of volumes and the
 * places inside a sandbox where they go.
 *
 * A path is resolved once, downwards from a descriptor, and what comes out is a descriptor that is
 * used from then on. No symbolic link is followed, wherever it leads: what cannot be a link cannot
 * be swapped for one. All return a descriptor (O_PATH) or -errno; -ELOOP: there is a link. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum volume_path_end {
    VOLUME_PATH_ANY,       /* as it is; -ENOENT when it is missing */
    VOLUME_PATH_DIRECTORY, /* missing directories are made */
    VOLUME_PATH_FILE,      /* missing directories are made, and an empty file at the end */
};

/* `path` is relative and plain; "" is dir_fd itself. What is made belongs to whoever we are. */
int volume_path_open(int dir_fd, const char *path, enum volume_path_end end, mode_t mode);

/* The last directory on the way that is there; *ret_rest is what is missing below it. */
int volume_path_deepest(int dir_fd, const char *path, const char **ret_rest);

/* Which ids on the disk are root's inside of a sandbox, for a source that belongs to these.
 *
 * Its owner, so that what a sandbox writes there is the owner's; but never root, and no id that
 * belongs to a sandbox: then the first of the store's range. The same for the group, and not for a
 * group of the system, many of which are as good as root (disk, docker), unless it is the owner's
 * by its number. */
struct volume_ids {
    uint32_t uid, gid;
};

struct volume_ids volume_path_ids(uint32_t uid, uint32_t gid);

/* The text of a uid_map or gid_map for a mount: `id` on the disk is the first id of the sandbox,
 * whose base this is, and the store's other ids are its others. */
#define VOLUME_MAP_MAX 96
void volume_path_map(uint32_t id, uint32_t base, char ret[VOLUME_MAP_MAX]);
