#include "launcher/powers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/idrange.h"

#define MAP_TEXT_MAX (64u << 10) /* 340 lines are allowed */
#define ALL_IDS      4294967295u
/* All but one will do: a container often has 65,536, of which one is ours. */
#define IDS_MIN (IDRANGE_SIZE - 1)

struct id_map {
    uint64_t count; /* ids from 0 on without a gap */
    uint64_t outer; /* of id 0 */
    bool all;       /* that of the machine */
};

/* The kernel's lines are "inner outer count", in the order in which somebody wrote them. */
static bool extend(struct id_map *map, const char *text)
{
    bool grown = false;
    for (const char *line = text; line != NULL && *line != '\0';) {
        uint64_t inner, outer, count;
        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inner, &outer, &count) == 3 &&
            inner == map->count && count > 0) {
            if (inner == 0)
                map->outer = outer;
            map->all = inner == 0 && outer == 0 && count == ALL_IDS;
            map->count += count;
            grown = true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return grown;
}

static struct id_map parse(const char *text)
{
    struct id_map map = {0};
    while (map.count < ALL_IDS && extend(&map, text))
        ;
    return map;
}

static void grant_all(struct powers *powers)
{
    *powers = (struct powers){
        .machine = true,
        .map_mounts = true,
        .make_devices = true,
        .all_groups = true,
        .set_groups = true,
        .ids_first = IDRANGE_FIRST,
        .ids_each = IDRANGE_SIZE,
        .id_ranges = IDRANGE_COUNT,
        .ids_last = INT32_MAX,
    };
}

/* Id 0 is ours and nobody's inside a sandbox, unless there is no other. */
static void divide(struct powers *powers, uint64_t ids)
{
    uint64_t spare = ids - 1;
    if (spare < IDS_MIN) {
        powers->ids_each = 1;
        powers->id_ranges = 1;
        return;
    }
    powers->set_groups = true;
    powers->ids_first = 1;
    powers->ids_each = (uint32_t)MIN(spare, (uint64_t)IDRANGE_SIZE);
    powers->ids_last = (uint32_t)MIN(spare, (uint64_t)INT32_MAX);
    uint64_t ranges = MIN(spare / IDRANGE_SIZE, (uint64_t)IDRANGE_COUNT);
    powers->id_ranges = ranges >= POWERS_RANGES_MIN ? (unsigned)ranges : 1;
}

int powers_from_maps(const char *uid_map, const char *gid_map, struct powers *ret,
                     struct error *err)
{
    struct id_map users = parse(uid_map), groups = parse(gid_map);
    if (users.count == 0 || groups.count == 0)
        return error_set(err, ERR_DENIED, "this user namespace has no root");
    if (users.all && groups.all) {
        grant_all(ret);
        return 0;
    }
    struct powers powers = {.user = (uint32_t)users.outer};
    divide(&powers, MIN(users.count, groups.count));
    *ret = powers;
    return 0;
}

int powers_find(struct powers *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf users, groups;
    buf_init(&users, MAP_TEXT_MAX);
    buf_init(&groups, MAP_TEXT_MAX);
    if (geteuid() != 0)
        return error_set(err, ERR_DENIED, "user %u is not root here", (unsigned)geteuid());
    int r = file_read_at(AT_FDCWD, "/proc/self/uid_map", &users, err);
    if (r == 0)
        r = file_read_at(AT_FDCWD, "/proc/self/gid_map", &groups, err);
    if (r < 0)
        return error_wrap(err, "is /proc mounted?");
    return powers_from_maps(users.data, groups.data, ret, err);
}

uint32_t powers_first_id(const struct powers *powers, unsigned range)
{
    return powers->ids_first + (powers->id_ranges > 1 ? range * powers->ids_each : 0);
}
