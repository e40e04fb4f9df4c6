#include "launcher/idrange.h"

#include <errno.h>
#include <string.h>

static bool is_used(const struct idrange *ranges, unsigned range)
{
    return ranges->used[range / 64] >> (range % 64) & 1;
}

void idrange_init(struct idrange *ranges)
{
    memset(ranges, 0, sizeof(*ranges));
    ranges->used[0] = 1; /* the store's */
    ranges->next = 1;
}

int idrange_take(struct idrange *ranges, unsigned *ret_range)
{
    for (unsigned i = 0; i < IDRANGE_COUNT; i++) {
        unsigned range = (ranges->next + i) % IDRANGE_COUNT;
        if (is_used(ranges, range))
            continue;
        ranges->used[range / 64] |= 1ull << (range % 64);
        ranges->next = (range + 1) % IDRANGE_COUNT;
        *ret_range = range;
        return 0;
    }
    return -ENOSPC;
}

int idrange_reserve(struct idrange *ranges, unsigned range)
{
    if (range == 0 || range >= IDRANGE_COUNT)
        return -ERANGE;
    if (is_used(ranges, range))
        return -EEXIST;
    ranges->used[range / 64] |= 1ull << (range % 64);
    return 0;
}

void idrange_release(struct idrange *ranges, unsigned range)
{
    if (range > 0 && range < IDRANGE_COUNT)
        ranges->used[range / 64] &= ~(1ull << (range % 64));
}
