/* Loop devices of this instance: files of sandboxes as block devices. All return 0 or -errno.
 *
 * A device is bound and marked to free itself in one call, and stays open until it is mounted: at
 * every instant the process that is making it or the mount keeps it, and when the last of these is
 * gone the kernel frees it. The name given to it tells ours from everybody else's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DISK_DEVICE_MAX 24 /* "/dev/loop<n>" */

struct disk_device {
    int fd;
    char path[DISK_DEVICE_MAX];
};

/* -errno and the reason in words when loop devices cannot be had here. */
int disk_loop_probe(char *reason, size_t size);

int disk_loop_attach(const char *instance, int file_fd, struct disk_device *ret);

/* The device whose file this is; -ENOENT: none. `hint` is where it was once, or NULL: with the
 * right one not all devices have to be looked at. Caller closes ret->fd. */
int disk_loop_find(const char *instance, int file_fd, const char *hint, struct disk_device *ret);

/* The file has a new size. */
int disk_loop_update(const struct disk_device *device);

/* The ext4 on it, mounted nowhere yet; again: a second entrance to one that is in use, whatever its
 * state is. Returns a descriptor of the mount. */
int disk_loop_mount(const struct disk_device *device);
int disk_loop_mount_again(const struct disk_device *device);

/* The same for a file that outlives its sandbox: what is synced reaches the disk. Also of one that
 * is mounted already. */
int disk_loop_mount_lasting(const struct disk_device *device);

/* Free the instance's devices that nothing uses. */
void disk_loop_sweep(const char *instance);
