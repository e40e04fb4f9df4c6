/* The network of a sandbox: a namespace of its own, with nothing but the loopback interface until
 * it gets a device (link.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/powers.h"

/* In the calling process's namespace, as `proc_fd` (a /proc) shows it. 0 or -errno. */
int network_set_up(int proc_fd, const struct powers *powers);

/* Everything the kernel tells about what has happened in the namespace, in one number: counters of
 * every protocol, packets of its interfaces, leases of flow labels. That of a namespace in which
 * nothing has happened is what it was when the namespace was set up, and when no socket is left in
 * it nothing in it can be told from a new one. */
int network_print(int proc_fd, uint64_t *ret_print);

/* How many sockets there are in it. Not part of the print: those with which it was set up may be
 * counted for a moment longer than they are open. */
int network_sockets(int proc_fd, unsigned *ret_count);

/* A setting of the calling process's namespace, by its path below /proc. 0 or -errno. */
int network_write(int proc_fd, const char *path, const char *text);
