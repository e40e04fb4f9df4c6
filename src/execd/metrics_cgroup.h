/* Where the control groups of this process are, seen from inside: whatever mixture of version 1 and
 * 2 the machine has, with or without a cgroup namespace, with or without /proc.
 *
 * `root` is put in front of every path: "" for the real ones, a folder in tests. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct execd_cgroup {
    bool v2;
    char path[PATH_MAX]; /* of the group's folder, `root` included */
    size_t mount_length; /* of the part that is the mount point: groups above it are not seen */
};

/* The group that `controller` ("memory", "cpu", "cpuacct") governs us by. False when there is none
 * to be seen. */
bool execd_cgroup_find(const char *root, const char *controller, struct execd_cgroup *ret);

/* The group above, as far as it is visible: its limits hold as well. */
bool execd_cgroup_up(struct execd_cgroup *cgroup);

/* A file of the group, appended to `ret`. */
bool execd_cgroup_read(const struct execd_cgroup *cgroup, const char *name, struct buf *ret);

/* Any small file below root; what does not fit into `ret` counts as absent, as does an empty one.
 */
bool execd_cgroup_read_file(const char *root, const char *path, struct buf *ret);
