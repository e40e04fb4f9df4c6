/* The disk limit of a sandbox: how many bytes and files its writable layer may hold.
 *
 * There are two ways, of which the first that works here is taken when the launcher starts:
 *
 *   quota  the file system of the state directory counts projects (ext4 or xfs with prjquota).
 * Every sandbox's layer is a project of its own, limited or not, so that a waiting slot can serve a
 * limit and a limit can be changed at any time. loop   an ext4 in the sparse file
 * sandboxes/<id>/disk, copied from a template, on a loop device. The slot must know the size at
 * birth. The device is freed by the kernel with its last user (autoclear), so nothing is left of a
 * slot or a launcher that was killed.
 *
 * Where neither works a limit is refused, with the reasons.
 *
 * Only the kernel ever writes the loop file: mke2fs makes the template from nothing, the sandbox
 * sees neither file nor device and reaches the ext4 through the overlay alone. Its contents need no
 * more trust than those of the state directory's own file system. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/state.h"

#define DISK_MIN_BYTES       (16ull << 20)
#define DISK_MAX_BYTES       (1ull << 50)
#define DISK_BYTES_PER_INODE 8192u     /* one file for so many bytes of a limit, in both ways */
#define DISK_FILE            "disk"    /* loop: the file, in the sandbox's directory */
#define DISK_DEVICE          "device"  /* loop: a link that tells where it is */
#define DISK_QUOTA_DIR       "project" /* quota: the directory that is a project */
#define DISK_REASON_MAX      128
/* Less is full: ext4 refuses a write while it still has a few blocks for its own trees. */
#define DISK_FULL_BYTES (128u << 10)

enum disk_way { DISK_NONE, DISK_QUOTA, DISK_LOOP };

struct disks {
    enum disk_way way;
    char instance[9];               /* marks our loop devices */
    uint32_t first_project;         /* quota: the id of range n is this + n */
    bool can_grow;                  /* loop: whether the kernel will let us */
    char no_quota[DISK_REASON_MAX]; /* why not; empty when it is the way */
    char no_loop[DISK_REASON_MAX];
};

struct disk_usage {
    uint64_t total_bytes, used_bytes, free_bytes; /* free: what the sandbox may still write */
    uint64_t total_inodes, used_inodes;
};

/* Find the way and free loop devices that a former launcher's slots left without a user. Never
 * fails: what is missing is told by disk_check(). */
void disk_open(struct disks *disks, const struct state *state);

/* Whether a sandbox may have this limit here; 0 bytes is none, and always allowed. INVALID: out of
 * range or more than the state directory's file system has; UNSUPPORTED: cannot be enforced. */
int disk_check(const struct disks *disks, const struct state *state, uint64_t bytes,
               struct error *err);

/* What the shape of a slot must have for this limit: the size of the loop file, or 0 when every
 * slot can do it. */
uint64_t disk_shape_bytes(const struct disks *disks, uint64_t bytes);

/* In a slot: where its upper and work directories are to be made. */
struct disk_place {
    const char *launcher_path;
    int sandbox_fd; /* the sandbox's directory, in the slot's mount namespace */
    int mount_fd;   /* launcher/mount, likewise */
    unsigned range;
    uint64_t bytes; /* disk_shape_bytes() */
};

/* Returns the descriptor, or -errno. */
int disk_make(const struct disks *disks, const struct disk_place *place);

/* Give the sandbox with this range its limit (quota), before it starts or at any time after; 0
 * lifts it. Does nothing in the other ways. */
int disk_limit(const struct disks *disks, const struct state *state, unsigned range, uint64_t bytes,
               struct error *err);

/* What a sandbox with a limit uses. `dir_fd` is its directory, `pid` its process 1, or 0 when that
 * has ended. 0 or -errno; -ENODATA: this one has no disk of its own. */
int disk_usage(const struct disks *disks, const struct state *state, unsigned range, int dir_fd,
               pid_t pid, struct disk_usage *ret);

/* Hardly one more block, or not one more file, can be had. */
bool disk_is_full(const struct disk_usage *usage);

/* Whether a running sandbox's limit may become `bytes`. `dir_fd` and `range` as above. A loop file
 * can only grow, and only in a sandbox that began with one. */
int disk_check_change(const struct disks *disks, const struct state *state, unsigned range,
                      int dir_fd, uint64_t old_bytes, uint64_t bytes, struct error *err);

/* The next two are for processes of their own, since they may wait for the disk; both need a
 * sandbox that runs and has a loop file. */

/* Enlarge the file and the file system in it. Repeatable if killed half-way. */
int disk_grow(const struct disks *disks, int dir_fd, uint64_t bytes, struct error *err);

/* Give up what the sandbox has written and the kernel has not: it is about to be deleted, and would
 * wait until all of that is on the host's disk. From here on everything in it fails. */
int disk_drop(const struct disks *disks, int dir_fd, struct error *err);
