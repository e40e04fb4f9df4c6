/* The steps of a slot that give a sandbox its volumes.
 *
 * They are opened in the slot, since a host path may lie on a file system that does not answer: a
 * slot that hangs is given up, the launcher must never hang. The allowed directory, too, is opened
 * anew each time and not kept from the start: it may be made, or mounted, later than the launcher
 * was started, and a descriptor from before would lead below that mount.
 *
 * Sources are resolved as volume_path.h tells, to a descriptor, of which the mount is cloned: no
 * path is used twice. The clone is given its attributes in the air, before anything inside can
 * reach it: nosuid and nodev always, and a mapping of ids. With that root inside is whoever
 * volume_path_ids() says, never root on the host, and a file of anybody else there belongs to
 * nobody inside. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/idrange.h"
#include "launcher/mounts.h"
#include "launcher/slot_process.h"
#include "launcher/volume_path.h"
#include "launcher/volume_store.h"

#define DIRECTORY_MODE 0755
#define FILE_MODE      0644
#define MEMORY_MODE    "1777" /* as /tmp: whoever a sandbox's programs run as */
#define MEMORY_INODES  1024u  /* at least; beyond, one for each page */

/* What is made while we are somebody else. */
struct making {
    int dir_fd;
    const char *path;
    enum volume_path_end end;
    mode_t mode;
};

static int make_path(struct slot_context *slot, void *argument)
{
    (void)slot;
    const struct making *making = argument;
    return volume_path_open(making->dir_fd, making->path, making->end, making->mode);
}

static uint64_t attributes_of(const struct message_volume *volume)
{
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    return volume->flags & MESSAGE_VOLUME_READ_ONLY ? attributes | MOUNT_ATTR_RDONLY : attributes;
}

/* Sources. */

/* A path that starts at the root and that the administrator wrote. */
static int open_allowed(struct slot_context *slot, const char *path)
{
    AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = root < 0 ? -errno : volume_path_open(root, path + 1, VOLUME_PATH_ANY, 0);
    if (fd == -ELOOP)
        return error_set(&slot->failure, ERR_DENIED,
                         "the allowed directory '%s' leads over a symbolic link; allow the "
                         "directory it leads to",
                         path);
    return fd < 0 ? error_set_errno(&slot->failure, -fd, "cannot open the allowed directory '%s'",
                                    path)
                  : fd;
}

/* What is missing is made for the owner of the directory it is made in. */
static int make_host(struct slot_context *slot, int allowed_fd, const char *rest, const char *path)
{
    struct stat st;
    struct making making = {.end = VOLUME_PATH_DIRECTORY, .mode = DIRECTORY_MODE};
    AUTO_CLOSE int at = volume_path_deepest(allowed_fd, rest, &making.path);
    int r = at < 0 ? at : fstat(at, &st) < 0 ? -errno : 0;
    if (r == 0) {
        struct volume_ids ids = volume_path_ids(st.st_uid, st.st_gid);
        making.dir_fd = at;
        r = slot_as(slot, ids.uid, ids.gid, make_path, &making);
    }
    return r < 0 ? error_set(&slot->failure, ERR_INTERNAL, "cannot make host path '%s': %s", path,
                             strerror(-r))
                 : r;
}

static int host_error(struct slot_context *slot, const char *path, int sys)
{
    if (sys == ELOOP)
        return error_set(&slot->failure, ERR_DENIED,
                         "host path '%s' leads over a symbolic link; none is followed", path);
    if (sys == ENOENT)
        return error_set(&slot->failure, ERR_NOT_FOUND, "there is no host path '%s'", path);
    if (sys == ENOTDIR)
        return error_set(&slot->failure, ERR_INVALID, "host path '%s' leads through a file", path);
    return error_set_errno(&slot->failure, sys, "cannot open host path '%s'", path);
}

/* Whose a file is does not tell who put it there: it may be a second name of another's. So it
 * belongs to the owner of its directory, unless that is root, who knows. */
static int find_ids(int allowed_fd, const char *rest, int fd, struct volume_ids *ret)
{
    struct stat st, parent;
    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = volume_path_ids(st.st_uid, st.st_gid);
    const char *slash = strrchr(rest, '/');
    if (S_ISDIR(st.st_mode))
        return 0;
    AUTO_FREE char *above = slash != NULL ? mem_dup_n(rest, (size_t)(slash - rest)) : mem_dup("");
    AUTO_CLOSE int dir = volume_path_open(allowed_fd, above, VOLUME_PATH_ANY, 0);
    if (dir < 0 || fstat(dir, &parent) < 0)
        return dir < 0 ? dir : -errno;
    if (S_ISDIR(parent.st_mode) && parent.st_uid != 0 && parent.st_uid != st.st_uid)
        *ret = volume_path_ids(parent.st_uid, parent.st_gid);
    return 0;
}

