/* The steps that make what the kernel provides in every sandbox: /proc, /dev, /sys.
 *
 * One tmpfs holds all that is made here, since a file system costs a sandbox more than all that is
 * in it: each has a shrinker, for which every memory control group of the machine keeps room. It is
 * /dev itself. Two of its directories get something mounted on them, and what they hold themselves
 * can then be seen only where it is shown: /sys, and the empty directory that covers things. None
 * of it is shared between sandboxes, not even a directory that all could only read: a lock one of
 * them takes on it would be seen by the others. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/image_host.h"
#include "launcher/mounts.h"
#include "launcher/slot_process.h"
#include "launcher/weaken.h"

#define TTY_GID   5        /* of the images' tty group */
#define PTS_MAX   "128"    /* terminals, of some 3000 for all sandboxes together (kernel.pty.max) */
#define SYS_DIR   "pts"    /* of /dev, below the terminals: becomes /sys */
#define EMPTY_DIR "mqueue" /* of /dev, below the message queues */

#define HOST_ROOT_AGAIN "usr/" IMAGE_HOST_ROOT

static int attach_proc(struct slot_context *slot)
{
    if (weaken_is_off(WEAKEN_PROC)) {
        fd_close(slot->proc_fd);
        slot->proc_fd = mounts_clone(AT_FDCWD, "/proc", SLOT_SAFE_MOUNT, -1);
        if (slot->proc_fd < 0)
            return slot->proc_fd;
    }
    return mounts_attach(slot->proc_fd, slot->root_fd, "proc");
}

static const struct {
    const char *name;
    unsigned minor, major;
} devices[] = {{"null", 3, 1},   {"zero", 5, 1},    {"full", 7, 1},
               {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5}};

/* As the sandbox's root, see slot_as_owner(). */
static int make_devices(struct slot_context *slot, void *argument)
{
    static const struct {
        const char *name, *target;
    } links[] = {{"fd", "/proc/self/fd"},
                 {"stdin", "/proc/self/fd/0"},
                 {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"},
                 {"ptmx", "pts/ptmx"}};
    (void)argument;
    /* Where we may make none: files, on which the host's are shown. */
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        dev_t device = makedev(devices[i].major, devices[i].minor);
        mode_t type = slot->plan.powers->make_devices ? S_IFCHR : S_IFREG;
        if (mknodat(slot->dev_fd, devices[i].name, type | 0666, device) < 0)
            return -errno;
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        if (symlinkat(links[i].target, slot->dev_fd, links[i].name) < 0)
            return -errno;
    }
    if (mkdirat(slot->dev_fd, "shm", 01777) < 0 || mkdirat(slot->dev_fd, EMPTY_DIR, 0555) < 0)
        return -errno;
    return 0;
}

static int show_devices(struct slot_context *slot)
{
    char path[32];
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(devices) && r == 0; i++) {
        snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
        AUTO_CLOSE int fd = mounts_clone(AT_FDCWD, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1);
        r = fd < 0 ? fd : mounts_attach(fd, slot->dev_fd, devices[i].name);
    }
    return r;
}

/* As large as /dev/shm may be; the rest of it is small. */
static int mount_dev(struct slot_context *slot)
{
    char owner[16];
    snprintf(owner, sizeof(owner), "%u", slot->base_id);
    const struct mounts_option options[] = {{"size", "64m"},  {"nr_inodes", "16384"},
                                            {"mode", "0755"}, {"uid", owner},
                                            {"gid", owner},   {NULL, NULL}};
    slot->dev_fd = mounts_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (slot->dev_fd < 0)
        return slot->dev_fd;
    int r = mounts_attach(slot->dev_fd, slot->root_fd, "dev");
    if (r == 0)
        r = slot_as_owner(slot, make_devices, NULL);
    return r < 0 || slot->plan.powers->make_devices ? r : show_devices(slot);
}

/* A mount of its own, as programs expect, with its own attributes. */
static int mount_shm(struct slot_context *slot)
{
    struct mount_attr change = {.attr_set = MOUNT_ATTR_NODEV, .attr_clr = MOUNT_ATTR_NOEXEC};
    AUTO_CLOSE int fd = mounts_take(slot->dev_fd, "shm");
    if (fd < 0)
        return fd;
    if (mount_setattr(fd, "", AT_EMPTY_PATH, &change, sizeof(change)) < 0)
        return -errno;
    return mounts_attach(fd, slot->dev_fd, "shm");
}

static int mount_below(int dir_fd, const char *path, const char *type,
                       const struct mounts_option *options, uint64_t attributes)
{
    AUTO_CLOSE int fd = mounts_new(type, options, attributes);
    return fd < 0 ? fd : mounts_attach(fd, dir_fd, path);
}

/* A directory of the host's /sys, read-only at the same place in the sandbox's. */
static int show(struct slot_context *slot, const char *path, const char *place)
{
    uint64_t locked = weaken_is_off(WEAKEN_READONLY) ? 0 : MOUNT_ATTR_RDONLY;
    AUTO_CLOSE int fd = mounts_clone(AT_FDCWD, path, SLOT_SAFE_MOUNT | locked, -1);
    return fd < 0 ? fd : mounts_attach(fd, slot->root_fd, place);
}

static int show_controller(struct slot_context *slot, const char *path, const char *name)
{
    char place[64];
    snprintf(place, sizeof(place), SYS_DIR "/fs/cgroup/%s", name);
    if (mkdirat(slot->dev_fd, place, 0755) < 0)
        return -errno;
    snprintf(place, sizeof(place), "sys/fs/cgroup/%s", name);
    return show(slot, path, place);
}

