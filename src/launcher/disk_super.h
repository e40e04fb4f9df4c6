/* The few fields of an ext4 superblock that tell what a file holds without mounting it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/disk.h"

#define DISK_SUPER_OFFSET 1024
#define DISK_SUPER_SIZE   1024
#define DISK_BLOCK        4096u
#define DISK_LABEL_MAX    16

struct disk_super {
    uint64_t blocks, free_blocks;
    uint32_t inodes, free_inodes;
    bool clean;
    char label[DISK_LABEL_MAX + 1];
};

/* -EINVAL: no ext4 with blocks of DISK_BLOCK bytes. */
int disk_super_parse(const uint8_t bytes[DISK_SUPER_SIZE], struct disk_super *ret);

/* Of the file behind fd. 0 or -errno. */
int disk_super_read(int fd, struct disk_super *ret);
