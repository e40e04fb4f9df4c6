/* The steps that make what the kernel provides in every sandbox: /dev, /sys and covers on /proc.
 * Why they are put together on a scratch tmpfs is told in slot_base.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/mounts.h"
#include "launcher/slot_process.h"

#define TTY_GID 5 /* of the images' tty group */

static int make_devices(struct slot_context *slot)
{
    static const struct {
        const char *name;
        unsigned minor, major;
    } nodes[] = {{"null", 3, 1},   {"zero", 5, 1},    {"full", 7, 1},
                 {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5}};
    static const struct {
        const char *name, *target;
    } links[] = {{"fd", "/proc/self/fd"},
                 {"stdin", "/proc/self/fd/0"},
                 {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"},
                 {"ptmx", "pts/ptmx"}};
    static const char *const dirs[] = {"pts", "shm", "mqueue"};
    uid_t owner = slot->base_id;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        if (mknodat(slot->dev_fd, nodes[i].name, S_IFCHR | 0666,
                    makedev(nodes[i].major, nodes[i].minor)) < 0 ||
            fchownat(slot->dev_fd, nodes[i].name, owner, owner, 0) < 0)
            return -errno;
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        if (symlinkat(links[i].target, slot->dev_fd, links[i].name) < 0 ||
            fchownat(slot->dev_fd, links[i].name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    }
    return slot_make_dirs(slot->dev_fd, dirs, ARRAY_LEN(dirs));
}

/* A directory of the scratch becomes a mount of its own with its own attributes, in place. Returns
 * its fd. */
static int split_off(struct slot_context *slot, const char *name, int to_fd, const char *to,
                     uint64_t attributes)
{
    AUTO_CLOSE int fd = mounts_clone(slot->scratch_fd, name, attributes, -1);
    if (fd < 0)
        return fd;
    int r = mounts_attach(fd, to_fd, to);
    return r < 0 ? r : TAKE_FD(fd);
}

static int mount_dev(struct slot_context *slot)
{
    slot->dev_fd =
        split_off(slot, "dev", slot->scratch_fd, "dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (slot->dev_fd < 0)
        return slot->dev_fd;
    if (fchownat(slot->dev_fd, "", slot->base_id, slot->base_id, AT_EMPTY_PATH) < 0)
        return -errno;
    return make_devices(slot);
}

static int mount_below(int dir_fd, const char *path, const char *type,
                       const struct mounts_option *options, uint64_t attributes)
{
    AUTO_CLOSE int fd = mounts_new(type, options, attributes);
    return fd < 0 ? fd : mounts_attach(fd, dir_fd, path);
}

static int mount_dev_parts(struct slot_context *slot)
{
    char tty[16];
    snprintf(tty, sizeof(tty), "%u", slot->base_id + TTY_GID);
    const struct mounts_option pts[] = {
        {"mode", "0620"}, {"ptmxmode", "0666"}, {"gid", tty}, {NULL, NULL}};
    if (fchownat(slot->scratch_fd, "shm", slot->base_id, slot->base_id, 0) < 0 ||
        fchmodat(slot->scratch_fd, "shm", 01777, 0) < 0)
        return -errno;
    AUTO_CLOSE int shm =
        split_off(slot, "shm", slot->dev_fd, "shm", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (shm < 0)
        return shm;
    int r = mount_below(slot->dev_fd, "pts", "devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (r == 0)
        r = mount_below(slot->dev_fd, "mqueue", "mqueue", NULL, SLOT_SAFE_MOUNT);
    return r;
}

static int show_group(const char *path, int cgroup_fd, const char *name)
{
    AUTO_CLOSE int group = mounts_clone(AT_FDCWD, path, SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY, -1);
    if (group < 0)
        return group;
    if (mkdirat(cgroup_fd, name, 0755) < 0)
        return -errno;
    return mounts_attach(group, cgroup_fd, name);
}

/* The sandbox's own groups, read-only: runtimes size their heaps and pools by them. */
static int show_cgroups(struct slot_context *slot, int cgroup_fd)
{
    const struct cgroups *groups = &slot->plan.cgroups;
    char path[PATH_MAX];
    if (groups->v2) {
        snprintf(path, sizeof(path), "%s/%s/work", groups->items[0].path, slot->plan.cgroup);
        AUTO_CLOSE int group =
            mounts_clone(AT_FDCWD, path, SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY, -1);
        return group < 0 ? group : mounts_attach(group, slot->scratch_fd, "sys/fs/cgroup");
    }
    int r = groups->cpuset != NULL ? show_group(groups->cpuset, cgroup_fd, "cpuset") : 0;
    for (unsigned i = 0; i < groups->count && r == 0; i++) {
        snprintf(path, sizeof(path), "%s/%s", groups->items[i].path, slot->plan.cgroup);
        if (groups->items[i].inside != NULL)
            r = show_group(path, cgroup_fd, groups->items[i].inside);
    }
    return r;
}

/* Of the host's /sys only what programs size themselves by: processors, memory nodes, huge pages.
 * A sysfs of its own would be one more file system per sandbox, and most of it is about hardware
 * that is none of a sandbox's business. */
static int show_machine(struct slot_context *slot)
{
    static const char *const parts[] = {"devices/system", "kernel/mm"};
    char path[64];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        snprintf(path, sizeof(path), "/sys/%s", parts[i]);
        AUTO_CLOSE int fd = mounts_clone(AT_FDCWD, path, SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY, -1);
        if (fd == -ENOENT)
            continue; /* a machine without /sys has nothing to show */
        if (fd < 0)
            return fd;
        int r = mounts_attach(fd, slot->scratch_fd, path + 1);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Read-only when the directories for its parts exist. */
static int mount_sys(struct slot_context *slot)
{
    static const char *const dirs[] = {"devices", "devices/system", "kernel", "kernel/mm",
                                       "fs",      "fs/cgroup"};
    AUTO_CLOSE int fd = split_off(slot, "sys", slot->scratch_fd, "sys", SLOT_SAFE_MOUNT);
    if (fd < 0)
        return fd;
    int r = slot_make_dirs(fd, dirs, ARRAY_LEN(dirs));
    if (r == 0)
        r = show_machine(slot);
    AUTO_CLOSE int groups = openat(fd, "fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && groups < 0)
        r = -errno;
    if (r == 0)
        r = show_cgroups(slot, groups);
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    if (r == 0 && mount_setattr(fd, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) < 0)
        r = -errno;
    return r;
}

/* Put `source` over `target`, both on the scratch. A target this kernel does not have is no loss.
 */
static int cover(struct slot_context *slot, const char *source, const char *target,
                 uint64_t attributes)
{
    if (faccessat(slot->scratch_fd, target, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    AUTO_CLOSE int fd = mounts_clone(slot->scratch_fd, source, attributes, -1);
    return fd < 0 ? fd : mounts_attach(fd, slot->scratch_fd, target);
}

/* Nearly all of this is refused by file modes and capabilities already; the covers are for the day
 * a kernel gets one of those checks wrong, and for what everybody may read but nobody needs. */
static int mask_kernel(struct slot_context *slot)
{
    static const char *const files[] = {
        "proc/kcore",       "proc/keys",        "proc/latency_stats", "proc/timer_list",
        "proc/timer_stats", "proc/sched_debug", "proc/interrupts",
    };
    static const char *const dirs[] = {"proc/acpi", "proc/asound", "proc/scsi"};
    static const char *const read_only[] = {
        "proc/sys", "proc/sysrq-trigger", "proc/irq", "proc/bus", "proc/fs",
    };
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++)
        r = cover(slot, "dev/null", files[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
        r = cover(slot, "empty", dirs[i], SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY);
    for (size_t i = 0; i < ARRAY_LEN(read_only) && r == 0; i++)
        r = cover(slot, read_only[i], read_only[i], SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY);
    return r;
}

const struct slot_step slot_kernel_steps[] = {
    {"mount /dev", mount_dev},
    {"mount the parts of /dev", mount_dev_parts},
    {"mount /sys", mount_sys},
    {"mask kernel interfaces", mask_kernel},
    {NULL, NULL},
};
