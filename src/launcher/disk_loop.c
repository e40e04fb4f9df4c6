#include "launcher/disk_loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/disk_super.h"
#include "launcher/mounts.h"

#define CONTROL      "/dev/loop-control"
#define TRIES_MAX    256 /* others take devices too */
#define NAME_START   "opensandbox-"
#define HIDDEN_MOUNT (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

static void device_name(const char *instance, char ret[LO_NAME_SIZE])
{
    snprintf(ret, LO_NAME_SIZE, NAME_START "%.8s", instance);
}

#define PATH_START "/dev/loop"

static int open_device(unsigned number, struct disk_device *ret)
{
    snprintf(ret->path, sizeof(ret->path), PATH_START "%u", number);
    ret->fd = open(ret->path, O_RDWR | O_CLOEXEC);
    return ret->fd < 0 ? -errno : 0;
}

/* A device that was free a moment ago. */
static int open_free(struct disk_device *ret)
{
    AUTO_CLOSE int control = open(CONTROL, O_RDWR | O_CLOEXEC);
    int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
    return number < 0 ? -errno : open_device((unsigned)number, ret);
}

int disk_loop_probe(char *reason, size_t size)
{
    struct disk_device device = {.fd = -1};
    int r = open_free(&device);
    fd_close(device.fd);
    if (r < 0) {
        snprintf(reason, size, "no loop device can be had: %s%s%s",
                 device.path[0] != '\0' ? device.path : CONTROL, ": ", strerror(-r));
        return r;
    }
    AUTO_CLOSE int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    if (fs < 0) {
        r = -errno;
        snprintf(reason, size, "this kernel cannot mount ext4: %s", strerror(-r));
    }
    return r;
}

/* Direct I/O, where the file system has it (the kernel leaves it off elsewhere): a page is then
 * cached once, in the ext4 inside, where it is charged to the sandbox. The block size is the one
 * that direct I/O can use on every disk. */
static int bind_file(int device_fd, int file_fd, const char *instance)
{
    struct loop_config config = {
        .fd = (uint32_t)file_fd,
        .block_size = DISK_BLOCK,
        .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
    };
    device_name(instance, (char *)config.info.lo_file_name);
    return ioctl(device_fd, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
}

int disk_loop_attach(const char *instance, int file_fd, struct disk_device *ret)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        struct disk_device device = {.fd = -1};
        int r = open_free(&device);
        if (r == 0)
            r = bind_file(device.fd, file_fd, instance);
        if (r == 0) {
            *ret = device;
            return 0;
        }
        fd_close(device.fd);
        /* Taken by somebody else between the two calls, or just being freed. */
        if (r != -EBUSY && r != -ENXIO)
            return r;
    }
    return -EBUSY;
}

static bool is_ours(int device_fd, const char *instance, struct loop_info64 *ret)
{
    char name[LO_NAME_SIZE];
    device_name(instance, name);
    return ioctl(device_fd, LOOP_GET_STATUS64, ret) == 0 &&
           strncmp((const char *)ret->lo_file_name, name, LO_NAME_SIZE) == 0;
}

/* Calls `each` with every device of ours, open, until it returns true: that one stays open. */
static bool search(const char *instance,
                   bool (*each)(int device_fd, const struct loop_info64 *info, void *context),
                   void *context, struct disk_device *ret)
{
    DIR *dir = opendir("/sys/block");
    bool found = false;
    struct dirent *entry;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        uint64_t number;
        struct loop_info64 info;
        char bound[64];
        if (!str_starts_with(entry->d_name, "loop") ||
            str_to_u64(entry->d_name + strlen("loop"), 0, UINT32_MAX, &number) < 0)
            continue;
        /* Opening one that is not bound would be for nothing, and there may be a thousand. */
        snprintf(bound, sizeof(bound), "loop%u/loop", (unsigned)number);
        if (faccessat(dirfd(dir), bound, F_OK, 0) < 0 || open_device((unsigned)number, ret) < 0)
            continue;
        found = is_ours(ret->fd, instance, &info) && each(ret->fd, &info, context);
        if (!found)
            ret->fd = fd_close(ret->fd);
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static bool has_file(int device_fd, const struct loop_info64 *info, void *context)
{
    const struct stat *file = context;
    (void)device_fd;
    return info->lo_device == file->st_dev && info->lo_inode == file->st_ino;
}

static bool is_at(const char *hint, const char *instance, struct stat *file,
                  struct disk_device *ret)
{
    uint64_t number;
    struct loop_info64 info;
    if (hint == NULL || !str_starts_with(hint, PATH_START) ||
        str_to_u64(hint + strlen(PATH_START), 0, UINT32_MAX, &number) < 0 ||
        open_device((unsigned)number, ret) < 0)
        return false;
    if (is_ours(ret->fd, instance, &info) && has_file(ret->fd, &info, file))
        return true;
    ret->fd = fd_close(ret->fd);
    return false;
}

int disk_loop_find(const char *instance, int file_fd, const char *hint, struct disk_device *ret)
{
    struct stat file;
    if (fstat(file_fd, &file) < 0)
        return -errno;
    if (is_at(hint, instance, &file, ret))
        return 0;
    return search(instance, has_file, &file, ret) ? 0 : -ENOENT;
}

/* One that is mounted or open elsewhere is only told once more to free itself after that. */
static bool clear(int device_fd, const struct loop_info64 *info, void *context)
{
    (void)info;
    (void)context;
    (void)ioctl(device_fd, LOOP_CLR_FD);
    return false;
}

void disk_loop_sweep(const char *instance)
{
    struct disk_device device = {.fd = -1};
    (void)search(instance, clear, NULL, &device);
}

int disk_loop_update(const struct disk_device *device)
{
    return ioctl(device->fd, LOOP_SET_CAPACITY) < 0 ? -errno : 0;
}

/* noinit_itable: no kernel thread may write zeros over the zeros of a sparse file, on nobody's
 * account. nobarrier: the overlay above is volatile; flushing would sync the host's disk when a
 * sandbox ends. discard: what is deleted inside is given back to the host. */
int disk_loop_mount(const struct disk_device *device)
{
    const struct mounts_option options[] = {
        {"source", device->path}, {"errors", "remount-ro"}, {"noinit_itable", NULL},
        {"nobarrier", NULL},      {"discard", NULL},        {NULL, NULL},
    };
    return mounts_new("ext4", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
}

int disk_loop_mount_lasting(const struct disk_device *device)
{
    const struct mounts_option options[] = {
        {"source", device->path},
        {"errors", "remount-ro"},
        {"noinit_itable", NULL},
        {"discard", NULL},
        {NULL, NULL},
    };
    return mounts_new("ext4", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
}

/* Options of a file system that is mounted already are those it has; only read-only must agree,
 * and an ext4 with errors has become so. */
int disk_loop_mount_again(const struct disk_device *device)
{
    const struct mounts_option options[] = {{"source", device->path}, {NULL, NULL}};
    const struct mounts_option read_only[] = {{"source", device->path}, {"ro", NULL}, {NULL, NULL}};
    int fd = mounts_new("ext4", options, HIDDEN_MOUNT);
    return fd == -EBUSY ? mounts_new("ext4", read_only, HIDDEN_MOUNT) : fd;
}
