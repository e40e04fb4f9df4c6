#include "launcher/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/disk_loop.h"
#include "launcher/disk_quota.h"
#include "launcher/disk_super.h"
#include "launcher/disk_template.h"
#include "launcher/idrange.h"
#include "launcher/mounts.h"
#include "launcher/process.h"

#define PROJECT_MARK 0x80000000u
/* In no header of the kernel's: */
#define EXT4_RESIZE_FS _IOW('f', 16, uint64_t)
#define EXT4_SHUTDOWN  _IOR('X', 125, uint32_t)
#define EXT4_NO_FLUSH  2u

/* Instances with different state directories on one file system must not share projects: 18 bits of
 * the instance's name, then the range. That a project is unused is checked again when it is taken.
 */
static uint32_t first_project_of(const char *instance)
{
    uint32_t hash = (uint32_t)strtoul(instance, NULL, 16);
    return PROJECT_MARK | (hash % (PROJECT_MARK / IDRANGE_COUNT)) * IDRANGE_COUNT;
}

void disk_open(struct disks *disks, const struct state *state)
{
    *disks = (struct disks){.first_project = first_project_of(state->instance)};
    snprintf(disks->instance, sizeof(disks->instance), "%s", state->instance);
    int quota = disk_quota_probe(state->launcher_fd, disks->no_quota, sizeof(disks->no_quota));
    int loop = disk_loop_probe(disks->no_loop, sizeof(disks->no_loop));
    if (loop == 0)
        disk_loop_sweep(disks->instance);
    disks->way = quota == 0 ? DISK_QUOTA : loop == 0 ? DISK_LOOP : DISK_NONE;
    disks->can_grow = process_has_capability(CAP_SYS_RESOURCE);
}

static int check_loop(const struct state *state, uint64_t bytes, struct error *err)
{
    if (disk_template_check(state->launcher_fd, disk_template_round(bytes)) == 0 ||
        disk_template_program() != NULL)
        return 0;
    return error_set(err, ERR_UNSUPPORTED,
                     "a disk limit needs the program mke2fs, which is not installed here; install "
                     "the package " DISK_MKE2FS_PACKAGE);
}

int disk_check(const struct disks *disks, const struct state *state, uint64_t bytes,
               struct error *err)
{
    struct statfs fs;
    if (bytes == 0)
        return 0;
    if (bytes < DISK_MIN_BYTES || bytes > DISK_MAX_BYTES)
        return error_set(err, ERR_INVALID,
                         "a disk limit of %" PRIu64
                         " bytes is not within %llu (16Mi) to %llu (1Pi)",
                         bytes, DISK_MIN_BYTES, DISK_MAX_BYTES);
    if (disks->way == DISK_NONE)
        return error_set(err, ERR_UNSUPPORTED,
                         "disk limits cannot be enforced here. By project quota: %s. By loop "
                         "device: %s",
                         disks->no_quota, disks->no_loop);
    if (fstatfs(state->launcher_fd, &fs) < 0)
        return error_set_errno(err, errno, "cannot read the size of the state directory's disk");
    uint64_t total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_frsize;
    if (bytes > total)
        return error_set(err, ERR_INVALID,
                         "a disk limit of %" PRIu64 " bytes is more than the file system of the "
                         "state directory has (%" PRIu64 ")",
                         bytes, total);
    return disks->way == DISK_LOOP ? check_loop(state, bytes, err) : 0;
}

uint64_t disk_shape_bytes(const struct disks *disks, uint64_t bytes)
{
    return disks->way == DISK_LOOP ? disk_template_round(bytes) : 0;
}

/* Quota. */

/* A project whose files are not ours would be limited with the sandbox, or limit it. */
static int take_project(const struct disks *disks, int fd, unsigned range)
{
    uint32_t project = disks->first_project + range;
    struct disk_usage usage = {0};
    int r = disk_quota_get(fd, project, &usage);
    if (r < 0 && r != -ENOENT && r != -ESRCH)
        return r;
    if (usage.used_bytes > 0 || usage.used_inodes > 0)
        return -EADDRINUSE;
    r = disk_quota_set(fd, project, 0, 0);
    return r < 0 ? r : disk_quota_mark(fd, project);
}

