/* System call filters from a table: what a program may call is listed once, by name and with
 * reasons, and becomes a program for the kernel. Used by the launcher for sandboxes and by programs
 * of ours for themselves.
 *
 * A group answers all its calls alike, or has a rule that looks at arguments. Rules look at what
 * the kernel looks at: of an int the low 32 bits, whatever the rest of the register holds. The
 * answers are SECCOMP_RET_ values: allowed, or refused with an errno a program understands. Calls
 * that no group names, of another architecture (32-bit programs) and of x32 get the policy's
 * `otherwise`.
 *
 * The program is a binary tree over ranges of call numbers. The kernel tries a filter with every
 * number when it is loaded, so a linear list of this length costs a millisecond to load and tens of
 * comparisons for every call that looks at arguments; the tree a fifteenth of that. */
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#if defined(__x86_64__)
#define SECCOMP_FILTER_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SECCOMP_FILTER_NATIVE AUDIT_ARCH_AARCH64
#else
#error "there are no system call filters for this architecture"
#endif

#define SECCOMP_CONDITIONS_MAX 3

/* (argument & mask) == value. A mask of 0 ends the list. */
struct seccomp_condition {
    uint64_t mask;
    uint64_t value;
    uint8_t argument; /* 0..5 */
};

/* When all conditions hold: the answer. */
struct seccomp_case {
    struct seccomp_condition all[SECCOMP_CONDITIONS_MAX];
    uint32_t answer;
};

/* The first case that fits, else otherwise. */
struct seccomp_rule {
    const struct seccomp_case *cases;
    size_t count;
    uint32_t otherwise;
};

struct seccomp_group {
    const char *names;               /* separated by one space each */
    const struct seccomp_rule *rule; /* NULL: always answer */
    uint32_t answer;
};

struct seccomp_policy {
    const struct seccomp_group *groups;
    size_t count;
    uint32_t otherwise;
};

struct seccomp_filter {
    struct sock_fprog program; /* owned */
};

/* For AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64, whichever this is; ERR_UNSUPPORTED for others,
 * ERR_INTERNAL for a call that is listed twice, ERR_LIMIT when it does not fit a program. */
int seccomp_filter_compile(struct seccomp_filter *filter, uint32_t audit_arch,
                           const struct seccomp_policy *policy, struct error *err);

void seccomp_filter_done(struct seccomp_filter *filter);

/* For the calling process, for ever. Needs no_new_privs or CAP_SYS_ADMIN. 0 or -errno. */
int seccomp_filter_load(const struct seccomp_filter *filter);
/* The same, and what it refuses is told to the kernel's audit log. */
int seccomp_filter_load_logged(const struct seccomp_filter *filter);
