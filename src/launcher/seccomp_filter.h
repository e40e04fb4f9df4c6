/* The system call filter every sandbox runs under: built once when the launcher starts, loaded by
 * each slot just before it becomes a sandbox.
 *
 * What is listed is allowed; what is known to be dangerous answers EPERM; everything else, also
 * calls newer than this file, answers ENOSYS, so that a libc falls back to what it used before
 * them. The kernel tries the listed calls as a binary tree: a linear list of this length costs a
 * millisecond to load and tens of comparisons for every call a sandbox makes. */
#pragma once

#include <linux/filter.h>

#include "base/error.h"

struct seccomp_filter {
    struct sock_fprog program; /* owned */
};

int seccomp_filter_build(struct seccomp_filter *filter, struct error *err);
void seccomp_filter_done(struct seccomp_filter *filter);

/* For the calling process, for ever. Needs no_new_privs or CAP_SYS_ADMIN. 0 or -errno. */
int seccomp_filter_load(const struct seccomp_filter *filter);
