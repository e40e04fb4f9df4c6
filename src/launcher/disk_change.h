/* Enlarging the disks of running sandboxes in the background: one process for each, since the
 * kernel may need long for a big step. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "launcher/loop.h"

struct launcher;
struct disk_change;

struct disk_changes {
    struct disk_change *list;
};

/* `done` is called once, later, with how it went (code ERR_OK: the disk has the new size), unless
 * the launcher ends before. The sandbox may be gone by then: it is told by its id. Fails with
 * CONFLICT while another change of this sandbox is under way. `dir_fd` is borrowed. */
int disk_change_start(struct launcher *launcher, const char *id, int dir_fd, uint64_t bytes,
                      void (*done)(struct launcher *launcher, const char *id, uint64_t bytes,
                                   const struct error *err),
                      struct error *err);

void disk_change_forget_all(struct launcher *launcher); /* the processes finish by themselves */
