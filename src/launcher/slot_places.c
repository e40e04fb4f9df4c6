/* Places in an image where something of ours goes.
 *
 * An image may lack them, or have links, files or fifos there, by accident or in order to lead a
 * mount or a write of ours elsewhere. So they are made in the upper layer before the overlay is
 * mounted: a directory or file there hides whatever is below it that is not a directory. Where the
 * contents below would be hidden too and may be wanted (a link as /etc or /var) the image is left
 * as it is and goes without. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/image_host.h"
#include "launcher/mounts.h"
#include "launcher/slot_process.h"

#define MEMORY_SIZE "64m"

static int make_dir(struct slot_context *slot, int upper_fd, const char *name, mode_t mode)
{
    if (mkdirat(upper_fd, name, mode) < 0 ||
        fchownat(upper_fd, name, slot->base_id, slot->base_id, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* A directory above the image's own of that name, with its owner and mode; a new one when there is
 * none. 0, 1 when there is something else, or -errno. */
static int make_above(struct slot_context *slot, int lower_fd, int upper_fd, const char *name)
{
    struct stat st;
    if (fstatat(lower_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? make_dir(slot, upper_fd, name, 0755) : -errno;
    if (!S_ISDIR(st.st_mode))
        return 1;
    bool known = slot->plan.powers->map_mounts; /* else its owner is not one of the sandbox's */
    uid_t user = known ? st.st_uid : slot->base_id;
    gid_t group = known ? st.st_gid : slot->base_id;
    if (mkdirat(upper_fd, name, 0700) < 0 ||
        fchownat(upper_fd, name, user, group, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(upper_fd, name, st.st_mode & 07777, 0) < 0)
        return -errno;
    return 0;
}

static int write_text(struct slot_context *slot, int upper_fd, const char *path, const char *text)
{
    AUTO_CLOSE int fd =
        openat(upper_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchown(fd, slot->base_id, slot->base_id) < 0)
        return -errno;
    return file_write_all(fd, text, strlen(text));
}

static int fit_etc(struct slot_context *slot, int lower_fd, int upper_fd)
{
    int r = make_above(slot, lower_fd, upper_fd, "etc");
    if (r != 0)
        return MIN(r, 0);
    r = write_text(slot, upper_fd, "etc/hostname", IMAGE_HOST_NAME "\n");
    if (r == 0)
        r = write_text(slot, upper_fd, "etc/hosts", IMAGE_HOST_HOSTS);
    if (r == 0)
        r = write_text(slot, upper_fd, "etc/resolv.conf", slot->plan.resolv);
    return r;
}

static int fit_memory(struct slot_context *slot, int lower_fd, int upper_fd)
{
    int r = make_dir(slot, upper_fd, "tmp", 01777);
    if (r == 0)
        r = make_dir(slot, upper_fd, "run", 0755);
    if (r == 0)
        r = make_above(slot, lower_fd, upper_fd, "var");
    if (r == 0)
        r = make_dir(slot, upper_fd, "var/tmp", 01777);
    return MIN(r, 0);
}

int slot_fit_image(struct slot_context *slot, int lower_fd, int upper_fd)
{
    static const char *const kernel[] = {"proc", "dev", "sys"};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(kernel) && r == 0; i++)
        r = make_dir(slot, upper_fd, kernel[i], 0755);
    if (r == 0)
        r = fit_etc(slot, lower_fd, upper_fd);
    if (r == 0 && slot->plan.shape->read_only)
        r = fit_memory(slot, lower_fd, upper_fd);
    return r;
}

/* Only where it must be: what is made in the upper layer is made on the disk. */
int slot_fit_host(struct slot_context *slot, int lower_fd)
{
    if (str_equal(slot->plan.resolv, slot->plan.image_resolv))
        return 0;
    AUTO_CLOSE int upper_fd = openat(slot->upper_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = upper_fd < 0 ? -errno : make_above(slot, lower_fd, upper_fd, IMAGE_HOST_ROOT);
    if (r == 0)
        r = make_above(slot, lower_fd, upper_fd, IMAGE_HOST_ROOT "/etc");
    if (r == 0)
        r = write_text(slot, upper_fd, IMAGE_HOST_ROOT "/etc/resolv.conf", slot->plan.resolv);
    return r == 1 ? -ENOTDIR : r;
}

/* The directory at this path, or -errno; -ELOOP when a link is on the way. */
static int open_inside(struct slot_context *slot, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    int fd = (int)syscall(SYS_openat2, slot->root_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* In memory that is charged to the sandbox, as every page one of its processes makes. */
static int mount_memory(struct slot_context *slot, const char *path, const char *mode,
                        const char *below)
{
    char owner[16];
    AUTO_CLOSE int place = open_inside(slot, path);
    if (place == -ENOENT || place == -ENOTDIR || place == -ELOOP)
        return 0; /* the image has something else there: see above */
    if (place < 0)
        return place;
    snprintf(owner, sizeof(owner), "%u", slot->base_id);
    const struct mounts_option options[] = {
        {"size", MEMORY_SIZE}, {"mode", mode}, {"uid", owner}, {"gid", owner}, {NULL, NULL}};
    AUTO_CLOSE int fd = mounts_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return fd;
    int r = below != NULL ? make_dir(slot, fd, below, 01777) : 0;
    if (r == 0 &&
        move_mount(fd, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        r = -errno;
    return r;
}

int slot_mount_memory(struct slot_context *slot)
{
    if (!slot->plan.shape->read_only)
        return 0;
    int r = mount_memory(slot, "tmp", "1777", NULL);
    if (r == 0)
        r = mount_memory(slot, "var/tmp", "1777", NULL);
    if (r == 0)
        r = mount_memory(slot, "run", "0755", "lock"); /* where /var/lock leads in most images */
    return r;
}
