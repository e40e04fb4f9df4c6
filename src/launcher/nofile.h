/* The number of files a process of a sandbox may have open. The kernel has no control group for it:
 * it is a resource limit of each process, inherited by its children. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/cgroup.h"

#define NOFILE_DEFAULT 65536u

/* The greatest this launcher can set. */
uint32_t nofile_max(void);

/* What a sandbox gets that asked for `files`; 0: the default, or less where there is no more. */
uint32_t nofile_effective(uint32_t files);

/* Whether a new sandbox can have `files`; ERR_UNSUPPORTED, with what it can have. */
int nofile_check(uint32_t files, struct error *err);

/* Lower that of a new sandbox's first process. `owner` is whose user namespace it is. 0 or -errno.
 */
int nofile_set(pid_t pid, uid_t owner, uint32_t files);

/* Whether a running one can come from one effective limit to another. Raising what cannot be raised
 * is ERR_UNSUPPORTED, before anything was changed. */
int nofile_check_change(uint32_t from, uint32_t to, struct error *err);

/* Set it on the first process and on every one in the group, until a look at all of them finds
 * nothing to change. A process that had lowered its own limit below `from` keeps that. */
int nofile_change(const struct cgroups *groups, const char *name, pid_t first, uid_t owner,
                  uint32_t from, uint32_t to, struct error *err);
