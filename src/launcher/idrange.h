/* The ranges of user and group ids: range n is 65,536 ids from 0x20000000 + n * 65536.
 *
 * Range 0 belongs to the image store. A sandbox gets a range of its own, so that what it leaves on
 * a disk or in a kernel table belongs to nobody else; it is given out again only when the files of
 * its last owner are gone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define IDRANGE_COUNT 8192
#define IDRANGE_SIZE  65536u
#define IDRANGE_FIRST 0x20000000u

struct idrange {
    uint64_t used[IDRANGE_COUNT / 64];
    unsigned count; /* how many there are */
    unsigned next;  /* where the search goes on: a freed range rests as long as possible */
};

void idrange_init(struct idrange *ranges, unsigned count);     /* up to IDRANGE_COUNT */
int idrange_take(struct idrange *ranges, unsigned *ret_range); /* 0, or -ENOSPC when all are used */
int idrange_reserve(struct idrange *ranges, unsigned range);   /* 0, -ERANGE, or -EEXIST */
void idrange_release(struct idrange *ranges, unsigned range);

static inline uint32_t idrange_base(unsigned range)
{
    return IDRANGE_FIRST + range * IDRANGE_SIZE;
}
