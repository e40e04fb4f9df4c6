/* The disk below a directory: limits and numbers of I/O are those of whole disks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/cgroup_internal.h"

/* A partition is a directory inside its disk's. */
static int read_disk(unsigned major, unsigned minor, struct cgroup_device *ret)
{
    char path[96];
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 64);
    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major, minor);
    bool part = access(path, F_OK) == 0;
    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%sdev", major, minor, part ? "../" : "");
    if (file_read_at(AT_FDCWD, path, &text, NULL) < 0 ||
        sscanf(text.data, "%u:%u", &ret->major, &ret->minor) != 2)
        return -ENODEV;
    return 0;
}

void cgroup_find_device(const char *path, struct cgroup_device *ret)
{
    struct stat st;
    *ret = (struct cgroup_device){0};
    if (stat(path, &st) < 0)
        snprintf(ret->reason, sizeof(ret->reason), "cannot look at %.80s: %s", path,
                 strerror(errno));
    else if (read_disk(major(st.st_dev), minor(st.st_dev), ret) < 0)
        snprintf(ret->reason, sizeof(ret->reason),
                 "%.80s is on a file system without a disk of its own (device %u:%u)", path,
                 major(st.st_dev), minor(st.st_dev));
    else
        ret->found = true;
}
