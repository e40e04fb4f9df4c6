#include "launcher/volume_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/disk_volume.h"
#include "launcher/fields.h"
#include "launcher/idrange.h"

#define INFO      "volume"
#define INFO_MAX  64
#define DATA      "data"
#define DATA_MODE 0777         /* whoever a sandbox's programs run as */
#define NEW       "volume.new" /* in the sandbox's directory */

/* What it is. */

void volume_store_format(const struct volume_store_info *info, char ret[INFO_MAX])
{
    snprintf(ret, INFO_MAX, "opensandbox-volume 1\nremove %u\nsize %" PRIu64 "\n", info->remove,
             info->size_bytes);
}

int volume_store_parse(const char *text, size_t length, struct volume_store_info *ret,
                       struct error *err)
{
    const char *at = text;
    uint32_t version = 0;
    struct volume_store_info info = {0};
    if (!fields_take_u32(&at, "opensandbox-volume", UINT32_MAX, &version) || version != 1 ||
        !fields_take_bool(&at, "remove", &info.remove) ||
        !fields_take_number(&at, "size", DISK_MAX_BYTES, &info.size_bytes) || at != text + length)
        return error_set(err, ERR_INTERNAL, "its description is damaged");
    *ret = info;
    return 0;
}

static int read_info(int dir_fd, struct volume_store_info *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, INFO_MAX);
    if (file_read_at(dir_fd, INFO, &text, NULL) < 0)
        return error_set(err, ERR_INTERNAL, "its description cannot be read");
    return volume_store_parse(text.data, text.length, ret, err);
}

static int open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_volume(int volumes_fd, const char *name, struct error *err)
{
    int fd = open_dir(volumes_fd, name);
    if (fd == -ENOENT)
        return error_set(err, ERR_NOT_FOUND, "there is no volume '%s'", name);
    return fd < 0 ? error_set_errno(err, -fd, "cannot open volume '%s'", name) : fd;
}

int volume_store_read(int volumes_fd, const char *name, struct volume_store_info *ret,
                      struct error *err)
{
    AUTO_CLOSE int dir = open_volume(volumes_fd, name, err);
    return dir < 0 ? dir : read_info(dir, ret, err);
}

/* By path: see slot_image.c. */
static int open_volumes(const struct volume_store_place *place, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/volumes", place->launcher_path);
    int fd = open_dir(AT_FDCWD, path);
    return fd < 0 ? error_set_errno(err, -fd, "cannot open the store of volumes") : fd;
}

/* Making. */

static int make_data(int dir_fd)
{
    if (mkdirat(dir_fd, DATA, 0700) < 0 ||
        fchownat(dir_fd, DATA, IDRANGE_FIRST, IDRANGE_FIRST, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(dir_fd, DATA, DATA_MODE, 0) < 0)
        return -errno;
    return 0;
}

static int limit_data(const struct volume_store_place *place, int dir_fd, uint64_t bytes)
{
    AUTO_CLOSE int data = open_dir(dir_fd, DATA);
    return data < 0 ? data : disk_volume_limit(place->disks, data, bytes);
}

static int fill(const struct volume_store_place *place, int dir_fd,
                const struct volume_store_info *info, struct error *err)
{
    char text[INFO_MAX];
    volume_store_format(info, text);
    int r = file_write_atomic_at(dir_fd, INFO, text, strlen(text), 0600, err);
    if (r < 0)
        return r;
    if (info->size_bytes > 0 && place->disks->way == DISK_LOOP) {
        r = disk_volume_make(place->launcher_path, dir_fd, info->size_bytes);
    } else {
        r = make_data(dir_fd);
        if (r == 0 && info->size_bytes > 0)
            r = limit_data(place, dir_fd, info->size_bytes);
    }
    return r < 0 ? error_set_errno(err, -r, "cannot make a place for its files") : 0;
}

/* Not of a first try: a slot makes its directory anew, but may make several volumes. */
static int make_new(const struct volume_store_place *place, const struct volume_store_info *info,
                    struct error *err)
{
    int r = file_remove_tree_at(place->sandbox_fd, NEW, err);
    if (r < 0)
        return r;
    if (mkdirat(place->sandbox_fd, NEW, 0700) < 0)
        return error_set_errno(err, errno, "cannot make its directory");
    AUTO_CLOSE int dir = open_dir(place->sandbox_fd, NEW);
    return dir < 0 ? error_set_errno(err, -dir, "cannot open its directory")
                   : fill(place, dir, info, err);
}

int volume_store_make(const struct volume_store_place *place, const char *name,
                      const struct volume_store_info *info, struct error *err)
{
    AUTO_CLOSE int volumes = open_volumes(place, err);
    if (volumes < 0)
        return volumes;
    if (faccessat(volumes, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int r = make_new(place, info, err);
    if (r == 0 && renameat2(place->sandbox_fd, NEW, volumes, name, RENAME_NOREPLACE) < 0 &&
        errno != EEXIST)
        r = error_set_errno(err, errno, "cannot name it");
    if (r == 0)
        r = file_remove_tree_at(place->sandbox_fd, NEW, err); /* another was first */
    return r < 0 ? error_wrap(err, "cannot make volume '%s'", name) : r;
}

/* Opening. */

static int open_disk(const struct volume_store_place *place, int dir_fd)
{
    if (flock(dir_fd, LOCK_EX) < 0)
        return -errno;
    AUTO_CLOSE int mount = disk_volume_mount(place->disks, dir_fd, place->mount_fd);
    if (mount < 0)
        return mount;
    if (faccessat(mount, DATA, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        /* The first who enters it; a name of its own until it is complete. */
        unlinkat(mount, DATA ".new", AT_REMOVEDIR);
        if (mkdirat(mount, DATA ".new", 0700) < 0 ||
            fchownat(mount, DATA ".new", IDRANGE_FIRST, IDRANGE_FIRST, AT_SYMLINK_NOFOLLOW) < 0 ||
            fchmodat(mount, DATA ".new", DATA_MODE, 0) < 0 ||
            renameat(mount, DATA ".new", mount, DATA) < 0)
            return -errno;
    }
    return open_dir(mount, DATA);
}

int volume_store_open(const struct volume_store_place *place, const char *name,
                      struct volume_store_info *ret_info, struct error *err)
{
    AUTO_CLOSE int volumes = open_volumes(place, err);
    if (volumes < 0)
        return volumes;
    AUTO_CLOSE int dir = open_volume(volumes, name, err);
    if (dir < 0)
        return dir;
    if (read_info(dir, ret_info, err) < 0)
        return error_wrap(err, "volume '%s'", name);
    bool loop = faccessat(dir, DISK_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int data = loop ? open_disk(place, dir) : open_dir(dir, DATA);
    return data < 0 ? error_set_errno(err, -data, "cannot enter volume '%s'", name) : data;
}
