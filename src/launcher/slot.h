/* The slots: prepared processes of which one becomes each sandbox.
 *
 * A pool of them is kept for the default shape. A sandbox of another shape has its own made to
 * order; what goes wrong with that one is told to whoever asked for the sandbox and to nobody else.
 * All wait in one queue, and slots are made in its order.
 *
 * Refilling happens when no CREATE is under way, one slot at a time: a slot that joins its cgroups
 * holds a lock that every fork on the machine needs, for milliseconds when the machine was idle.
 * Only a burst that finds no slot ready makes them at once.
 *
 * A slot that hangs, say in the mount of a dead network file system, is given up after a while and
 * whoever waits for it is told. If not even SIGKILL ends it, it stays DYING, where it is in
 * nobody's way. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/cgroup.h"
#include "launcher/loop.h"
#include "launcher/slot_process.h"
#include "launcher/spare.h"

struct launcher;
struct sandbox;

enum slot_state {
    SLOT_STATE_PREPARING,
    SLOT_STATE_READY, /* its execd serves; of the pool */
    SLOT_STATE_DYING, /* waits for the end of its process */
};

struct slot {
    struct launcher *launcher;
    struct slot *next;
    enum slot_state state;
    pid_t pid;
    int pidfd;
    int control_fd;
    uint64_t start_ticks;
    uint64_t begun_ms; /* monotonic */
    unsigned range;
    struct slot_shape shape;
    char cgroup[CGROUP_NAME_MAX];
    bool cgroup_used; /* by another sandbox before */
    struct spare_network
        network;             /* print and number are for the next; the fd only while it starts */
    unsigned new_number;     /* for a network it makes itself, if it must */
    int counters_fd;         /* link_open_counters(), once it serves; -1: mode none */
    char *directory;         /* among the loose ones; NULL while a sandbox has it */
    struct sandbox *sandbox; /* PREPARING: made to order for this one */
    bool ordered;            /* not of the pool */
    bool serves;             /* its execd said so */
    bool made_network;       /* of its own: it said so */
    struct error failure;    /* what it reported */
    struct loop_source control_source;
    struct loop_source exit_source;
};

struct slots {
    struct slot *list;
    unsigned count[SLOT_STATE_DYING + 1];
    unsigned ordered;  /* of those PREPARING */
    unsigned parallel; /* how many may be prepared at once */
    unsigned failures; /* one after another */
    struct error last_failure;
    struct loop_timer refill_timer;
    struct loop_timer make_timer; /* set when some are PREPARING, for the oldest or before */
    volatile uint8_t *progress;   /* by range: at which step a slot is; slots write it */
    bool resting; /* the timer was set because of failures: nothing starts before it fires */
};

int slot_init_all(struct launcher *launcher, struct error *err);
void slot_free_all(struct launcher *launcher); /* ends the waiting ones */

/* Give queued sandboxes to ready slots and make new slots where they are needed. */
void slot_pump(struct launcher *launcher);

bool slot_is_alive(const struct slot *slot); /* of one whose execd serves */

/* The process is the sandbox's now, which has been published: forget the slot without touching the
 * process. */
void slot_release(struct slot *slot);

/* End it and, when it is gone, delete what it had. `directory` is the loose one of the sandbox it
 * was to become, taken over; NULL: it still has its own. */
void slot_discard(struct slot *slot, char *directory);
