/* Changing the disks of running sandboxes in the background: one process for each, since the kernel
 * may need long for a big step, or wait for the host's disk. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/id.h"
#include "launcher/loop.h"
#include "launcher/peer.h"
#include "runtime/native/message.h"

struct launcher;
struct disk_change;

struct disk_changes {
    struct disk_change *list;
};

typedef void disk_change_done(struct launcher *launcher, const char *id,
                              const struct message_limits *limits, struct peer_reply reply,
                              const struct error *err);

/* Enlarge to limits->disk_bytes. `done` is called once, later, with how it went (code ERR_OK: the
 * disk has the new size) and with what was given here, unless the launcher ends before. The sandbox
 * may be gone by then: it is told by its id. One at a time for each sandbox: ask
 * disk_change_pending() before. `dir_fd` is borrowed. */
int disk_change_start(struct launcher *launcher, const char *id, int dir_fd,
                      const struct message_limits *limits, struct peer_reply reply,
                      disk_change_done *done, struct error *err);

/* Give up what a sandbox has not written yet and kill it (see disk_drop()). `done` as above, with
 * nothing in limits and reply; the kill has been sent then, whatever the error says. */
int disk_change_drop(struct launcher *launcher, const char *id, int dir_fd, int sandbox_pidfd,
                     disk_change_done *done, struct error *err);

bool disk_change_pending(const struct launcher *launcher, const char *id);

void disk_change_forget_all(struct launcher *launcher); /* the processes finish by themselves */
