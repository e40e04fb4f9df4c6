#include "seccomp/number.h"

#include <linux/audit.h>
#include <seccomp.h>
#include <stddef.h>

#include "base/macros.h"
#include "base/str.h"

/* Younger than the oldest library we build with. */
static const struct {
    const char *name;
    int number;
    uint32_t only; /* the one architecture that has it; 0: the number is the same on all */
} young[] = {
    {"uretprobe", 335, AUDIT_ARCH_X86_64},
    {"uprobe", 336, AUDIT_ARCH_X86_64},
    {"cachestat", 451, 0},
    {"fchmodat2", 452, 0},
    {"map_shadow_stack", 453, 0},
    {"futex_wake", 454, 0},
    {"futex_wait", 455, 0},
    {"futex_requeue", 456, 0},
    {"mseal", 462, 0},
    {"setxattrat", 463, 0},
    {"getxattrat", 464, 0},
    {"listxattrat", 465, 0},
    {"removexattrat", 466, 0},
};

int seccomp_number_find(const char *name, uint32_t audit_arch)
{
    /* Its names of architectures are the kernel's. */
    int number = seccomp_syscall_resolve_name_arch(audit_arch, name);
    if (number >= 0)
        return number;
    for (size_t i = 0; i < ARRAY_LEN(young); i++) {
        if (str_equal(young[i].name, name) && (young[i].only == 0 || young[i].only == audit_arch))
            return young[i].number;
    }
    return -1;
}
