/* Control groups, v1 and v2 behind one face.
 *
 * Below one parent group of ours, `opensandbox-<instance>`, every slot has a group `slot-<n>` that
 * becomes its sandbox's. v2 is one hierarchy; v1 is one per controller. A limit this machine cannot
 * enforce is an error that names it, never ignored: cgroup_check() before, cgroup_limit() after. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define CGROUP_PIDS_DEFAULT 4096
#define CGROUP_NAME_MAX     32

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_CPU,
    CGROUP_PIDS,
    CGROUP_CONTROLLERS,
};

struct cgroup_hierarchy {
    int fd;             /* our parent group */
    char *path;         /* the same */
    const char *inside; /* where a sandbox sees it below /sys/fs/cgroup; "" for v2 */
};

struct cgroups {
    bool v2;
    unsigned count;
    struct cgroup_hierarchy items[CGROUP_CONTROLLERS];
    int of[CGROUP_CONTROLLERS]; /* index of the hierarchy that has the controller, or -1 */
    unsigned next_slot;
};

/* 0 means no limit; for pids the default. */
struct cgroup_limits {
    uint64_t memory_bytes;
    uint32_t cpu_millis;
    uint32_t pids;
};

/* Where hierarchies are mounted, from the text of /proc/self/mountinfo. NULL: not there. */
struct cgroup_mounts {
    char *v1[CGROUP_CONTROLLERS];
    char *v2;
};
int cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret);
void cgroup_mounts_done(struct cgroup_mounts *mounts);

/* Find the hierarchies and make our parent group in them: <mount>/<parent>/opensandbox-<instance>.
 * Without any hierarchy count is 0: sandboxes without limits still work. */
int cgroup_open(struct cgroups *groups, const char *parent, const char *instance,
                struct error *err);
void cgroup_close(struct cgroups *groups); /* removes our parent groups if they are empty */

void cgroup_new_name(struct cgroups *groups, char ret[CGROUP_NAME_MAX]);

/* These return 0 or -errno. Joining moves the calling process. */
int cgroup_make(const struct cgroups *groups, const char *name);
int cgroup_join(const struct cgroups *groups, const char *name);
int cgroup_limit(const struct cgroups *groups, const char *name,
                 const struct cgroup_limits *limits);
int cgroup_kill(const struct cgroups *groups, const char *name);
int cgroup_remove(const struct cgroups *groups, const char *name); /* absent is success */

unsigned cgroup_oom_kills(const struct cgroups *groups, const char *name);

/* ERR_UNSUPPORTED naming the first limit that cannot be enforced here. */
int cgroup_check(const struct cgroups *groups, const struct cgroup_limits *limits,
                 struct error *err);

/* Call for every group of a slot or sandbox there is in any hierarchy (some more than once). */
void cgroup_each(const struct cgroups *groups, void (*found)(void *context, const char *name),
                 void *context);

/* CFS quota and period for a number of thousandths of a cpu; the kernel wants a quota of 1 ms or
 * more and a period of 1 s or less. */
void cgroup_cpu_quota(uint32_t millis, uint32_t *ret_quota_us, uint32_t *ret_period_us);
