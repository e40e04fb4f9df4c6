/* The size limit of a named volume, in the two ways in which disk.h limits sandboxes. Here what is
 * in a loop file outlives the sandbox that wrote it, and what a program syncs reaches the disk.
 * All return 0 (or a descriptor) or -errno; for slots. */
#pragma once

#include <stdint.h>

#include "launcher/disk.h"

/* loop: the file DISK_FILE in dir_fd, with an empty file system of this size. */
int disk_volume_make(const char *launcher_path, int dir_fd, uint64_t bytes);

/* loop: mounted in the slot's namespace, at a place of its own in launcher/mount, which is
 * mount_fd. Whoever calls this has locked the volume, see volume_store.h. Returns a descriptor of
 * it. */
int disk_volume_mount(const struct disks *disks, int dir_fd, int mount_fd);

/* quota: what is made below this empty directory from now on counts, and so much may be there. */
int disk_volume_limit(const struct disks *disks, int dir_fd, uint64_t bytes);
