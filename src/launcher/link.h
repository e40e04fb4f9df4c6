/* The network device of a sandbox: a routed pair, no bridge. What one end sends the other receives;
 * the host's end has the name nat_name(), the sandbox's is its eth0, born in its namespace.
 *
 * Nothing on it is found out by asking: both ends have the same hardware address and no ARP, each
 * is the only neighbour the other can have. So there is nothing to pretend to be. There is no IPv6
 * on it, and neither end sends anything by itself, so a device over which nobody has talked has
 * counters of zero.
 *
 * Both ends go with the sandbox's namespace, whoever made it and however it ends: the kernel
 * deletes all that belongs to it behind everybody's back. To delete one by request takes many
 * milliseconds, in which nobody can make one. */
#pragma once

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_INSIDE "eth0"

struct link {
    char name[IFNAMSIZ]; /* of the host's end */
    uint32_t address;    /* of the sandbox, host byte order */
    uint32_t gateway;    /* what the sandbox knows of the host; nobody has this address */
    unsigned mtu;
};

/* The functions return 0 or -errno. */

/* Whether the kernel makes such pairs, for whose module it may look. Nothing is made. */
int link_probe(void);

/* In the host's network namespace, of which `proc_fd` is a /proc: make the pair, the sandbox's end
 * in the namespace `inside_fd`; the host's end routes to it. Where it fails after the pair was
 * made, that goes with the sandbox's namespace. */
int link_make(const struct link *link, int proc_fd, int inside_fd);

/* In the sandbox's namespace: before the pair is made, and after it. */
int link_prepare_inside(int proc_fd);
int link_finish_inside(const struct link *link);

int link_delete(const char *name); /* in the calling process's namespace; -ENODEV: there is none */

/* Bytes that came and went over one interface, from the text of /proc/net/dev; -ENODEV: it is not
 * there. */
int link_parse_counters(const char *text, const char *name, uint64_t *ret_rx, uint64_t *ret_tx);

/* The same of a sandbox, from its end. `fd` is of link_open_counters(), by a process in its
 * network; as long as it is open the network is there, so that what was counted can be read when
 * all its processes have ended. */
int link_open_counters(int pid);
int link_read_counters(int fd, uint64_t *ret_rx, uint64_t *ret_tx);

/* For each interface that is in a text of /proc/net/dev: its name, in a buffer that can be changed.
 */
void link_each(const char *text, void (*found)(void *context, const char *name), void *context);
