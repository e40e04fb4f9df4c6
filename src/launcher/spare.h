/* What removed sandboxes leave that new ones can use: control groups and network namespaces. To
 * make and delete those is a quarter of all the work for a sandbox that lives briefly.
 *
 * Nothing of one sandbox may be seen in the next. So the slot that takes a spare thing makes sure
 * that it is like new (cgroup_renew(), network_print()) and else makes its own; here they
 * are only kept, for a while. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/cgroup.h"
#include "launcher/loop.h"

#define SPARE_MAX 128 /* of each kind */

struct launcher;

struct spares {
    char groups[SPARE_MAX][CGROUP_NAME_MAX];
    unsigned group_count;
    struct spare_network {
        int fd;
        uint64_t print;  /* network_print() when it was new */
        unsigned number; /* of mode nat, see link_pool.h; 0: of mode none */
    } networks[SPARE_MAX];
    unsigned network_count;
    bool taken; /* one since the timer was set */
    struct loop_timer timer;
};

void spare_init(struct launcher *launcher);
void spare_done(struct launcher *launcher); /* deletes them */

/* No process may be in it any more. False: not kept, for the caller to delete. */
bool spare_keep_group(struct launcher *launcher, const char *name);
bool spare_take_group(struct launcher *launcher, char ret[CGROUP_NAME_MAX]);

/* Takes the descriptor and the number. */
void spare_keep_network(struct launcher *launcher, struct spare_network network);
/* fd -1: there is none of this mode. */
struct spare_network spare_take_network(struct launcher *launcher, bool nat);
/* Whoever wants one would have its number soon. */
void spare_drop_networks(struct launcher *launcher);
