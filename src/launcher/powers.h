/* What this launcher may do, found out once at its start.
 *
 * There are two kinds. The root of the machine's own user namespace may do everything. Whoever is
 * root only of a smaller one (made by ourselves for an ordinary user, see userns.h, or that of a
 * container) owns his mounts, processes and namespaces all the same, but not the machine's: no
 * device nodes, no mounts with mapped ids, no loop devices, no control groups unless some were
 * given to him, and no ids but those that are mapped.
 *
 * Nobody else asks who we are: what depends on it depends on one of these. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define POWERS_RANGES_MIN 64u /* fewer would be too few sandboxes: then all have the same ids */

struct powers {
    bool machine;      /* root of the machine: all of the following are true */
    bool map_mounts;   /* show a file tree with mapped ids */
    bool make_devices; /* device nodes; else those of the host are shown */
    bool all_groups;   /* control groups anywhere; else where they were given to us */
    bool set_groups;   /* setgroups(2): not in a namespace that maps one id */
    /* The ids of sandboxes: ids_each from ids_first on for range 0, and so on. */
    uint32_t ids_first, ids_each;
    unsigned id_ranges; /* 1: all sandboxes share one */
    uint32_t ids_last;  /* the greatest that is mapped */
    uint32_t user;      /* who we are in the namespace around ours; 0: of the machine */
};

/* From the maps of the namespace we are in. ERR_DENIED when we are not its root. */
int powers_find(struct powers *ret, struct error *err);

/* The same from the texts of /proc/self/uid_map and gid_map. */
int powers_from_maps(const char *uid_map, const char *gid_map, struct powers *ret,
                     struct error *err);

/* The first id of a sandbox with this range: root inside. */
uint32_t powers_first_id(const struct powers *powers, unsigned range);