static int open_host(struct slot_context *slot, const struct message_volume *volume,
                     struct volume_ids *ret_ids)
{
    const char *path = volume->source;
    const char *allowed = volume_find_allowed(slot->plan.allowed, path);
    if (allowed == NULL) /* the launcher has looked before */
        return error_set(&slot->failure, ERR_DENIED, "host path '%s' is not allowed", path);
    const char *rest = path + strlen(allowed) + (path[strlen(allowed)] == '/');
    AUTO_CLOSE int top = open_allowed(slot, allowed);
    if (top < 0)
        return top;
    AUTO_CLOSE int fd = volume_path_open(top, rest, VOLUME_PATH_ANY, 0);
    if (fd == -ENOENT && volume->flags & MESSAGE_VOLUME_CREATE) {
        fd = make_host(slot, top, rest, path);
        if (fd < 0)
            return fd;
    }
    int r = fd < 0 ? fd : find_ids(top, rest, fd, ret_ids);
    return r < 0 ? host_error(slot, path, -r) : TAKE_FD(fd);
}

static int check_size(struct slot_context *slot, const struct message_volume *volume,
                      const struct volume_store_info *info)
{
    if (volume->size_bytes == 0 || volume->size_bytes == info->size_bytes)
        return 0;
    char is[48] = "no size limit";
    if (info->size_bytes > 0)
        snprintf(is, sizeof(is), "a size of %" PRIu64 " bytes", info->size_bytes);
    return error_set(&slot->failure, ERR_INVALID,
                     "volume '%s' is there already and has %s, not %" PRIu64 " bytes",
                     volume->source, is, volume->size_bytes);
}

static int open_named(struct slot_context *slot, const struct message_volume *volume,
                      struct volume_ids *ret_ids)
{
    const struct volume_store_place place = {
        .disks = slot->plan.disks,
        .launcher_path = slot->plan.state->launcher_path,
        .sandbox_fd = slot->sandbox_fd,
        .mount_fd = slot->mount_fd,
    };
    struct volume_store_info info = {
        .remove = (volume->flags & MESSAGE_VOLUME_DELETE) != 0,
        .size_bytes = volume->size_bytes,
    };
    int r = 0;
    if (volume->flags & MESSAGE_VOLUME_CREATE)
        r = volume_store_make(&place, volume->source, &info, &slot->failure);
    if (r < 0)
        return r;
    AUTO_CLOSE int fd = volume_store_open(&place, volume->source, &info, &slot->failure);
    r = fd < 0 ? fd : check_size(slot, volume, &info);
    *ret_ids = (struct volume_ids){.uid = IDRANGE_FIRST, .gid = IDRANGE_FIRST};
    return r < 0 ? r : TAKE_FD(fd);
}

/* Whoever shares the volume may have put anything there, and change it now. */
static int open_sub_path(struct slot_context *slot, const struct message_volume *volume,
                         int source_fd, struct volume_ids ids)
{
    struct making making = {.dir_fd = source_fd,
                            .path = volume->sub_path,
                            .end = VOLUME_PATH_ANY,
                            .mode = DIRECTORY_MODE};
    int fd = make_path(slot, &making);
    if (fd == -ENOENT && volume->flags & MESSAGE_VOLUME_CREATE) {
        making.end = VOLUME_PATH_DIRECTORY;
        fd = slot_as(slot, ids.uid, ids.gid, make_path, &making);
    }
    if (fd >= 0)
        return fd;
    error_set(&slot->failure, ERR_INVALID, "sub-path '%s' of volume '%s' %s%s", volume->sub_path,
              volume->source,
              fd == -ELOOP     ? "leads over a symbolic link; none is followed"
              : fd == -ENOENT  ? "does not exist"
              : fd == -ENOTDIR ? "leads through a file"
                               : "cannot be opened: ",
              fd == -ELOOP || fd == -ENOENT || fd == -ENOTDIR ? "" : strerror(-fd));
    slot->failure.sys = -fd;
    return fd;
}

/* Mounts. */

static int map_ids(struct slot_context *slot, const struct message_volume *volume, int tree_fd,
                   struct volume_ids ids)
{
    char uid_map[VOLUME_MAP_MAX], gid_map[VOLUME_MAP_MAX];
    volume_path_map(ids.uid, slot->base_id, uid_map);
    volume_path_map(ids.gid, slot->base_id, gid_map);
    AUTO_CLOSE int userns = slot_make_user_namespace(slot, uid_map, gid_map);
    if (userns < 0)
        return userns;
    int r = mounts_restrict(tree_fd, attributes_of(volume), userns);
    if (r == -EINVAL)
        return error_set(&slot->failure, ERR_UNSUPPORTED,
                         "volume '%s' cannot be given to a sandbox: its file system cannot map "
                         "ids",
                         volume->source);
    return r;
}

/* In the air. The source is what its descriptor is, whatever has become of its path. */
static int take_source(struct slot_context *slot, const struct message_volume *volume, int fd,
                       struct volume_ids ids)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return error_set(&slot->failure, ERR_UNSUPPORTED,
                         "volume '%s' is neither a directory nor a regular file: sockets, fifos "
                         "and devices are not given to sandboxes",
                         volume->source);
    AUTO_CLOSE int tree = mounts_take(fd, "");
    int r = tree < 0 ? tree : map_ids(slot, volume, tree, ids);
    return r < 0 ? r : TAKE_FD(tree);
}

