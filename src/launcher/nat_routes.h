/* What the machine's IPv4 routes, of all tables, say about a pool, name servers and the way out. */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

struct nat_route {
    struct address_network to;
    unsigned char type; /* RTN_ */
    uint32_t table;
    uint32_t metric;
    unsigned device; /* 0: none, or several */
};

/* One message of the kernel's answer, of which there are so many bytes. Returns 0, or -EBADMSG when
 * it is no IPv4 route or its lengths do not fit. */
int nat_route_parse(const void *packet, size_t length, struct nat_route *ret);

#define NAT_ROUTES_LOCAL \
    256 /* addresses of the host that are kept; a sandbox reaches none of all */

struct nat_routes {
    struct address_network pool; /* in: what must be free */
    const char *ours;            /* in: prefix of interfaces whose routes are our own */
    bool overlaps;
    struct nat_route overlap;
    char overlap_device[IFNAMSIZ]; /* "" when there is none */
    uint32_t local[NAT_ROUTES_LOCAL];
    unsigned local_count;
    bool has_default;
    uint32_t default_metric;
    char default_device[IFNAMSIZ];
};

int nat_routes_read(struct nat_routes *routes); /* 0 or -errno */
bool nat_routes_is_local(const struct nat_routes *routes, uint32_t address);

/* Take one route into account; nat_routes_read() does it with each. */
void nat_routes_add(struct nat_routes *routes, const struct nat_route *route, const char *device);

/* Of an interface; 0 when it cannot be found. */
unsigned nat_routes_mtu(const char *device);
