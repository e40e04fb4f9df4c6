#include "launcher/disk_volume.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/disk_loop.h"
#include "launcher/disk_quota.h"
#include "launcher/disk_template.h"
#include "launcher/mounts.h"

#define PROJECT_TRIES 16
#define PROJECT_MARK  0x40000000u /* sandboxes have those from 0x80000000 on */

int disk_volume_make(const char *launcher_path, int dir_fd, uint64_t bytes)
{
    AUTO_CLOSE int launcher = open(launcher_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (launcher < 0)
        return -errno;
    uint64_t size = disk_template_round(bytes);
    AUTO_CLOSE int file = disk_template_copy(launcher, size, false, dir_fd, DISK_FILE);
    if (file < 0)
        return file;
    return fsync(file) < 0 ? -errno : 0;
}

/* The device that has the file, or a new one. Not from the hint alone: a volume whose device is
 * overlooked would get a second one, and two file systems would write to it. */
static int find_device(const struct disks *disks, int file_fd, struct disk_device *ret)
{
    int r = disk_loop_find(disks->instance, file_fd, NULL, ret);
    return r == -ENOENT ? disk_loop_attach(disks->instance, file_fd, ret) : r;
}

int disk_volume_mount(const struct disks *disks, int dir_fd, int mount_fd)
{
    AUTO_CLOSE int file = openat(dir_fd, DISK_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return -errno;
    struct disk_device device = {.fd = -1};
    int r = find_device(disks, file, &device);
    if (r < 0)
        return r;
    AUTO_CLOSE __attribute__((unused)) int device_fd = device.fd;
    AUTO_CLOSE int mount = disk_loop_mount_lasting(&device);
    if (mount < 0)
        return mount;
    r = mounts_attach(mount, mount_fd, STATE_MOUNT_VOLUME);
    return r < 0 ? r : TAKE_FD(mount);
}

/* One that has files would share its limit with them. */
static int take_project(int dir_fd, uint32_t *ret)
{
    for (unsigned i = 0; i < PROJECT_TRIES; i++) {
        uint32_t number = 0;
        struct disk_usage usage = {0};
        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
            return -EIO;
        number = PROJECT_MARK | (number % PROJECT_MARK);
        int r = disk_quota_get(dir_fd, number, &usage);
        if (r < 0 && r != -ENOENT && r != -ESRCH)
            return r;
        if (usage.used_inodes == 0 && usage.total_bytes == 0) {
            *ret = number;
            return 0;
        }
    }
    return -EADDRINUSE;
}

int disk_volume_limit(const struct disks *disks, int dir_fd, uint64_t bytes)
{
    if (disks->way != DISK_QUOTA)
        return -EOPNOTSUPP;
    uint32_t project = 0;
    int r = take_project(dir_fd, &project);
    if (r == 0)
        r = disk_quota_set(dir_fd, project, bytes, bytes / DISK_BYTES_PER_INODE);
    return r < 0 ? r : disk_quota_mark(dir_fd, project);
}
