/* To move a process into a group the kernel stops every fork and exit on the machine, and after a
 * pause that takes a grace period of RCU, some 7 ms. A hierarchy with the option `favordynmods` has
 * it keep ready for moves, which costs forks next to nothing. The option is one of a hierarchy, but
 * the effect is on all of them.
 *
 * So we have an empty one of our own, without controllers, with a name. It is mounted nowhere: it
 * exists as long as the descriptor is open, so with this process it ends, however that ends.
 * Kernels of the 6.18 line keep the effect until the next boot; on others it ends with the
 * hierarchy. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "launcher/cgroup.h"
#include "launcher/mounts.h"

int cgroup_quick_open(void)
{
    static const struct mounts_option options[] = {
        {"none", NULL}, {"name", "opensandbox"}, {"favordynmods", NULL}, {NULL, NULL}};
    return mounts_new("cgroup", options, 0);
}
