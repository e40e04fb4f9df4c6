/* Named volumes on the disk: launcher/volumes/<name>, which belong to no sandbox and to the store's
 * range of ids.
 *
 *   volume   what it is: one small text file
 *   data/    what sandboxes see; with project quota it is the project
 *   disk     instead, for one with a size where there is no quota: an ext4 with data/ in it
 *
 * A volume is made under another name and gets its own by one rename that replaces nothing, so it
 * is whole or not there, and of two that make the same at once the second finds that of the first.
 *
 * An ext4 in a file must have one loop device, however many sandboxes use it. So the directory is
 * locked while a slot looks for the device and, if there is none, makes it; from then on the mount
 * keeps it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "launcher/disk.h"

struct volume_store_info {
    bool remove;         /* when nobody uses it any more */
    uint64_t size_bytes; /* 0: no limit */
};

/* ERR_NOT_FOUND: there is no such volume. */
int volume_store_read(int volumes_fd, const char *name, struct volume_store_info *ret,
                      struct error *err);

/* In a slot, whose mount namespace the descriptors are of. */
struct volume_store_place {
    const struct disks *disks;
    const char *launcher_path;
    int sandbox_fd; /* the sandbox's directory: where a new one is made */
    int mount_fd;   /* launcher/mount */
};

/* Make it, unless it is there by now; as `info` says. */
int volume_store_make(const struct volume_store_place *place, const char *name,
                      const struct volume_store_info *info, struct error *err);

/* Its data directory; a descriptor, or ERR_NOT_FOUND. *ret_info tells what it is. */
int volume_store_open(const struct volume_store_place *place, const char *name,
                      struct volume_store_info *ret_info, struct error *err);

/* From here on: for tests. */
void volume_store_format(const struct volume_store_info *info, char ret[64]);
int volume_store_parse(const char *text, size_t length, struct volume_store_info *ret,
                       struct error *err);
