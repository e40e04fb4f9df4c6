/* Project quota of the file system a descriptor is on. All return 0 or -errno. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "launcher/disk.h"

/* -errno and the reason in words when limits on projects are not enforced there. */
int disk_quota_probe(int fd, char *reason, size_t size);

/* Everything made below this empty directory from now on counts for the project. */
int disk_quota_mark(int dir_fd, uint32_t project);

int disk_quota_set(int fd, uint32_t project, uint64_t bytes, uint64_t inodes); /* 0: no limit */
int disk_quota_get(int fd, uint32_t project, struct disk_usage *ret);
