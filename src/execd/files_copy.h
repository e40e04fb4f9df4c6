/* Copies, for what cannot be renamed. They block; for threads of the work queue. */
#pragma once

#include <stdatomic.h>

#include "base/error.h"

/* All of one open file to another, which is empty, holes as holes. 0 or -errno; -ECANCELED soon
 * after *gone (may be NULL). */
int execd_copy_data(int from, int to, const atomic_bool *gone);

/* A file, symbolic link, device or whole tree under a new name that does not exist, with owners,
 * modes and times (no extended attributes; hard links become files of their own). While the copy is
 * made nobody but us can look into it. When it fails, the copy may be there in part. */
int execd_copy_tree(const char *from, const char *to, const atomic_bool *gone, struct error *err);
