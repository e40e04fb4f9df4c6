/* A mount namespace of our own whose root we really stand on. */
#pragma once

#include "base/error.h"

/* Leaves the mounts of the machine visible (and what is mounted or unmounted there later follows),
 * but nothing mounted from here on is seen outside. In a plain chroot, in which the kernel refuses
 * pivot_root and user namespaces, the same tree becomes a true root. The working directory is kept.
 */
int private_root_enter(struct error *err);
