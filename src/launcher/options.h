/* The launcher's command line: all the configuration it has. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/error.h"
#include "base/log.h"
#include "launcher/images.h"
#include "launcher/volume.h"

#define OPTIONS_SLOTS_MIN     4 /* of the default */
#define OPTIONS_SLOTS_MAX     64
#define OPTIONS_METER_DEFAULT 5
#define OPTIONS_METER_MAX     3600
#define OPTIONS_MAKE_DEFAULT  30
#define OPTIONS_SPARE_DEFAULT 10
#define OPTIONS_SPARE_MAX     3600
#define OPTIONS_MAKE_MAX      3600
#define OPTIONS_POOL_DEFAULT  "100.64.0.0/16"
#define OPTIONS_POOL_BITS_MIN 8
#define OPTIONS_POOL_BITS_MAX 28
#define OPTIONS_DNS_MAX       3

enum options_network {
    OPTIONS_NETWORK_AUTO, /* nat where it can be had */
    OPTIONS_NETWORK_NAT,  /* or do not start */
    OPTIONS_NETWORK_NONE,
};

struct options { /* strings are borrowed from argv */
    const char *listen_path;
    int fd; /* -1: none */
    const char *state_dir;
    const char *execd;
    const char *cgroup_parent; /* NULL: the root of each hierarchy */
    uint32_t server_uid;
    unsigned slots;
    struct images images; /* none opened yet */
    struct volume_allowed allowed;
    unsigned meter_s; /* between two readings of each sandbox's memory; 0: only when asked */
    unsigned make_s;  /* how long a sandbox may take to be made */
    unsigned spare_s; /* how long what a sandbox leaves is kept for the next; 0: not at all */
    bool quick_moves; /* see cgroup_quick_open() */
    enum options_network network;
    struct address_network pool;   /* of addresses for sandboxes */
    uint32_t dns[OPTIONS_DNS_MAX]; /* name servers for sandboxes, host byte order */
    unsigned dns_count;            /* 0: the host's */
    enum log_format log_format;
    enum log_level log_level;
    bool help;
    bool version;
};

int options_parse(int argc, char **argv, struct options *ret, struct error *err);
extern const char options_usage[];

/* How many slots a machine with so much memory keeps unless it is told: they take a five-hundredth
 * of it. */
unsigned options_default_slots(uint64_t memory_bytes);

/* A relative path of plain names: it is joined to the cgroup mount points. */
bool options_is_group_path(const char *path);

/* --network, --network-pool and --dns, for `check` as well. Returns 1 when `name` is none of them.
 */
int options_set_network(struct options *options, const char *name, const char *value,
                        struct error *err);
void options_default_network(struct options *options);
