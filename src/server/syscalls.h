/* The system calls of the server: an allow list. What it is made of is in syscalls.c, group by
 * group with the reason. Everything else answers ENOSYS and is told to the kernel's audit log. */
#pragma once

#include <stdbool.h>

#include "seccomp/filter.h"

extern const struct seccomp_policy server_syscalls_policy;

/* For the calling process and its threads to be, for ever. Needs no_new_privs. False when the
 * kernel has no filters: then all calls stay. */
int server_syscalls_restrict(bool *ret_active, struct error *err);
