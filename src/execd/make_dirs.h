/* Directories that are made on the way to something else, and unmade when that fails. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct execd_owner {
    uid_t uid; /* (uid_t)-1, (gid_t)-1: leave */
    gid_t gid;
};

#define EXECD_OWNER_LEAVE ((struct execd_owner){.uid = (uid_t)-1, .gid = (gid_t)-1})

/* mkdir -p of an absolute path with mode 0777 less the umask. New directories get `owner`.
 * *ret_made_from is the length of the shortest path that was made, 0 when all were there; it is set
 * in any case. ERR_CONFLICT when something else than a directory is in the way. */
int execd_make_dirs(const char *path, const struct execd_owner *owner, size_t *ret_made_from,
                    struct error *err);
/* Remove what execd_make_dirs() made, from the inside, as far as it is empty. */
void execd_make_dirs_undo(const char *path, size_t made_from);

/* The same for the parents of a path. */
int execd_make_parents(const char *path, const struct execd_owner *owner, size_t *ret_made_from,
                       struct error *err);
void execd_make_parents_undo(const char *path, size_t made_from);

/* "/a" of "/a/b", "/" of "/b". Caller frees. */
char *execd_parent_of(const char *path);
