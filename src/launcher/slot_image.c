/* The steps that make the sandbox's file system and enter it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/image_host.h"
#include "launcher/mounts.h"
#include "launcher/record.h"
#include "launcher/slot_process.h"
#include "launcher/weaken.h"

#define SOCKET_BACKLOG 128
#define LOWER_MOUNT    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)

/* Of what is writable. */
static uint64_t upper_attributes(void)
{
    return weaken_is_off(WEAKEN_NODEV) ? 0 : MOUNT_ATTR_NODEV;
}

/* The directory the sandbox will have, among the loose ones until the launcher moves it. By path: a
 * descriptor of the launcher leads to mounts of its namespace, and nothing can be mounted on those
 * from this one. */
static int make_directory(struct slot_context *slot)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/loose/%s", slot->plan.state->launcher_path,
             slot->plan.directory);
    if (mkdir(path, 0700) < 0)
        return -errno;
    slot->sandbox_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return slot->sandbox_fd < 0 ? -errno : 0;
}

static int make_disk(struct slot_context *slot)
{
    const struct disk_place place = {
        .launcher_path = slot->plan.state->launcher_path,
        .sandbox_fd = slot->sandbox_fd,
        .mount_fd = slot->mount_fd,
        .range = slot->plan.range,
        .bytes = slot->plan.shape->disk_bytes,
    };
    slot->upper_fd = disk_make(slot->plan.disks, &place);
    return MIN(slot->upper_fd, 0);
}

/* The upper directory belongs to the sandbox's root; what the overlay needs beside it, and the file
 * in which the launcher writes the record, to us. */