/* Its pages are charged to whoever writes them, so to the sandbox. */
static int make_memory(struct slot_context *slot, const struct message_volume *volume)
{
    char owner[16], size[24], inodes[24];
    snprintf(owner, sizeof(owner), "%u", slot->base_id);
    snprintf(size, sizeof(size), "%" PRIu64, volume->size_bytes);
    snprintf(inodes, sizeof(inodes), "%" PRIu64,
             MAX(volume->size_bytes / 4096, (uint64_t)MEMORY_INODES));
    const struct mounts_option options[] = {
        {"size", size}, {"nr_inodes", inodes}, {"mode", MEMORY_MODE},
        {"uid", owner}, {"gid", owner},        {NULL, NULL},
    };
    return mounts_new("tmpfs", options, attributes_of(volume));
}

static int open_volume(struct slot_context *slot, const struct message_volume *volume)
{
    struct volume_ids ids = {0};
    if (volume->kind == MESSAGE_VOLUME_TMPFS)
        return make_memory(slot, volume);
    AUTO_CLOSE int source = volume->kind == MESSAGE_VOLUME_HOST ? open_host(slot, volume, &ids)
                                                                : open_named(slot, volume, &ids);
    if (source < 0 || volume->sub_path[0] == '\0')
        return source < 0 ? source : take_source(slot, volume, source, ids);
    AUTO_CLOSE int sub = open_sub_path(slot, volume, source, ids);
    return sub < 0 ? sub : take_source(slot, volume, sub, ids);
}

/* For the next launcher; before there is a volume that somebody else must not delete. */
static int write_names(struct slot_context *slot, const struct volume_list *list)
{
    AUTO_CLOSE int fd = -1;
    for (uint32_t i = 0; i < list->count; i++) {
        char line[MESSAGE_NAME_MAX + 2];
        if (list->items[i].kind != MESSAGE_VOLUME_NAMED)
            continue;
        if (fd < 0)
            fd = openat(slot->sandbox_fd, VOLUME_NAMES, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                        0600);
        if (fd < 0)
            return -errno;
        snprintf(line, sizeof(line), "%.*s\n", MESSAGE_NAME_MAX, list->items[i].source);
        int r = file_write_all(fd, line, strlen(line));
        if (r < 0)
            return r;
    }
    return 0;
}

int slot_open_volumes(struct slot_context *slot)
{
    const struct volume_list *list = slot->plan.shape->volumes;
    if (list == NULL)
        return 0;
    int r = write_names(slot, list);
    for (uint32_t i = 0; i < list->count && r == 0; i++) {
        slot->volume_fds[i] = open_volume(slot, &list->items[i]);
        r = MIN(slot->volume_fds[i], 0);
    }
    return r;
}

/* Places. */

static int place_error(struct slot_context *slot, const char *path, bool is_directory, int sys)
{
    if (sys == ELOOP)
        return error_set(&slot->failure, ERR_INVALID,
                         "mount path '%s' leads over a symbolic link inside; none is followed",
                         path);
    if (sys == ENOTDIR || sys == EISDIR)
        return error_set(
            &slot->failure, ERR_INVALID,
            "mount path '%s': there is something else inside; a %s can only be mounted "
            "on a %s",
            path, is_directory ? "directory" : "file", is_directory ? "directory" : "file");
    if (sys == EROFS)
        return error_set(&slot->failure, ERR_INVALID,
                         "mount path '%s' does not exist, and lies in a volume that is read-only",
                         path);
    return error_set(&slot->failure, ERR_INTERNAL, "cannot make mount path '%s': %s", path,
                     strerror(sys));
}

/* As the sandbox's root: in another volume the place is made for its owner. */
static int mount_one(struct slot_context *slot, void *argument)
{
    const uint32_t *number = argument;
    const char *path = slot->plan.shape->volumes->items[*number].mount_path;
    int tree = slot->volume_fds[*number];
    struct stat source, st;
    if (fstat(tree, &source) < 0)
        return -errno;
    bool is_directory = S_ISDIR(source.st_mode);
    AUTO_CLOSE int place = volume_path_open(slot->root_fd, path + 1,
                                            is_directory ? VOLUME_PATH_DIRECTORY : VOLUME_PATH_FILE,
                                            is_directory ? DIRECTORY_MODE : FILE_MODE);
    int r = place < 0 ? place : fstat(place, &st) < 0 ? -errno : 0;
    if (r == 0 && (is_directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)))
        r = -ENOTDIR;
    if (r < 0)
        return place_error(slot, path, is_directory, -r);
    if (move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

int slot_mount_volumes(struct slot_context *slot)
{
    const struct volume_list *list = slot->plan.shape->volumes;
    int r = 0;
    for (uint32_t i = 0; list != NULL && i < list->count && r == 0; i++)
        r = slot_as_owner(slot, mount_one, &i);
    return r;
}
