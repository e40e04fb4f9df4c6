/* The network of a sandbox: a namespace of its own with nothing but the loopback interface. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/powers.h"

/* In the calling process's namespace, as `proc_fd` (a /proc) shows it. 0 or -errno. */
int network_set_up(int proc_fd, const struct powers *powers);

/* Everything the kernel tells about what has happened in the namespace, in one number: counters of
 * every protocol, packets of its interfaces, sockets there are, leases of flow labels. That of a
 * namespace in which nothing has happened is what it was when the namespace was set up, and nothing
 * in it can be told from a new one. */
int network_print(int proc_fd, uint64_t *ret_print);
