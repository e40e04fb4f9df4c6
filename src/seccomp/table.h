/* Short words for writing tables of system calls; for files that hold one, and no others. */
#pragma once

#include <linux/seccomp.h>

#include "base/macros.h"
#include "seccomp/filter.h"

#define INT          0xffffffffull
#define ALLOW        SECCOMP_RET_ALLOW
#define REFUSE(code) (SECCOMP_RET_ERRNO | (code))

#define RULE(list, rest)                                               \
    &(const struct seccomp_rule)                                       \
    {                                                                  \
        .cases = (list), .count = ARRAY_LEN(list), .otherwise = (rest) \
    }
