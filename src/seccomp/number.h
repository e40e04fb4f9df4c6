/* Names of system calls. */
#pragma once

#include <stdint.h>

/* The number of a call on an architecture (AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64), or -1 when it
 * does not exist there. */
int seccomp_number_find(const char *name, uint32_t audit_arch);
