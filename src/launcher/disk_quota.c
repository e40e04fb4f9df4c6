#include "launcher/disk_quota.h"

#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 1024u /* the unit of limits, QIF_DQBLKSIZE */

/* The old quotactl() wants the path of a block device; this one takes what we have. */
static int quota_call(int fd, unsigned command, uint32_t project, void *data)
{
    long r = syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, data);
    return r < 0 ? -errno : 0;
}

/* The flags are those of xfs, but every file system with quota answers. That projects are counted
 * does not mean that their limits hold: an ext4 mounted without prjquota only counts. */
int disk_quota_probe(int fd, char *reason, size_t size)
{
    struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};
    int r = quota_call(fd, Q_XGETQSTATV, 0, &state);
    if (r == 0 && state.qs_flags & FS_QUOTA_PDQ_ENFD)
        return 0;
    if (r == 0)
        snprintf(reason, size, "the state directory's file system is not mounted with prjquota");
    else if (r == -ENOSYS)
        snprintf(reason, size, "this kernel has no quota, or not the call quotactl_fd (5.14)");
    else
        snprintf(reason, size, "the state directory's file system has none enabled (%s)",
                 strerror(-r));
    return r < 0 ? r : -ENOTSUP;
}

int disk_quota_mark(int dir_fd, uint32_t project)
{
    struct fsxattr attributes;
    if (ioctl(dir_fd, FS_IOC_FSGETXATTR, &attributes) < 0)
        return -errno;
    attributes.fsx_projid = project;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    return ioctl(dir_fd, FS_IOC_FSSETXATTR, &attributes) < 0 ? -errno : 0;
}

int disk_quota_set(int fd, uint32_t project, uint64_t bytes, uint64_t inodes)
{
    struct if_dqblk limits = {
        .dqb_bhardlimit = (bytes + BLOCK - 1) / BLOCK,
        .dqb_ihardlimit = inodes,
        .dqb_valid = QIF_LIMITS,
    };
    return quota_call(fd, Q_SETQUOTA, project, &limits);
}

int disk_quota_get(int fd, uint32_t project, struct disk_usage *ret)
{
    struct if_dqblk state;
    int r = quota_call(fd, Q_GETQUOTA, project, &state);
    if (r < 0)
        return r;
    uint64_t total = state.dqb_bhardlimit * BLOCK;
    *ret = (struct disk_usage){
        .total_bytes = total,
        .used_bytes = state.dqb_curspace,
        .free_bytes = total > state.dqb_curspace ? total - state.dqb_curspace : 0,
        .total_inodes = state.dqb_ihardlimit,
        .used_inodes = state.dqb_curinodes,
    };
    return 0;
}
