/* The launcher's way to the world for sandboxes of network mode nat: what all of them share. Each
 * has a routed pair of interfaces of its own and an address of the pool; one nft table, which knows
 * the interfaces by the beginning of their names, says what they may reach. It is there before the
 * first interface is made and nothing in it changes with sandboxes, so that no sandbox is ever
 * without it. docs/network.md tells what it allows. */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "launcher/options.h"
#include "launcher/powers.h"
#include "launcher/state.h"
#include "runtime/native/message.h"

#define NAT_RESOLV_MAX 1024

struct nat {
    bool on;
    char reason[MESSAGE_REASON_MAX]; /* why it is off, for people */
    uint32_t pool;                   /* first address of the pool, host byte order */
    unsigned pool_bits;              /* length of its prefix, 8 to 28 */
    unsigned mtu;                    /* for the sandboxes' interfaces */
    char prefix[12];                 /* of the names of our interfaces: "o<instance>-" */
    char resolv[NAT_RESOLV_MAX];     /* what sandboxes get as /etc/resolv.conf */
};

/* Loads the rules, replacing those of a launcher before us in one step, and has the machine
 * forward. With --network auto what cannot be had is no failure: `on` is false and `reason` set. To
 * be called before any interface is made. */
int nat_open(struct nat *nat, const struct options *options, const struct state *state,
             const struct powers *powers, struct error *err);
void nat_close(struct nat *nat, bool last); /* last: no sandbox is left, the rules go as well */

unsigned nat_numbers(const struct nat *nat); /* networks are numbered 1 .. this */

/* Of the sandbox's end, host byte order: pool + 1 + number. */
uint32_t nat_address(const struct nat *nat, unsigned number);

/* pool + 1, the same for all; no interface has it. */
uint32_t nat_gateway(const struct nat *nat);

/* Of the host's end: prefix + 4 hex digits. */
void nat_name(const struct nat *nat, unsigned number, char ret[IFNAMSIZ]);
