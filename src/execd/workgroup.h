/* The control group of everything that is started here.
 *
 * On the native runtime execd stays outside of the group `work`, on which the limits of memory and
 * processes are set: it answers when they are hit. Each child joins it before anything else, by
 * writing "0" to files that the launcher has opened. There is one such file for every hierarchy the
 * group exists in. Without any, as elsewhere, nothing joins anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define EXECD_WORKGROUP_FDS_MAX 4

/* Once, at start. The descriptors are no longer inherited from then on. */
int execd_workgroup_init(const int *fds, size_t count, struct error *err);
bool execd_workgroup_exists(void);

/* For a new child, by system calls alone; 0, or -1 with errno. To move a process into a group is
 * allowed beyond its limit of processes, so that is looked at here: EAGAIN when the group has more
 * than it may with this one. */
int execd_workgroup_join_in_child(void);

/* The launcher has given us, and so all that is started here, a higher out-of-memory score. Take
 * that back for the entrypoint, once it runs: files in memory belong to nobody, and when they have
 * used it up the kernel shall rather end a command than the process with which the sandbox ends.
 * Where it is not allowed, so be it. */
void execd_workgroup_spare(pid_t pid);
