#include "launcher/missing.h"

#include <stdio.h>
#include <string.h>

#include "launcher/launcher.h"
#include "launcher/userns.h"

/* As much of it as there is room for. */
static void add(struct message_welcome *welcome, const char *why)
{
    size_t used = strlen(welcome->missing_reason);
    size_t room = sizeof(welcome->missing_reason) - used;
    int length = snprintf(welcome->missing_reason + used, room, "%s%s", used > 0 ? "; " : "", why);
    if (length >= (int)room)
        memcpy(welcome->missing_reason + sizeof(welcome->missing_reason) - 4, "...", 4);
}

static bool has_all_limits(const struct cgroups *groups)
{
    return groups->of[CGROUP_MEMORY] >= 0 && groups->of[CGROUP_CPU] >= 0 &&
           groups->of[CGROUP_PIDS] >= 0;
}

static void tell_groups(const struct cgroups *groups, struct message_welcome *ret)
{
    if (!has_all_limits(groups)) /* those of disks are never there, but are told by themselves */
        ret->missing |= MESSAGE_MISSING_LIMITS;
    if (groups->count == 0)
        ret->missing |= MESSAGE_MISSING_COUNTS;
    if (groups->count == 0)
        add(ret, groups->none);
    else if (!has_all_limits(groups))
        add(ret, "the control group given to this user lacks controllers");
}

static void tell_ids(const struct powers *powers, struct message_welcome *ret)
{
    char why[USERNS_REASON_MAX];
    if (powers->id_ranges > 1)
        return;
    ret->missing |= MESSAGE_MISSING_OWN_IDS;
    if (powers->ids_each > 1)
        return;
    ret->missing |= MESSAGE_MISSING_IDS;
    userns_why_one_id(powers->user, why);
    add(ret, why);
}

void missing_tell(const struct launcher *launcher, struct message_welcome *ret)
{
    const struct powers *powers = &launcher->powers;
    if (powers->machine)
        return;
    tell_groups(&launcher->cgroups, ret);
    tell_ids(powers, ret);
    if (ret->missing != 0 && ret->missing_reason[0] == '\0')
        add(ret, "the launcher is not root");
}
