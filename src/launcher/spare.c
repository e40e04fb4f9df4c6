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

void spare_keep_network(struct launcher *launcher, int fd, uint64_t print)
{
    struct spares *spares = &launcher->spares;
    if (launcher->options.spare_s == 0 || spares->network_count == SPARE_MAX) {
        fd_close(fd);
        return;
    }
    spares->networks[spares->network_count++] = (struct spare_network){.fd = fd, .print = print};
    keep_a_while(launcher);
}

int spare_take_network(struct launcher *launcher, uint64_t *ret_print)
{
    struct spares *spares = &launcher->spares;
    if (spares->network_count == 0)
        return -1;
    const struct spare_network *network = &spares->networks[--spares->network_count];
    spares->taken = true;
    *ret_print = network->print;
    return network->fd;
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
    while (spares->network_count > 0)
        fd_close(spares->networks[--spares->network_count].fd);
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
    while (spares->network_count > 0)
        fd_close(spares->networks[--spares->network_count].fd);
}
