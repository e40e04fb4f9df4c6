/* The system call filter every sandbox runs under: built once when the launcher starts, loaded by
 * each slot just before it becomes a sandbox. What it answers is told in seccomp_table.h.
 *
 * The program is a binary tree over ranges of call numbers. The kernel tries a filter with every
 * number when it is loaded, so a linear list of this length costs a millisecond to load and tens of
 * comparisons for every call that looks at arguments; the tree a fifteenth of that. Calls of
 * another architecture (32-bit programs) and of x32 answer ENOSYS. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "launcher/seccomp_table.h"

struct seccomp_filter {
    struct sock_fprog program; /* owned */
};

/* For the architecture of this program. */
int seccomp_filter_build(struct seccomp_filter *filter, struct error *err);

/* AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64, whichever this is; ERR_UNSUPPORTED for others. */
int seccomp_filter_build_for(struct seccomp_filter *filter, uint32_t audit_arch, struct error *err);

/* From another table than seccomp_table; for tests. ERR_LIMIT when it does not fit a program. */
int seccomp_filter_compile(struct seccomp_filter *filter, uint32_t audit_arch,
                           const struct seccomp_group *table, size_t count, struct error *err);

void seccomp_filter_done(struct seccomp_filter *filter);

/* For the calling process, for ever. Needs no_new_privs or CAP_SYS_ADMIN. 0 or -errno. */
int seccomp_filter_load(const struct seccomp_filter *filter);
