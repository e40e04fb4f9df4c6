/* Control groups, v1 and v2 behind one face.
 *
 * Below one parent group of ours, `opensandbox-<instance>`, every slot has a group `slot-<n>` that
 * becomes its sandbox's; v2 is one hierarchy, v1 is one per controller. Where what a sandbox runs
 * is limited ("its work"), execd is not:
 *
 * - v1, memory and pids: work is in slot-<n>; the execds of all sandboxes share one group, `execd`,
 *   since each memory group costs tens of kilobytes on a machine with many sandboxes;
 * - v1, cpu, cpuacct, blkio and freezer: everything is in slot-<n>;
 * - v2: work is in slot-<n>/work and execd in slot-<n>/init.
 *
 * So execd can answer when a sandbox has run into a limit of memory or processes, while those of
 * cpu and I/O, freezing and killing concern the whole. The cgroup namespace of a sandbox has the
 * group of its work as its root: what runs there sees itself at "/", and the limits that count.
 *
 * A limit this machine cannot enforce is an error that names it, never ignored: cgroup_check()
 * before, cgroup_limit() after. Any controller may be missing; what does not need it works. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define CGROUP_PIDS_DEFAULT 4096
#define CGROUP_NAME_MAX     32
#define CGROUP_REASON_MAX   192
#define CGROUP_WORK_FDS_MAX 2       /* hierarchies in which work and execd are apart */
#define CGROUP_EXECD        "execd" /* v1 */

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_CPU,
    CGROUP_PIDS,
    CGROUP_IO,      /* "blkio" on v1 */
    CGROUP_CPUACCT, /* v1; v2 counts without a controller */
    CGROUP_FREEZER, /* v1; v2 freezes without a controller */
    CGROUP_CONTROLLERS,
};

struct cgroup_hierarchy {
    int fd;             /* our parent group */
    char *path;         /* the same */
    const char *inside; /* where a sandbox sees it below /sys/fs/cgroup; "" for v2, NULL: nowhere */
    bool has_work;      /* and execd is apart from it */
};

/* The disk whose I/O is limited and counted: the one below the state directory. */
struct cgroup_device {
    bool found;
    unsigned major, minor;
    char reason[160]; /* why there is none */
};

struct cgroups {
    bool v2;
    unsigned count;
    struct cgroup_hierarchy items[CGROUP_CONTROLLERS];
    int of[CGROUP_CONTROLLERS]; /* index of the hierarchy that has the controller, or -1 */
    char *cpuset; /* v1: an empty group for show, since the JVM minds limits only where it finds
                   * this controller mounted; NULL: none */
    struct cgroup_device device;
    unsigned next_slot;
    char none[CGROUP_REASON_MAX]; /* why there is no hierarchy; "" when the machine has none */
};

/* 0: no limit; for pids the default. */
struct cgroup_limits {
    uint64_t memory_bytes;
    uint64_t io_read_bps, io_write_bps;
    uint32_t io_read_iops, io_write_iops;
    uint32_t cpu_millis;
    uint32_t pids;
};

/* Memory and processes are those of its work, without execd; cpu and I/O those of the whole. I/O is
 * that of the state directory's disk, as far as it reaches the disk; v1 does not see whose delayed
 * writes are, and counts only direct ones. Memory is refused, too, when something can be freed to
 * make room; v1 of some kernels (6.18) does not count that, but only what ended in a kill. */
struct cgroup_usage {
    uint64_t cpu_ns, memory_bytes, memory_peak_bytes;
    uint64_t io_read_bytes, io_write_bytes, io_read_ops, io_write_ops;
    uint64_t oom_kills;      /* processes ended by the kernel for want of memory */
    uint64_t memory_refused; /* times the memory limit was hit; see below */
    uint64_t pids_refused;   /* forks refused */
    uint64_t cpu_throttled;  /* periods in which the cpu limit stopped it */
    uint32_t pids;
};

/* Where hierarchies are mounted, from the text of /proc/self/mountinfo. NULL: not there. Lines that
 * make no sense are passed over. */
struct cgroup_mounts {
    char *v1[CGROUP_CONTROLLERS];
    char *cpuset; /* of v1 */
    char *v2;
};
void cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret);
void cgroup_mounts_done(struct cgroup_mounts *mounts);

/* Whether v2 is what this machine limits with, given the controllers v2 offers ("cpu memory pids"):
 * when at least as many of those we limit with are there as on v1. */
