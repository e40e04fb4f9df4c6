/* What runs inside a slot: the process that makes a sandbox around itself and becomes its execd.
 *
 * It is process 1 of its own pid namespace from birth. The work is lists of named steps: base
 * (cgroups, namespaces, network), image (the overlay), kernel (/proc, /dev, /sys), enter
 * (pivot_root) and confine (give up everything, load the filter). Each step runs with the
 * privileges of the launcher; the user namespace is entered near the end, because the mounts made
 * before then belong to the initial one and cannot be undone from inside. Then it executes execd,
 * which says when it serves and waits, as the sandbox nobody has asked for yet, until it is
 * somebody's (execd/hold.h).
 *
 * It ends with the launcher: before it is execd by a signal of the kernel, then because the control
 * socket ends. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "base/macros.h"
#include "launcher/cgroup.h"
#include "launcher/disk.h"
#include "launcher/state.h"
#include "runtime/native/message.h"
#include "seccomp/filter.h"

/* What cannot be changed once a slot has been made. The pool is of the default shape: the host
 * image, writable, without a disk limit; every other one is made to order. */
#define SLOT_IMAGE_HOST "host"

struct slot_shape {
    char image[MESSAGE_IMAGE_MAX]; /* "host" or the name of a directory image */
    uint64_t disk_bytes;           /* disk_shape_bytes() of its limit; 0: none needed */
    bool read_only;                /* the root file system */
};

/* Everything a slot must know at birth. It is a copy of the launcher's memory, so this is not sent.
 */
struct slot_plan {
    const struct state *state;
    const struct seccomp_filter *filter;
    const struct disks *disks;
    const struct slot_shape *shape;
    struct cgroups cgroups; /* with the launcher's descriptors, replaced by the slot's */
    const char *cgroup;     /* also the name of its socket */
    bool cgroup_used;       /* another sandbox had it */
    int network_fd;         /* namespace that another sandbox had; -1: none */
    uint64_t network_print; /* of that one when it was new */
    const char *directory;  /* name among the loose ones */
    unsigned range;
    uint32_t open_files; /* of each process */
    int control_fd;
    int image_fd; /* its directory, in the launcher's mount namespace; -1: image "host" */
    volatile uint8_t *progress; /* seen by the launcher: the number of the step it is at */
};

/* On the control socket, slot to launcher: struct slot_report, or one byte from execd when it
 * serves. Launcher to slot: nothing but its end. */
enum slot_report_kind {
    SLOT_FAILED = 1,
    SLOT_NOTED, /* only the flags */
};

#define SLOT_UNMAPPED    1u /* flag: a file system of the image cannot map ids */
#define SLOT_NEW_NETWORK 2u /* flag: the print is that of a namespace it made itself */

#define SLOT_STEP_MAX 64
#define SLOT_SOCKET   "socket" /* execd's, in the slot's directory until a sandbox has it */

/* Slot to launcher. */
struct slot_report {
    uint32_t kind;
    uint32_t flags;
    int32_t sys;
    uint64_t network_print;
    char step[SLOT_STEP_MAX]; /* FAILED: what it was doing, as in "cannot <step>" */
};

/* Never returns. */
NORETURN void slot_process_run(const struct slot_plan *plan);

/* Of the step with this number in a slot's progress, as in "cannot <step>". */
const char *slot_process_step_name(unsigned number);

/* From here on: shared by the files that implement the steps. */

struct slot_context {
    struct slot_plan plan;
    uint32_t base_id;
    uint32_t flags;
    int control_fd;
    int execd_fd;
    int idle_fd;
    int mount_fd; /* launcher/mount in our namespace */
    int proc_fd;
    int dev_fd;
    int userns_fd;
    int socket_fd;
    int name_fd;    /* of the socket's file */
    int sandbox_fd; /* the sandbox's directory */
    int upper_fd;   /* where its upper and work directories are: there, or on a disk of its own */
    int root_fd;
    int work_fds[CGROUP_WORK_FDS_MAX]; /* with which execd's children join their group */
    unsigned work_count;
    int image_fd; /* a directory image's tree, in the air */
    uint64_t network_print;
};

/* The numbers of what a slot keeps from the launcher until it has become execd. LISTEN is the
 * launcher's lock, see state.h, and NAME a network that another sandbox had, until there is a
 * socket with a name. */
enum {
    SLOT_LISTEN_FD = 3,
    SLOT_CONTROL_FD,
    SLOT_IDLE_FD,
    SLOT_NAME_FD,
    SLOT_EXECD_FD,
    SLOT_MORE_FD
};

struct slot_step {
    const char *name;
    int (*run)(struct slot_context *slot); /* 0 or -errno */
};

#define SLOT_SAFE_MOUNT (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

static inline bool slot_is_host(const struct slot_context *slot)
{
    return slot->plan.image_fd < 0;
}

/* Before a directory image is mounted: make in `upper_fd` what `lower_fd` does not have as a
 * directory and the sandbox needs. Nothing of the image is followed. 0 or -errno. */
int slot_fit_image(struct slot_context *slot, int lower_fd, int upper_fd);

/* With a read-only root: /tmp, /var/tmp and /run as file systems in memory. */
int slot_mount_memory(struct slot_context *slot);

/* To be killed when the launcher ends, whatever we wait for then; a change of user undoes it, which
 * confining us is one of. -ESRCH: the launcher has ended before. */
int slot_follow_launcher(struct slot_context *slot);

/* Run this as the owner of what the sandbox has: with its first id, and our capabilities. What is
 * made then belongs to root inside. Its answer, or -errno. */
int slot_as_owner(struct slot_context *slot, int (*run)(struct slot_context *slot, void *argument),
                  void *argument);

extern const struct slot_step slot_base_steps[]; /* each list ends with a NULL name */
extern const struct slot_step slot_image_steps[];
extern const struct slot_step slot_kernel_steps[];
extern const struct slot_step slot_enter_steps[];
extern const struct slot_step slot_confine_steps[];
