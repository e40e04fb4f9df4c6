#include "launcher/disk_super.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    INODES = 0x00,
    BLOCKS_LOW = 0x04,
    FREE_BLOCKS_LOW = 0x0c,
    FREE_INODES = 0x10,
    BLOCK_SIZE_LOG = 0x18, /* 1024 << n */
    MAGIC = 0x38,
    STATE = 0x3a,
    INCOMPATIBLE = 0x60,
    LABEL = 0x78,
    BLOCKS_HIGH = 0x150,
    FREE_BLOCKS_HIGH = 0x158,
};

#define EXT4_MAGIC          0xef53u
#define EXT4_STATE_CLEAN    0x1u
#define EXT4_STATE_ERRORS   0x2u
#define EXT4_INCOMPAT_64BIT 0x80u

static uint32_t little32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t little16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

int disk_super_parse(const uint8_t bytes[DISK_SUPER_SIZE], struct disk_super *ret)
{
    if (little16(bytes + MAGIC) != EXT4_MAGIC ||
        little32(bytes + BLOCK_SIZE_LOG) != (uint32_t)__builtin_ctz(DISK_BLOCK / 1024))
        return -EINVAL;
    bool wide = little32(bytes + INCOMPATIBLE) & EXT4_INCOMPAT_64BIT;
    uint64_t blocks_high = wide ? little32(bytes + BLOCKS_HIGH) : 0;
    uint64_t free_high = wide ? little32(bytes + FREE_BLOCKS_HIGH) : 0;
    uint32_t state = little16(bytes + STATE);
    *ret = (struct disk_super){
        .blocks = little32(bytes + BLOCKS_LOW) | blocks_high << 32,
        .free_blocks = little32(bytes + FREE_BLOCKS_LOW) | free_high << 32,
        .inodes = little32(bytes + INODES),
        .free_inodes = little32(bytes + FREE_INODES),
        .clean = (state & (EXT4_STATE_CLEAN | EXT4_STATE_ERRORS)) == EXT4_STATE_CLEAN,
    };
    memcpy(ret->label, bytes + LABEL, DISK_LABEL_MAX);
    return 0;
}

int disk_super_read(int fd, struct disk_super *ret)
{
    uint8_t bytes[DISK_SUPER_SIZE];
    ssize_t n = pread(fd, bytes, sizeof(bytes), DISK_SUPER_OFFSET);
    if (n != (ssize_t)sizeof(bytes))
        return n < 0 ? -errno : -EINVAL;
    return disk_super_parse(bytes, ret);
}
