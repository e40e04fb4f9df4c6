/* Probes: the file systems sandboxes are made of. Nothing is ever attached to a mount table: an
 * overlay or a mapped mount is made in the air and goes when its descriptor is closed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/check_probe.h"
#include "launcher/mounts.h"

#define GIB           (1ull << 30)
#define SPACE_WANTED  (2 * GIB)
#define INODES_WANTED 10000
#define XFS_MAGIC     0x58465342
#define ZFS_MAGIC     0x2fc12fc1

static const char *type_name(int64_t magic)
{
    static const struct {
        int64_t magic;
        const char *name;
    } types[] = {
        {EXT4_SUPER_MAGIC, "ext4"},
        {XFS_MAGIC, "xfs"},
        {BTRFS_SUPER_MAGIC, "btrfs"},
        {TMPFS_MAGIC, "tmpfs"},
        {OVERLAYFS_SUPER_MAGIC, "overlay"},
        {F2FS_SUPER_MAGIC, "f2fs"},
        {NFS_SUPER_MAGIC, "nfs"},
        {ZFS_MAGIC, "zfs"},
        {0x01021997, "9p"},
        {0x65735546, "fuse"},
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].magic == magic)
            return types[i].name;
    }
    return "another file system";
}

static void probe_state(const struct check_context *context, struct check_result *result)
{
    struct statfs fs;
    if (context->place[0] == '\0') {
        check_say(result, CHECK_NO, "%.200s cannot be reached or is no directory",
                  context->state_dir);
        return;
    }
    if (statfs(context->place, &fs) < 0) {
        check_say_outcome(context, result, -errno, "statfs");
        return;
    }
    const char *exists = str_equal(context->place, context->state_dir) ? "is" : "would be";
    check_say(result, CHECK_YES, "%.150s %s on %s", context->state_dir, exists,
              type_name((int64_t)fs.f_type));
    if (!context->scratch_elsewhere)
        return;
    enum check_found found = context->root ? CHECK_NO : CHECK_UNKNOWN;
    check_say(result, found, "nothing can be made in %.150s%s", context->place,
              context->root ? "" : " by this user");
}

static int make_layers(int scratch, const char *const *names, int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (mkdirat(scratch, names[i], 0755) < 0)
            return -errno;
        fds[i] = openat(scratch, names[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fds[i] < 0)
            return -errno;
    }
    return 0;
}

/* As slots do it, and then whether something can be written: an overlay whose upper layer lacks
 * something comes up read-only. */
static int try_overlay(const char *scratch_path)
{
    static const char *const names[] = {"lower", "upper", "work"};
    int fds[ARRAY_LEN(names)] = {-1, -1, -1};
    char paths[ARRAY_LEN(names)][32];
    AUTO_CLOSE int scratch = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scratch < 0)
        return -errno;
    int r = make_layers(scratch, names, fds, ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", fds[i]);
    const struct mounts_option options[] = {
        {"source", "overlay"}, {"lowerdir", paths[0]}, {"upperdir", paths[1]},
        {"workdir", paths[2]}, {"userxattr", NULL},    {"volatile", NULL},
        {NULL, NULL},
    };
    if (r < 0)
        return r;
    AUTO_CLOSE int overlay = mounts_new("overlay", options, MOUNT_ATTR_NODEV);
    if (overlay < 0)
        return overlay;
    AUTO_CLOSE int file = openat(overlay, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return file < 0 ? -errno : 0;
}

static void probe_overlay(const struct check_context *context, struct check_result *result)
{
    if (context->scratch[0] == '\0') {
        check_say(result, CHECK_UNKNOWN, "there is no directory to try it in");
        return;
    }
    check_say_outcome(context, result, try_overlay(context->scratch),
                      "an overlay with userxattr and volatile");
    if (result->found == CHECK_NO && access("/proc/self/fd", X_OK) < 0)
        check_advice(result, "mount /proc");
}

static void try_idmap(const struct check_context *context, struct check_result *result,
                      const char *path)
{
    AUTO_CLOSE int userns = -1;
    char what[CHECK_TEXT_MAX / 2];
    snprintf(what, sizeof(what), "a mount of %.80s with mapped ids", path);
    if (context->rootless) {
        check_say(result, CHECK_NO, "%s: only root may have it", what);
        check_advice(result, "start the server as root");
        AUTO_CLOSE int plain = mounts_clone(AT_FDCWD, path, MOUNT_ATTR_RDONLY, -1);
        if (plain >= 0)
            return;
        /* The kernel does not let him see what a mount of somebody else's hides. */
        check_say(result, CHECK_NO, "a mount of %.80s: %s; is something mounted in it?", path,
                  strerror(-plain));
        check_effect(result, "an image there cannot be used by this user");
        return;
    }
    if (!context->root) {
        check_say(result, CHECK_UNKNOWN, "%s: only root can try it", what);
        return;
    }
    int r = check_user_namespace(&context->powers, &userns);
    if (r < 0) {
        check_say(result, CHECK_UNKNOWN, "there is no user namespace to try it with: %s",
                  strerror(-r));
        return;
    }
    AUTO_CLOSE int mount = mounts_clone(AT_FDCWD, path, MOUNT_ATTR_RDONLY, userns);
    check_say_outcome(context, result, mount < 0 ? mount : 0, what);
}

static void probe_idmap_root(const struct check_context *context, struct check_result *result)
{
    try_idmap(context, result, "/usr");
}

static void probe_idmap_state(const struct check_context *context, struct check_result *result)
{
    if (context->place[0] != '\0')
        try_idmap(context, result, context->place);
    else
        check_say(result, CHECK_UNKNOWN, "there is no state directory");
}

static void probe_space(const struct check_context *context, struct check_result *result)
{
    struct statvfs fs;
    if (context->place[0] == '\0' || statvfs(context->place, &fs) < 0) {
        check_say(result, CHECK_UNKNOWN, "there is no state directory");
        return;
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    /* Some file systems make inodes as they go, and count none. */
    bool few = fs.f_files > 0 && fs.f_favail < INODES_WANTED;
    check_say(result, free_bytes < SPACE_WANTED || few ? CHECK_PARTLY : CHECK_YES,
              "%.1f GiB and %" PRIu64 " inodes are free on the file system of %.100s",
              (double)free_bytes / (double)GIB, (uint64_t)fs.f_favail, context->place);
}

#define SECTION "file systems"

const struct check_probe check_file_probes[] = {
    {SECTION, "state-directory", CHECK_NEEDED, probe_state, "sandboxes have a place",
     "sandboxes have no place to live in", "give --state DIR that can be made and written to"},
    {SECTION, "overlay", CHECK_NEEDED, probe_overlay, "images stay as they are under a sandbox",
     "images cannot be shared by sandboxes",
     "a kernel from 5.11 on with overlayfs, and a state directory on ext4, xfs or btrfs"},
    {SECTION, "idmap-host", CHECK_FEATURE, probe_idmap_root,
     "files of the image host have their owners inside",
     "files of the image host belong to nobody inside",
     "a kernel and a root file system with idmapped mounts (ext4, xfs, btrfs)"},
    {SECTION, "idmap-state", CHECK_FEATURE, probe_idmap_state,
     "files of images have their owners inside", "files of images belong to nobody inside",
     "put the state directory on ext4, xfs or btrfs"},
    {SECTION, "disk-space", CHECK_NOTE, probe_space, "what sandboxes write goes here",
     "what sandboxes write goes here", "make room: sandboxes fail when it is full"},
    {0},
};
