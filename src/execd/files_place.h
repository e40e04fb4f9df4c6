/* A file on its way to its place: written under a hidden temporary name in the target's directory,
 * synced, then renamed, so that readers see the old file or the whole new one and a crash leaves no
 * half of it. When the target is not known yet, the data waits in a spool directory.
 *
 * A place belongs to one thread at a time; sync() and commit() may block for long, so they are not
 * for the loop. Whatever happened, discard() leaves nothing behind but what commit() put in place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "execd/make_dirs.h"

struct execd_place {
    char *path; /* the target, no symbolic link; NULL: not known yet */
    bool has_mode;
    mode_t mode;              /* asked for, with has_mode */
    struct execd_owner owner; /* asked for */
    mode_t new_mode;          /* of a file that is not there yet */
    struct execd_owner new_owner;

    char *temp; /* NULL: no data */
    bool spooled;
    dev_t temp_device; /* by which sync() knows its own file again */
    ino_t temp_inode;
    int fd;
    size_t made_from; /* parents made by us: those at least this long; 0: none */
};

void execd_place_init(struct execd_place *place);

/* Where it goes; a symbolic link is followed to the file it stands for. ERR_INVALID when there is
 * something at the target that is not a regular file. */
int execd_place_set_target(struct execd_place *place, const char *path, struct error *err);

/* Make the temporary file: beside the target (whose parents are made), or in `spool`. */
int execd_place_open(struct execd_place *place, const char *spool, struct error *err);
int execd_place_write(struct execd_place *place, const char *bytes, size_t length,
                      struct error *err);
void execd_place_close(struct execd_place *place);

/* Owner, mode and data to the disk, under the temporary name. The target must be known. */
int execd_place_sync(struct execd_place *place, struct error *err);
/* The rename. The directory itself is synced by the caller, once for many files. */
int execd_place_commit(struct execd_place *place, struct error *err);
int execd_place_sync_directory(const struct execd_place *place, struct error *err);
bool execd_place_same_directory(const struct execd_place *a, const struct execd_place *b);

void execd_place_discard(struct execd_place *place); /* and free */
