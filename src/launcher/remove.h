/* Deleting files and cgroups of sandboxes in the background.
 *
 * REMOVE moves a sandbox's directory into loose/ under a name that carries its range of ids, which
 * is one rename; a worker process deletes what is there. One worker at a time takes all that waits,
 * so a burst of removals costs one fork. A range is free again when its files are gone, also when
 * the launcher was restarted in between. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "launcher/loop.h"
#include "launcher/spare.h"

struct launcher;
struct remove_item;

struct remover {
    struct remove_item *dying; /* their process has not ended yet */
    struct remove_item *waiting;
    struct remove_item *active;
    int worker_pidfd;
    struct loop_source worker_source;
    struct loop_timer timer;
    unsigned failures; /* one after another: how long to wait before the next try */
};

void remove_init(struct launcher *launcher);
void remove_done(struct launcher *launcher); /* a worker goes on by itself */
bool remove_is_idle(const struct launcher *launcher);

/* Move sandboxes/<id> out of sight. *ret_name is for remove_later(); NULL when there was no such
 * directory. Caller frees. */
int remove_detach(struct launcher *launcher, const char *id, unsigned range, char **ret_name,
                  struct error *err);

/* What to give to remove_later() to have sandboxes/<id> deleted where it is. For one that cannot be
 * moved and that no launcher would take for a sandbox. Caller frees. */
char *remove_in_place(const char *id);

/* Delete loose/<name> (NULL: none) and the cgroup (NULL or "": none), then release the range (0:
 * none). No process may use any of them any more. */
void remove_later(struct launcher *launcher, const char *name, const char *cgroup, unsigned range);

/* The same for what a killed process still uses: when it has ended. Its cgroup and its network are
 * kept for the next one then, if they can be. Takes the descriptors. */
void remove_after(struct launcher *launcher, int pidfd, const char *name, const char *cgroup,
                  unsigned range, struct spare_network network);

void remove_kill_dying(struct launcher *launcher); /* again */

/* Everything a former launcher left in loose/; reserves the ranges. */
void remove_leftovers(struct launcher *launcher);
