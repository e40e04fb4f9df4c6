/* The system calls of a sandbox: one table from which the filter of every architecture is made. It
 * is built once when the launcher starts and loaded by each slot just before it becomes a sandbox.
 *
 * A call that no group names answers ENOSYS, also one that is newer than this file, so that a libc
 * falls back to what it used before. */
#pragma once

#include "seccomp/filter.h"

extern const struct seccomp_group seccomp_table[];
extern const size_t seccomp_table_count;

int seccomp_table_build(struct seccomp_filter *filter, struct error *err); /* for this machine */
int seccomp_table_build_for(struct seccomp_filter *filter, uint32_t audit_arch, struct error *err);