/* The sandbox's own groups: runtimes size their heaps and pools by them. */
static int show_cgroups(struct slot_context *slot)
{
    const struct cgroups *groups = &slot->plan.cgroups;
    char path[PATH_MAX];
    if (groups->v2) {
        snprintf(path, sizeof(path), "%s/%s/work", groups->items[0].path, slot->plan.cgroup);
        return show(slot, path, "sys/fs/cgroup");
    }
    int r = groups->cpuset != NULL ? show_controller(slot, groups->cpuset, "cpuset") : 0;
    for (unsigned i = 0; i < groups->count && r == 0; i++) {
        snprintf(path, sizeof(path), "%s/%s", groups->items[i].path, slot->plan.cgroup);
        if (groups->items[i].inside != NULL)
            r = show_controller(slot, path, groups->items[i].inside);
    }
    return r;
}

/* Of the host's /sys only what programs size themselves by: processors, memory nodes, huge pages.
 * A sysfs of its own would be one more file system per sandbox, and most of it is about hardware
 * that is none of a sandbox's business. */
static int show_machine(struct slot_context *slot)
{
    static const char *const paths[] = {"/sys/devices/system", "/sys/kernel/mm"};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(paths) && r == 0; i++) {
        r = show(slot, paths[i], paths[i] + 1);
        if (r == -ENOENT)
            r = 0; /* a machine without /sys has nothing to show */
    }
    return r;
}

static int mount_sys(struct slot_context *slot)
{
    static const char *const dirs[] = {
        SYS_DIR,
        SYS_DIR "/devices",
        SYS_DIR "/devices/system",
        SYS_DIR "/kernel",
        SYS_DIR "/kernel/mm",
        SYS_DIR "/fs",
        SYS_DIR "/fs/cgroup",
    };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdirat(slot->dev_fd, dirs[i], 0755) < 0)
            return -errno;
    }
    AUTO_CLOSE int fd =
        mounts_clone(slot->dev_fd, SYS_DIR, SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY, -1);
    int r = fd < 0 ? fd : mounts_attach(fd, slot->root_fd, "sys");
    if (r == 0)
        r = show_machine(slot);
    if (r == 0)
        r = show_cgroups(slot);
    return r;
}

/* Put `source`, a name in /dev, over each of the targets. One this kernel does not have is no loss,
 * and leaves the clone for the next. */
static int cover(struct slot_context *slot, const char *source, uint64_t attributes,
                 const char *const *targets, size_t count)
{
    AUTO_CLOSE int fd = -1;
    if (weaken_is_off(WEAKEN_MASKS))
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (fd < 0)
            fd = mounts_clone(slot->dev_fd, source, attributes, -1);
        int r = fd < 0 ? fd : mounts_attach(fd, slot->root_fd, targets[i]);
        if (r < 0 && (fd < 0 || r != -ENOENT))
            return r;
        if (r == 0)
            fd = fd_close(fd);
    }
    return 0;
}

static int make_read_only(struct slot_context *slot, const char *name)
{
    if (weaken_is_off(WEAKEN_READONLY))
        return 0;
    AUTO_CLOSE int fd = mounts_clone(slot->proc_fd, name, SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY, -1);
    if (fd == -ENOENT)
        return 0; /* this kernel does not have it */
    return fd < 0 ? fd : mounts_attach(fd, slot->proc_fd, name);
}

/* Nearly all of this is refused by file modes and capabilities already; the covers are for the day
 * a kernel gets one of those checks wrong, and for what everybody may read but nobody needs. The
 * last directory is only in the host image: there it would be a second way to everything. */
static int mask_kernel(struct slot_context *slot)
{
    static const char *const files[] = {
        "proc/kcore",       "proc/keys",        "proc/latency_stats", "proc/timer_list",
        "proc/timer_stats", "proc/sched_debug", "proc/interrupts",
    };
    static const char *const dirs[] = {"proc/acpi", "proc/asound", "proc/scsi", HOST_ROOT_AGAIN};
    static const char *const read_only[] = {"sys", "sysrq-trigger", "irq", "bus", "fs"};
    int r = cover(slot, "null", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, files, ARRAY_LEN(files));
    if (r == 0)
        r = cover(slot, EMPTY_DIR, SLOT_SAFE_MOUNT | MOUNT_ATTR_RDONLY, dirs,
                  ARRAY_LEN(dirs) - (slot_is_host(slot) ? 0 : 1));
    for (size_t i = 0; i < ARRAY_LEN(read_only) && r == 0; i++)
        r = make_read_only(slot, read_only[i]);
    return r;
}

/* Last, since this covers what was shown elsewhere. */
static int mount_dev_parts(struct slot_context *slot)
{
    char tty[16];
    snprintf(tty, sizeof(tty), "%u", slot->base_id + TTY_GID);
    /* Where there is one id only the terminals are of its group. */
    bool has_tty = slot->plan.powers->ids_each > TTY_GID;
    const struct mounts_option pts[] = {{"mode", "0620"},
                                        {"ptmxmode", "0666"},
                                        {"max", PTS_MAX},
                                        {has_tty ? "gid" : NULL, tty},
                                        {NULL, NULL}};
    int r =
        mount_below(slot->dev_fd, SYS_DIR, "devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (r == 0)
        r = mount_below(slot->dev_fd, EMPTY_DIR, "mqueue", NULL, SLOT_SAFE_MOUNT);
    return r;
}

const struct slot_step slot_kernel_steps[] = {
    {"mount /proc", attach_proc},
    {"mount /dev", mount_dev},
    {"mount /dev/shm", mount_shm},
    {"mount /sys", mount_sys},
    {"mask kernel interfaces", mask_kernel},
    {"mount the parts of /dev", mount_dev_parts},
    {NULL, NULL},
};
