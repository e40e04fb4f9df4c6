/* Small whole files, and directories of our own. For configuration, keys and records, never for
 * anything whose size somebody else chooses without a limit. All fds are CLOEXEC. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* The whole file into buf (appended). Fails with ERR_LIMIT when it does not fit buf->max,
 * ERR_NOT_FOUND when it is absent. dir_fd may be AT_FDCWD. */
int file_read_at(int dir_fd, const char *path, struct buf *buf, struct error *err);

/* Replace a file atomically: temporary name in the same directory, fsync, rename, fsync of the
 * directory. After a crash the file is the old one or the new one, never a part. */
int file_write_atomic_at(int dir_fd, const char *path, const void *bytes, size_t length,
                         mode_t mode, struct error *err);

/* write() until all is out, through EINTR. Returns 0 or -errno. */
int file_write_all(int fd, const void *bytes, size_t length);

/* mkdir -p; existing directories are kept as they are. `mode` goes to those created. */
int file_make_dirs(const char *path, mode_t mode, struct error *err);

/* rm -r of `name` below dir_fd, safe on trees that somebody hostile made and still changes: never
 * through a symbolic link or into a mount point, any depth, any mode, a bounded number of fds. What
 * cannot be removed is reported, the rest is gone all the same. Absent is success. */
int file_remove_tree_at(int dir_fd, const char *name, struct error *err);
