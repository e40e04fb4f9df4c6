/* What runs inside a slot: the process that prepares itself, waits, and becomes a sandbox.
 *
 * It is process 1 of its own pid namespace from birth. The work is three lists of named steps:
 * prepare (no sandbox is known yet: cgroups, namespaces, network, /proc, /dev, /sys), assemble (an
 * order has come: limits, overlays, pivot_root) and confine (give up everything, load the filter).
 * Each step runs with the privileges of the launcher; the user namespace is entered near the end,
 * because the mounts made before then belong to the initial one and cannot be undone from inside.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "base/macros.h"
#include "launcher/cgroup.h"
#include "launcher/seccomp_filter.h"
#include "launcher/state.h"

/* Everything a slot must know at birth. It is a copy of the launcher's memory, so this is not sent.
 */
struct slot_plan {
    const struct state *state;
    const struct seccomp_filter *filter;
    struct cgroups cgroups; /* with the launcher's descriptors, replaced by the slot's */
    const char *cgroup;     /* also the name of its socket */
    const char *directory;  /* name among the loose ones */
    unsigned range;
    int control_fd;
};

/* Launcher to slot: be this one. */
struct slot_order {
    char id[ID_UUID_LEN + 1];
    struct cgroup_limits limits;
};

enum slot_report_kind {
    SLOT_READY = 1, /* prepared; waits for an order */
    SLOT_STARTED,   /* the next call is execve: end of stream after this means it succeeded */
    SLOT_FAILED,
};

#define SLOT_UNMAPPED 1u /* flag: a file system of the image cannot map ids */

#define SLOT_STEP_MAX 64
#define SLOT_SOCKET   "socket" /* execd's, in the slot's directory until a sandbox has it */

/* Slot to launcher. */
struct slot_report {
    uint32_t kind;
    uint32_t flags;
    int32_t sys;
    char step[SLOT_STEP_MAX]; /* FAILED: what it was doing, as in "cannot <step>" */
};

/* Never returns. */
NORETURN void slot_process_run(const struct slot_plan *plan);

/* From here on: shared by the files that implement the steps. */

struct slot_context {
    struct slot_plan plan;
    struct slot_order order;
    uint32_t base_id;
    uint32_t flags;
    int control_fd;
    int execd_fd;
    int scratch_fd; /* a small tmpfs on which everything is put together */
    int proc_fd;
    int dev_fd;
    int userns_fd;
    int socket_fd;
    int sandbox_fd; /* the sandbox's directory */
    int root_fd;
    int work_fds[CGROUP_WORK_FDS_MAX]; /* with which execd's children join their group */
    unsigned work_count;
    int score_fd; /* /proc/self/oom_score_adj */
};

struct slot_step {
    const char *name;
    int (*run)(struct slot_context *slot); /* 0 or -errno */
};

#define SLOT_SAFE_MOUNT (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

int slot_make_dirs(int fd, const char *const *names, size_t count); /* 0755; 0 or -errno */

extern const struct slot_step slot_base_steps[]; /* each list ends with a NULL name */
extern const struct slot_step slot_kernel_steps[];
extern const struct slot_step slot_image_steps[];
extern const struct slot_step slot_confine_steps[];
