/* A walk through a tree of directories: by name in each (bytewise), children directly after their
 * parent, symbolic links never followed.
 *
 * Trees are made by whoever runs in the sandbox, and may be hostile. Depth costs neither stack nor
 * descriptors (a few are open at a time), width costs no memory (see execd/walk_names.h), and paths
 * may be longer than PATH_MAX: every name is used relative to its open directory. What vanishes
 * while we walk is left out. For threads of the work queue. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define EXECD_WALK_DEPTH_MAX 32768
#define EXECD_WALK_PATH_MAX  (1024 * 1024)

struct execd_walk;

struct execd_walk_entry {
    const char *path; /* absolute; borrowed until the next call */
    size_t path_length;
    const char *relative; /* the part of `path` below the top */
    const char *name;     /* its last component */
    int dir_fd;           /* the directory that has `name` */
    unsigned char type;   /* DT_*; DT_UNKNOWN where the file system does not say */
    size_t depth;         /* 1: directly in the top */
    bool leaving;         /* a directory that was entered, after all that is in it */
};

/* Start in the directory `fd` (taken), which is called `path`. With `leaving`, directories that
 * were entered come a second time at their end. `gone` is looked at now and then. */
struct execd_walk *execd_walk_new(int fd, const char *path, bool leaving, const atomic_bool *gone);
void execd_walk_free(struct execd_walk *walk); /* accepts NULL */

/* The next entry: 1, or 0 at the end, or negative. */
int execd_walk_next(struct execd_walk *walk, struct execd_walk_entry *ret, struct error *err);

/* The entry that next() gave last is a directory, and what is in it shall come next. 1 when it
 * will; 0 when it has vanished or, with `lenient`, when it may not be read; negative otherwise. */
int execd_walk_enter(struct execd_walk *walk, bool lenient, struct error *err);