static int make_project(const struct disks *disks, const struct disk_place *place)
{
    if (mkdirat(place->sandbox_fd, DISK_QUOTA_DIR, 0700) < 0)
        return -errno;
    AUTO_CLOSE int fd =
        openat(place->sandbox_fd, DISK_QUOTA_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = take_project(disks, fd, place->range);
    return r < 0 ? r : TAKE_FD(fd);
}

int disk_limit(const struct disks *disks, const struct state *state, unsigned range, uint64_t bytes,
               struct error *err)
{
    if (disks->way != DISK_QUOTA)
        return 0;
    int r = disk_quota_set(state->launcher_fd, disks->first_project + range, bytes,
                           bytes / DISK_BYTES_PER_INODE);
    return r < 0 ? error_set_errno(err, -r, "cannot set the disk limit") : 0;
}

/* Loop. */

/* The device is open until its mount is attached, which keeps it from then on. */
static int make_loop(const struct disks *disks, const struct disk_place *place, int launcher_fd,
                     bool fresh)
{
    AUTO_CLOSE int file =
        disk_template_copy(launcher_fd, place->bytes, fresh, place->sandbox_fd, DISK_FILE);
    if (file < 0)
        return file;
    struct disk_device device = {.fd = -1};
    int r = disk_loop_attach(disks->instance, file, &device);
    if (r < 0)
        return r;
    AUTO_CLOSE __attribute__((unused)) int device_fd = device.fd;
    unlinkat(place->sandbox_fd, DISK_DEVICE, 0); /* of a first try */
    if (symlinkat(device.path, place->sandbox_fd, DISK_DEVICE) < 0)
        return -errno;
    AUTO_CLOSE int mount = disk_loop_mount(&device);
    if (mount < 0)
        return mount;
    r = mounts_attach(mount, place->mount_fd, STATE_MOUNT_DISK);
    return r < 0 ? r : TAKE_FD(mount);
}

/* A mount that is refused as damaged means that the template is; a second one tells. */
static int make_disk_file(const struct disks *disks, const struct disk_place *place)
{
    AUTO_CLOSE int launcher =
        open(place->launcher_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (launcher < 0)
        return -errno;
    int r = make_loop(disks, place, launcher, false);
    if (r == -EUCLEAN || r == -EBADMSG || r == -EINVAL || r == -EIO)
        r = make_loop(disks, place, launcher, true);
    return r;
}

int disk_make(const struct disks *disks, const struct disk_place *place)
{
    if (disks->way == DISK_QUOTA)
        return make_project(disks, place);
    if (place->bytes > 0)
        return make_disk_file(disks, place);
    int fd = fcntl(place->sandbox_fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

/* Usage. */

/* Through the root of its process 1, which is execd and never changes it: the overlay there answers
 * for the ext4 below. A second mount of the device would do as well, but has to wait while anybody
 * syncs the file system. */
static int usage_of_process(pid_t pid, struct disk_usage *ret)
{
    char path[32];
    struct statfs fs;
    snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
    if (statfs(path, &fs) < 0)
        return -errno;
    uint64_t unit = (uint64_t)fs.f_frsize;
    *ret = (struct disk_usage){
        .total_bytes = fs.f_blocks * unit,
        .used_bytes = (fs.f_blocks - fs.f_bfree) * unit,
        .free_bytes = fs.f_bavail * unit,
        .total_inodes = fs.f_files,
        .used_inodes = fs.f_files - fs.f_ffree,
    };
    return 0;
}

/* What the kernel wrote down when it unmounted it. */
static int usage_of_file(int file_fd, struct disk_usage *ret)
{
    struct disk_super super;
    int r = disk_super_read(file_fd, &super);
    if (r < 0)
        return r;
    uint64_t reserved = MIN(super.blocks / 50, (uint64_t)4096); /* what ext4 keeps for itself */
    uint64_t left = super.free_blocks > reserved ? super.free_blocks - reserved : 0;
    *ret = (struct disk_usage){
        .total_bytes = super.blocks * DISK_BLOCK,
        .used_bytes = (super.blocks - super.free_blocks) * DISK_BLOCK,
        .free_bytes = left * DISK_BLOCK,
        .total_inodes = super.inodes,
        .used_inodes = super.inodes - super.free_inodes,
    };
    return 0;
}

static int open_file(int dir_fd, int flags)
{
    int fd = openat(dir_fd, DISK_FILE, flags | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ENODATA : -errno;
    return fd;
}

int disk_usage(const struct disks *disks, const struct state *state, unsigned range, int dir_fd,
               pid_t pid, struct disk_usage *ret)
{
    if (faccessat(dir_fd, DISK_QUOTA_DIR, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return disk_quota_get(state->launcher_fd, disks->first_project + range, ret);
    AUTO_CLOSE int file = open_file(dir_fd, O_RDONLY);
    if (file < 0)
        return file;
    return pid > 0 ? usage_of_process(pid, ret) : usage_of_file(file, ret);
}

bool disk_is_full(const struct disk_usage *usage)
{
    return usage->free_bytes < DISK_FULL_BYTES ||
           (usage->total_inodes > 0 && usage->used_inodes >= usage->total_inodes);
}

/* Changes. */

static int check_quota_change(const struct disks *disks, const struct state *state, unsigned range,
                              uint64_t bytes, struct error *err)
{
    struct disk_usage usage = {0};
    int r = disk_quota_get(state->launcher_fd, disks->first_project + range, &usage);
    if (r < 0)
        return error_set_errno(err, -r, "cannot read what the sandbox uses of its disk");
    if (bytes > 0 && bytes < usage.used_bytes)
        return error_set(err, ERR_CONFLICT,
                         "the disk limit cannot become %" PRIu64
                         " bytes: the sandbox uses %" PRIu64,
                         bytes, usage.used_bytes);
    return 0;
}

int disk_check_change(const struct disks *disks, const struct state *state, unsigned range,
                      int dir_fd, uint64_t old_bytes, uint64_t bytes, struct error *err)
{
    int r = bytes == old_bytes ? 0 : disk_check(disks, state, bytes, err);
    if (r < 0 || bytes == old_bytes)
        return r;
    if (faccessat(dir_fd, DISK_QUOTA_DIR, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return check_quota_change(disks, state, range, bytes, err);
    AUTO_CLOSE int file = open_file(dir_fd, O_RDONLY);
    if (file < 0)
        return error_set(err, ERR_CONFLICT,
                         "this sandbox was made without a disk limit and cannot get one: here that "
                         "takes a file system of its own from the start");
    if (bytes < old_bytes)
        return error_set(err, ERR_CONFLICT,
                         "the disk limit cannot shrink from %" PRIu64 " to %" PRIu64
                         " bytes: here it is a file system of its own, which can only grow",
                         old_bytes, bytes);
    if (!disks->can_grow)
        return error_set(err, ERR_UNSUPPORTED,
                         "the disk limit cannot grow here: the launcher lacks CAP_SYS_RESOURCE, "
                         "which enlarging a mounted ext4 takes");
    return 0;
}

/* The file, open for writing, and its device. */
static int open_running(const struct disks *disks, int dir_fd, int *ret_file,
                        struct disk_device *ret_device, struct error *err)
{
    char hint[DISK_DEVICE_MAX] = "";
    ssize_t length = readlinkat(dir_fd, DISK_DEVICE, hint, sizeof(hint) - 1);
    hint[MAX(length, 0)] = '\0';
    AUTO_CLOSE int file = open_file(dir_fd, O_RDWR);
    if (file < 0)
        return error_set_errno(err, -file, "cannot open the sandbox's disk");
    int r = disk_loop_find(disks->instance, file, hint, ret_device);
    if (r < 0)
        return error_set_errno(err, -r, "cannot find the loop device of the sandbox's disk");
    *ret_file = TAKE_FD(file);
    return 0;
}

/* A directory of the file system on it. */
static int open_root(const struct disk_device *device, struct error *err)
{
    AUTO_CLOSE int mount = disk_loop_mount_again(device);
    if (mount < 0)
        return error_set_errno(err, -mount, "cannot enter the sandbox's disk");
    int root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? error_set_errno(err, errno, "cannot enter the sandbox's disk") : root;
}

int disk_grow(const struct disks *disks, int dir_fd, uint64_t bytes, struct error *err)
{
    uint64_t size = disk_template_round(bytes);
    uint64_t blocks = size / DISK_BLOCK;
    struct disk_device device = {.fd = -1};
    struct stat st;
    AUTO_CLOSE int file = -1;
    int r = open_running(disks, dir_fd, &file, &device, err);
    if (r < 0)
        return r;
    AUTO_CLOSE __attribute__((unused)) int device_fd = device.fd;
    /* Never shorter: one that was killed after this line has left it longer than its ext4. */
    if (fstat(file, &st) < 0 || ((uint64_t)st.st_size < size && ftruncate(file, (off_t)size) < 0))
        return error_set_errno(err, errno, "cannot enlarge the file of the sandbox's disk");
    r = disk_loop_update(&device);
    if (r < 0)
        return error_set_errno(err, -r, "cannot enlarge the loop device of the sandbox's disk");
    AUTO_CLOSE int root = open_root(&device, err);
    if (root < 0)
        return root;
    if (ioctl(root, EXT4_RESIZE_FS, &blocks) < 0)
        return error_set_errno(err, errno, "cannot enlarge the file system of the sandbox's disk");
    return 0;
}

int disk_drop(const struct disks *disks, int dir_fd, struct error *err)
{
    uint32_t flags = EXT4_NO_FLUSH;
    struct disk_device device = {.fd = -1};
    AUTO_CLOSE int file = -1;
    int r = open_running(disks, dir_fd, &file, &device, err);
    if (r < 0)
        return r;
    AUTO_CLOSE __attribute__((unused)) int device_fd = device.fd;
    AUTO_CLOSE int root = open_root(&device, err);
    if (root < 0)
        return root;
    if (ioctl(root, EXT4_SHUTDOWN, &flags) < 0)
        return error_set_errno(err, errno, "cannot give up the sandbox's disk");
    return 0;
}
