/* The launcher as a whole: what its parts share. One thread, so there are no locks, and one
 * instance, which lives in main(). */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "launcher/cgroup.h"
#include "launcher/disk.h"
#include "launcher/disk_change.h"
#include "launcher/idrange.h"
#include "launcher/images.h"
#include "launcher/link_pool.h"
#include "launcher/loop.h"
#include "launcher/meter.h"
#include "launcher/nat.h"
#include "launcher/options.h"
#include "launcher/peer.h"
#include "launcher/powers.h"
#include "launcher/remove.h"
#include "launcher/sandbox.h"
#include "launcher/slot.h"
#include "launcher/spare.h"
#include "launcher/state.h"
#include "seccomp/filter.h"

struct launcher {
    struct options options;
    struct powers powers;
    struct loop loop;
    struct state state;
    struct cgroups cgroups;
    int quick_fd; /* of cgroup_quick_open(), or -1 */
    struct nat nat;
    struct disks disks;
    struct disk_changes disk_changes;
    struct seccomp_filter filter;
    struct idrange ranges;
    struct link_pool link_pool;
    struct images images;
    struct error image_error;          /* why there is no host image; code ERR_OK when there is */
    char image_resolv[NAT_RESOLV_MAX]; /* what it has as /etc/resolv.conf */
    struct sandboxes sandboxes;
    struct meters meters;
    struct slots slots;
    struct spares spares;
    struct remover remover;
    struct peers peers;
    int signal_fd;
    struct loop_source signal_source;
    struct loop_timer idle_timer; /* time a new launcher gives its first peer */
    uint32_t open_files;          /* what a process of a sandbox may have that asks for no limit */
    bool unmapped_logged;
    bool served; /* the start was a whole one: what is not known to us does not exist */
};

/* Start, serve until there is nothing left to do or a signal comes, stop. */
int launcher_run(const struct options *options, const struct powers *powers, struct error *err);

/* To be called when something may have been the last thing to do. */
void launcher_check_idle(struct launcher *launcher);
