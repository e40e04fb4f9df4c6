/* The /etc/resolv.conf of sandboxes. It is made from the host's, which somebody's DHCP server may
 * have had a hand in: only what is understood is taken over, and written anew. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAT_RESOLV_SERVERS 3 /* more are looked at by no libc */

struct nat_resolv {
    uint32_t servers[NAT_RESOLV_SERVERS]; /* host byte order */
    unsigned count;
    char search[256];  /* the words of that line, "" when there is none */
    char options[128]; /* likewise */
};

/* Name servers of IPv6, those `is_reachable` says no to (NULL: all are) and those that mean the
 * host itself or its link are left out; so is everything that is not a plain search or options
 * line. The last search or domain line counts, as it does for the host. */
void nat_resolv_parse(const char *text, bool (*is_reachable)(uint32_t server, const void *context),
                      const void *context, struct nat_resolv *ret);

/* Always fits: what a struct nat_resolv can hold is less than NAT_RESOLV_MAX. */
void nat_resolv_write(const struct nat_resolv *resolv, char *ret, size_t size);