bool cgroup_mounts_prefer_v2(const struct cgroup_mounts *mounts, const char *v2_controllers);

/* Find the hierarchies and make our parent group in them: <mount>/<parent>/opensandbox-<instance>.
 * Without any hierarchy count is 0: sandboxes without limits still work. I/O is that of the disk on
 * which `state_path` is. Unless `anywhere`: in the group that was given to us, if one was (see
 * cgroup_given.c); nothing then is no error, and `none` says why. */
int cgroup_open(struct cgroups *groups, const char *parent, const char *instance,
                const char *state_path, bool anywhere, struct error *err);
void cgroup_close(struct cgroups *groups); /* removes our parent groups if they are empty */

/* Have the kernel move processes between groups without a pause of milliseconds, for as long as the
 * descriptor that is returned is open. -errno where it cannot. */
int cgroup_quick_open(void);

void cgroup_new_name(struct cgroups *groups, char ret[CGROUP_NAME_MAX]);

/* The following return 0 or -errno. */

/* All groups of a slot, with the default limit of processes. */
int cgroup_make(const struct cgroups *groups, const char *name);

/* Whether groups that a sandbox had can be made like new: on v1. On v2 what they have counted
 * cannot be set to zero, but it is fewer groups that have to be made. */
bool cgroup_can_renew(const struct cgroups *groups);
int cgroup_renew(const struct cgroups *groups, const char *name);

/* How process 1 comes to its place: on v2 it is born in `work` (cgroup_open_birth(); -1 on v1), on
 * v1 it joins its groups. Then it makes its cgroup namespace, which takes its root from that, and
 * steps out to where execd is. The last two move the calling process. */
int cgroup_open_birth(const struct cgroups *groups, const char *name, int *ret_fd);
int cgroup_join(const struct cgroups *groups, const char *name);
int cgroup_enter_namespace(const struct cgroups *groups, const char *name);

/* Descriptors with which a process can join the work by writing "0", also from inside the sandbox.
 * To be opened before the cgroup namespace is made: the kernel judges a move by what the opener
 * saw.
 */
int cgroup_open_work(const struct cgroups *groups, const char *name,
                     int ret_fds[CGROUP_WORK_FDS_MAX], unsigned *ret_count);

/* Set all limits, also of a running sandbox; 0 lifts one. Memory comes first and is refused with
 * -EBUSY when so much is in use that cannot be freed: nothing has changed then. After another
 * failure some may be set; to set the former ones again undoes that. -ENOTSUP: see cgroup_check().
 * May take as long as the kernel needs to free memory. */
int cgroup_limit(const struct cgroups *groups, const char *name,
                 const struct cgroup_limits *limits);

/* The same on groups that were never limited: nothing is lifted, which takes less time. */
int cgroup_limit_new(const struct cgroups *groups, const char *name,
                     const struct cgroup_limits *limits);

/* ERR_UNSUPPORTED naming the first limit that cannot be enforced here, and why. */
int cgroup_check(const struct cgroups *groups, const struct cgroup_limits *limits,
                 struct error *err);

/* What a controller is missing for stays 0. A kernel that keeps no peak of memory (v2 before 5.19)
 * has it be what is in use: then the caller keeps the greatest it has seen. */
int cgroup_usage(const struct cgroups *groups, const char *name, struct cgroup_usage *ret);

/* Only cpu_ns, memory_bytes, pids and I/O, for whoever asks often: it takes half the time. */
int cgroup_meter(const struct cgroups *groups, const char *name, struct cgroup_usage *ret);

/* Freezing is asked for, and is there when everything stands still. -ENOTSUP: no freezer. */
int cgroup_freeze(const struct cgroups *groups, const char *name, bool frozen);
int cgroup_frozen(const struct cgroups *groups, const char *name, bool *ret_frozen);

/* Every process of it, frozen or not. They are gone some time after this. */
int cgroup_kill(const struct cgroups *groups, const char *name);
int cgroup_remove(const struct cgroups *groups, const char *name); /* absent is success */

/* Call for every group of a slot or sandbox there is in any hierarchy (some more than once). */
void cgroup_each(const struct cgroups *groups, void (*found)(void *context, const char *name),
                 void *context);

/* CFS quota and period for a number of thousandths of a cpu; the kernel wants a quota of 1 ms or
 * more and a period of 1 s or less. */
void cgroup_cpu_quota(uint32_t millis, uint32_t *ret_quota_us, uint32_t *ret_period_us);
