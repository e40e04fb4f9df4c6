#include "launcher/idrange.h"

#include <errno.h>
#include <string.h>

static bool is_used(const struct idrange *ranges, unsigned range)
{
    return ranges->used[range / 64] >> (range % 64) & 1;
}

void idrange_init(struct idrange *ranges, unsigned count)
{
    memset(ranges, 0, sizeof(*ranges));
    ranges->used[0] = 1; /* the store's */
    ranges->next = 1;
    ranges->count = count;
}

int idrange_take(struct idrange *ranges, unsigned *ret_range)
{
    for (unsigned i = 0; i < ranges->count; i++) {
        unsigned range = (ranges->next + i) % ranges->count;
        if (is_used(ranges, range))
            continue;
        ranges->used[range / 64] |= 1ull << (range % 64);
        ranges->next = (range + 1) % ranges->count;
        *ret_range = range;
        return 0;
    }
    return -ENOSPC;
}

int idrange_reserve(struct idrange *ranges, unsigned range)
{
    if (range == 0 || range >= ranges->count)
        return -ERANGE;
    if (is_used(ranges, range))
        return -EEXIST;
    ranges->used[range / 64] |= 1ull << (range % 64);
    return 0;
}

void idrange_release(struct idrange *ranges, unsigned range)
{
    if (range > 0 && range < ranges->count)
        ranges->used[range / 64] &= ~(1ull << (range % 64));
}