static int make_uppers(struct slot_context *slot)
{
    if (mkdirat(slot->upper_fd, "upper", 0755) < 0 ||
        fchownat(slot->upper_fd, "upper", slot->base_id, slot->base_id, 0) < 0 ||
        mkdirat(slot->upper_fd, "work", 0700) < 0)
        return -errno;
    AUTO_CLOSE int record =
        openat(slot->sandbox_fd, RECORD_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return record < 0 ? -errno : 0;
}

/* Made in the slot's own network namespace, so that it tells nothing of the host's to whoever gets
 * it. In the sandbox's directory, until the launcher gives it the name that servers see. */
static int make_socket(struct slot_context *slot)
{
    static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SLOT_SOCKET};
    slot->socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (slot->socket_fd < 0 || fchdir(slot->sandbox_fd) < 0)
        return -errno;
    umask(0177);
    int r = bind(slot->socket_fd, (const struct sockaddr *)&address, sizeof(address));
    umask(0);
    if (r < 0 || fchownat(slot->sandbox_fd, SLOT_SOCKET, slot->plan.state->server_uid, (gid_t)-1,
                          AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    slot->name_fd = openat(slot->sandbox_fd, SLOT_SOCKET, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (slot->name_fd < 0)
        return -errno;
    return listen(slot->socket_fd, SOCKET_BACKLOG) < 0 ? -errno : 0;
}

static int mapping_of(const struct slot_context *slot)
{
    return slot->plan.powers->map_mounts ? slot->userns_fd : -1;
}

/* A read-only layer as the sandbox's ids see it: files of root there belong to root inside.
 * Attached, since overlayfs takes no layer from the air before kernel 6.15. Returns
 * its fd. */
static int attach_layer(struct slot_context *slot, const char *source, const char *name)
{
    AUTO_CLOSE int fd = mounts_clone(AT_FDCWD, source, LOWER_MOUNT, mapping_of(slot));
    if (fd == -EINVAL) { /* its file system cannot map ids: everything belongs to nobody inside */
        slot->flags |= SLOT_UNMAPPED;
        fd = mounts_clone(AT_FDCWD, source, LOWER_MOUNT, -1);
    }
    if (fd < 0)
        return fd;
    int r = mounts_attach(fd, slot->mount_fd, name);
    return r < 0 ? r : TAKE_FD(fd);
}

/* Paths through /proc/self/fd need no escaping and show nothing of the host in the sandbox's
 * mountinfo. Volatile: what a sandbox syncs need not reach the disk, it does not outlive the
 * machine's power anyway; and unmounting then does not sync the whole file system of the state
 * directory. */
static int mount_overlay(struct slot_context *slot, const char *lowers)
{
    char upper_path[32], work_path[32];
    AUTO_CLOSE int upper = openat(slot->upper_fd, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int work = openat(slot->upper_fd, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (upper < 0 || work < 0)
        return -errno;
    snprintf(upper_path, sizeof(upper_path), "/proc/self/fd/%d", upper);
    snprintf(work_path, sizeof(work_path), "/proc/self/fd/%d", work);
    const struct mounts_option options[] = {
        {"source", "overlay"},  {"lowerdir", lowers}, {"upperdir", upper_path},
        {"workdir", work_path}, {"userxattr", NULL},  {"volatile", NULL},
        {NULL, NULL},
    };
    return mounts_new("overlay", options, upper_attributes());
}

/* A directory image as the one lower layer; its tree was taken before there were namespaces. */
static int attach_image(struct slot_context *slot)
{
    int r = mounts_restrict(slot->image_fd, LOWER_MOUNT, mapping_of(slot));
    if (r == -EINVAL) {
        slot->flags |= SLOT_UNMAPPED;
        r = mounts_restrict(slot->image_fd, LOWER_MOUNT, -1);
    }
    if (r == 0)
        r = mounts_attach(slot->image_fd, slot->mount_fd, STATE_MOUNT_LOWER);
    if (r < 0)
        return r;
    AUTO_CLOSE int upper = openat(slot->upper_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = upper < 0 ? -errno : slot_fit_image(slot, slot->image_fd, upper);
    return r < 0 ? r : TAKE_FD(slot->image_fd);
}

static int mount_image(struct slot_context *slot)
{
    char lowers[64];
    if (weaken_is_off(WEAKEN_OVERLAY)) {
        slot->root_fd = TAKE_FD(slot->image_fd);
        return mounts_attach(slot->root_fd, slot->mount_fd, STATE_MOUNT_ROOT);
    }
    AUTO_CLOSE int lower = attach_image(slot);
    if (lower < 0)
        return lower;
    snprintf(lowers, sizeof(lowers), "/proc/self/fd/%d", lower);
    slot->root_fd = mount_overlay(slot, lowers);
    if (slot->root_fd < 0)
        return slot->root_fd;
    return mounts_attach(slot->root_fd, slot->mount_fd, STATE_MOUNT_ROOT);
}

struct layers {
    int lower, upper;
};

static int own_as_owner(struct slot_context *slot, void *argument)
{
    const struct layers *layers = argument;
    (void)slot;
    return image_host_own(layers->lower, layers->upper);
}

/* The layer of the host image belongs to range 0 where ids cannot be mapped. */
static int own_layer(struct slot_context *slot, int layer)
{
    const struct powers *powers = slot->plan.powers;
    if (powers->map_mounts || powers->id_ranges == 1)
        return 0;
    AUTO_CLOSE int upper = openat(slot->upper_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct layers layers = {.lower = layer, .upper = upper};
    return upper < 0 ? -errno : slot_as_owner(slot, own_as_owner, &layers);
}

/* The overlay, and where its root directory is in it; see image_host.h. */
static int mount_host_overlay(struct slot_context *slot)
{
    char source[PATH_MAX], lowers[64];
    snprintf(source, sizeof(source), "%s/" IMAGE_HOST_LAYER, slot->plan.state->launcher_path);
    AUTO_CLOSE int layer = attach_layer(slot, source, STATE_MOUNT_LOWER);
    AUTO_CLOSE int usr = attach_layer(slot, "/usr", STATE_MOUNT_USR);
    if (layer < 0 || usr < 0)
        return MIN(layer, usr);
    int r = slot_fit_host(slot, layer);
    if (r == 0)
        r = own_layer(slot, layer);
    if (r < 0)
        return r;
    snprintf(lowers, sizeof(lowers), "/proc/self/fd/%d:/proc/self/fd/%d", layer, usr);
    AUTO_CLOSE int overlay = mount_overlay(slot, lowers);
    return overlay < 0 ? overlay : mounts_attach(overlay, slot->mount_fd, STATE_MOUNT_OVERLAY);
}

static int mount_host(struct slot_context *slot)
{
    int r = mount_host_overlay(slot);
    if (r < 0)
        return r;
    slot->root_fd = mounts_clone(slot->mount_fd, STATE_MOUNT_OVERLAY "/" IMAGE_HOST_ROOT,
                                 upper_attributes(), -1);
    if (slot->root_fd < 0)
        return slot->root_fd;
    r = mounts_attach(slot->root_fd, slot->mount_fd, STATE_MOUNT_ROOT);
    if (r == 0)
        r = mounts_move(slot->mount_fd, STATE_MOUNT_OVERLAY, slot->root_fd, "usr");
    if (r < 0)
        return r;
    slot->usr_fd = openat(slot->root_fd, "usr", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return slot->usr_fd < 0 ? -errno : 0;
}

static int mount_root(struct slot_context *slot)
{
    return slot_is_host(slot) ? mount_host(slot) : mount_image(slot);
}

/* pivot_root(".", ".") puts the old root on top of the new one, from where it is taken away with
 * everything of the host on it: afterwards no path and no mount leads back. */
static int pivot(struct slot_context *slot)
{
    if (weaken_is_off(WEAKEN_FDS) || weaken_is_off(WEAKEN_CWD))
        slot->host_fd = open(slot->plan.state->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (weaken_is_off(WEAKEN_PIVOT))
        return fchdir(slot->root_fd) < 0 || chroot(".") < 0 ? -errno : 0;
    if (fchdir(slot->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    if (weaken_is_off(WEAKEN_CWD) && fchdir(slot->host_fd) < 0)
        return -errno;
    return 0;
}

const struct slot_step slot_image_steps[] = {
    {"make the sandbox's directory", make_directory},
    {"make its disk", make_disk},
    {"make the upper directories", make_uppers},
    {"make the socket", make_socket},
    {"open the volumes", slot_open_volumes},
    {"mount the image", mount_root},
    {NULL, NULL},
};

const struct slot_step slot_enter_steps[] = {
    {"mount file systems in memory", slot_mount_memory},
    {"mount the volumes", slot_mount_volumes},
    {"enter the root directory", pivot},
    {NULL, NULL},
};
