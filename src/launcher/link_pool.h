/* The numbers of networks: which are in use, and by what.
 *
 * A number belongs to a network namespace with a device, not to a sandbox: what a removed sandbox
 * leaves for the next one keeps its number. A number that nobody has any more is given out again
 * only when its device is gone, of which no word is sent: whoever takes one looks. The search goes
 * on behind the last one taken, so that a number rests as long as possible, and with it whatever
 * the world still sends to its address. */
#pragma once

#include <stdint.h>

#include "base/error.h"

#define LINK_POOL_MAX 65535 /* the greatest number: four hexadecimal digits of a name */

struct launcher;

struct link_pool {
    uint64_t used[(LINK_POOL_MAX + 1) / 64];
    unsigned last; /* taken */
};

/* ERR_LIMIT: all are in use. */
int link_pool_take(struct launcher *launcher, unsigned *ret_number, struct error *err);
void link_pool_release(struct launcher *launcher, unsigned number); /* 0: none */

/* Of a sandbox of a former launcher. -EEXIST: another one has it. */
int link_pool_reserve(struct launcher *launcher, unsigned number);

/* Delete the devices whose number nobody has: of a former launcher that was killed. They go by
 * themselves as a rule; this is for one that somebody else keeps. */
void link_pool_sweep(struct launcher *launcher);
