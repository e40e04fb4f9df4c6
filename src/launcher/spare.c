#include "launcher/spare.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/launcher.h"

static void keep_a_while(struct launcher *launcher)
{
    struct spares *spares = &launcher->spares;
    if (loop_timer_is_set(&spares->timer))
        return;
    spares->taken = false;
    loop_timer_set(&spares->timer, launcher->options.spare_s * 1000ull);
}

bool spare_keep_group(struct launcher *launcher, const char *name)
{
    struct spares *spares = &launcher->spares;
    if (launcher->options.spare_s == 0 || spares->group_count == SPARE_MAX ||
        !cgroup_can_renew(&launcher->cgroups))
        return false;
    snprintf(spares->groups[spares->group_count++], CGROUP_NAME_MAX, "%s", name);
    keep_a_while(launcher);
    return true;
}

/* The one that was kept last: what the kernel has in its caches. */
bool spare_take_group(struct launcher *launcher, char ret[CGROUP_NAME_MAX])
{
    struct spares *spares = &launcher->spares;
    if (spares->group_count == 0)
        return false;
    memcpy(ret, spares->groups[--spares->group_count], CGROUP_NAME_MAX);
    spares->taken = true;
    return true;
}

static void drop_network(struct launcher *launcher, struct spare_network network)
{
    fd_close(network.fd);
    link_pool_release(launcher, network.number);
}

void spare_keep_network(struct launcher *launcher, struct spare_network network)
{
    struct spares *spares = &launcher->spares;
    if (network.fd < 0 || launcher->options.spare_s == 0 || spares->network_count == SPARE_MAX) {
        drop_network(launcher, network);
        return;
    }
    spares->networks[spares->network_count++] = network;
    keep_a_while(launcher);
}

struct spare_network spare_take_network(struct launcher *launcher, bool nat)
{
    struct spares *spares = &launcher->spares;
    for (unsigned i = spares->network_count; i-- > 0;) {
        struct spare_network found = spares->networks[i];
        if ((found.number != 0) != nat)
            continue;
        spares->networks[i] = spares->networks[--spares->network_count];
        spares->taken = true;
        return found;
    }
    return (struct spare_network){.fd = -1};
}

void spare_drop_networks(struct launcher *launcher)
{
    struct spares *spares = &launcher->spares;
    while (spares->network_count > 0)
        drop_network(launcher, spares->networks[--spares->network_count]);
}

static void timer_fired(struct loop_timer *timer)
{
    struct launcher *launcher = CONTAINER_OF(timer, struct launcher, spares.timer);
    struct spares *spares = &launcher->spares;
    if (spares->taken) {
        keep_a_while(launcher);
        return;
    }
    while (spares->group_count > 0)
        remove_later(launcher, NULL, spares->groups[--spares->group_count], 0);
    spare_drop_networks(launcher);
}

void spare_init(struct launcher *launcher)
{
    loop_timer_add(&launcher->loop, &launcher->spares.timer, timer_fired);
}

void spare_done(struct launcher *launcher)
{
    struct spares *spares = &launcher->spares;
    while (spares->group_count > 0)
        cgroup_remove(&launcher->cgroups, spares->groups[--spares->group_count]);
    spare_drop_networks(launcher);
}
