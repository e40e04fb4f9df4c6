/* The system calls of a sandbox: one table from which the filter of every architecture is made.
 *
 * A call that no group names answers ENOSYS, also one that is newer than this file, so that a libc
 * falls back to what it used before. A group answers all its calls alike, or has a rule that looks
 * at arguments. Rules look at what the kernel looks at: of an int the low 32 bits, whatever the
 * rest of the register holds.
 *
 * The answers are SECCOMP_RET_ values: allowed, or refused with an errno a program understands. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SECCOMP_TABLE_DEFAULT (SECCOMP_RET_ERRNO | ENOSYS)

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

extern const struct seccomp_group seccomp_table[];
extern const size_t seccomp_table_count;

/* The number of a call on an architecture (AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64), or -1 when it
 * does not exist there. */
int seccomp_table_number(const char *name, uint32_t audit_arch);
