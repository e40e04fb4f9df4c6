/* The launcher's directories below the state directory:
 *
 *   launcher/              0700 root, locked by the one launcher that serves this state directory
 *     execd                the program of every sandbox, 0711: executable, not readable inside
 *     tail                 what runs as `tail -f /dev/null` (idle.h)
 *     image-host/          the host as an image
 *     mount/<place>/       empty; where slots, each in its own mount namespace, put their mounts
 *     sandboxes/<id>/      record, upper/, work/
 *     loose/<name>.<range> of slots that wait and of sandboxes being deleted: what a restart clears
 *     volumes/<name>/      volumes that outlive sandboxes (volume_store.h)
 *   run/<id>.sock          execd's socket, the server's */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "launcher/process.h"

/* The places in mount/. They are the same for all slots: what is mounted on them is seen only in
 * the slot's namespace, and no sandbox can reach them. */
#define STATE_MOUNT_LOWER   "lower"
#define STATE_MOUNT_USR     "usr"
#define STATE_MOUNT_OVERLAY "overlay"
#define STATE_MOUNT_ROOT    "root"
#define STATE_MOUNT_DISK    "disk"
#define STATE_MOUNT_VOLUME  "volume"

#define STATE_INSTANCE_MAX 9 /* 8 hex digits */

struct state {
    char *path;          /* of the state directory, resolved */
    char *launcher_path; /* <path>/launcher */
    char *run_path;
    int launcher_fd; /* holds the lock */
    int sandboxes_fd;
    int loose_fd;
    int volumes_fd;
    int mount_fd; /* of mount/; locked by the launcher and by every slot that still prepares or
                     waits */
    int run_fd;
    int execd_fd;
    int idle_fd;
    uid_t server_uid;
    char instance[STATE_INSTANCE_MAX]; /* 8 hex digits from the path; part of every name outside of
                                          it */
    char boot_id[PROCESS_BOOT_ID_LEN + 1];
};

/* The instance of a state directory whose path is resolved. */
void state_instance(const char *path, char ret[STATE_INSTANCE_MAX]);

int state_open(struct state *state, const char *path, const char *execd, uid_t server_uid,
               struct error *err);
void state_close(struct state *state);
