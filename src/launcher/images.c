#include "launcher/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slot_process.h"

#define NOBODY 65534u /* whom the kernel names for ids that are not mapped */

static struct image *find(struct images *images, const char *name)
{
    for (size_t i = 0; i < images->count; i++) {
        if (str_equal(images->items[i].name, name))
            return &images->items[i];
    }
    return NULL;
}

int images_add(struct images *images, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    struct image image = {.fd = -1};
    if (length > 0 && length < sizeof(image.name))
        memcpy(image.name, text, length);
    if (!message_is_image_name(image.name))
        return error_set(err, ERR_INVALID,
                         "image '%.200s' is not NAME=DIR with a name of 1 to %d characters of "
                         "[A-Za-z0-9._:/@+-] that begins with a letter or digit and has no '..'",
                         text, MESSAGE_IMAGE_MAX - 1);
    if (str_equal(image.name, SLOT_IMAGE_HOST))
        return error_set(err, ERR_INVALID,
                         "image '" SLOT_IMAGE_HOST
                         "' is the programs of this machine and cannot be a "
                         "directory; give it another name");
    if (find(images, image.name) != NULL)
        return error_set(err, ERR_INVALID, "image '%s' is given twice", image.name);
    image.path = equals + 1;
    if (!str_is_plain_path(image.path))
        return error_set(err, ERR_INVALID,
                         "image '%s': '%.200s' is not an absolute path without '.', '..' and "
                         "superfluous slashes",
                         image.name, image.path);
    if (images->count == IMAGES_MAX)
        return error_set(err, ERR_INVALID, "there are more than %d images", IMAGES_MAX);
    images->items[images->count++] = image;
    return 0;
}

static bool is_trusted(const struct images *images, uid_t owner)
{
    return owner == 0 || (images->owners_hidden && (owner == NOBODY || owner == 1));
}

/* `last`: the image itself, where not even a sticky bit makes it acceptable that others write. */
static int check_directory(const struct images *images, const struct image *image, int fd,
                           size_t length, bool last, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set_errno(err, errno, "image '%s': cannot look at '%.*s'", image->name,
                               (int)length, image->path);
    if (!is_trusted(images, st.st_uid))
        return error_set(err, ERR_INTERNAL,
                         "image '%s': '%.*s' belongs to user %u; it must belong to root",
                         image->name, (int)length, image->path, (unsigned)st.st_uid);
    if ((st.st_mode & 022) != 0 && (last || (st.st_mode & S_ISVTX) == 0))
        return error_set(err, ERR_INTERNAL,
                         "image '%s': '%.*s' has mode %04o; only root may be able to write to it",
                         image->name, (int)length, image->path, (unsigned)st.st_mode & 07777);
    return 0;
}

static int step_error(const struct image *image, size_t length, int sys, struct error *err)
{
    bool odd = sys == ELOOP || sys == ENOTDIR;
    return error_set(err, ERR_INTERNAL, "image '%s': '%.*s' %s%s", image->name, (int)length,
                     image->path, odd ? "is not a directory" : "cannot be opened: ",
                     odd ? " (links are not followed)" : strerror(sys));
}

/* Down from the root, each directory opened below the one that was checked before it. */
static int open_image(const struct images *images, struct image *image, struct error *err)
{
    AUTO_CLOSE int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return error_set_errno(err, errno, "cannot open /");
    for (const char *slash = image->path; slash != NULL; slash = strchr(slash + 1, '/')) {
        AUTO_FREE char *name = mem_dup_n(slash + 1, strcspn(slash + 1, "/"));
        size_t length = (size_t)(slash - image->path) + 1 + strlen(name);
        bool last = image->path[length] == '\0';
        AUTO_CLOSE int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return step_error(image, length, errno, err);
        int r = check_directory(images, image, next, length, last, err);
        if (r < 0)
            return r;
        fd_close(at);
        at = TAKE_FD(next);
    }
    image->fd = TAKE_FD(at);
    return 0;
}

void images_open(struct images *images)
{
    for (size_t i = 0; i < images->count; i++) {
        struct error err = ERROR_INIT;
        if (open_image(images, &images->items[i], &err) < 0)
            log_warn("%s", err.message);
    }
}

void images_close(struct images *images)
{
    for (size_t i = 0; i < images->count; i++)
        images->items[i].fd = fd_close(images->items[i].fd);
}

/* Of very many names the first are told. */
static int not_found(const struct images *images, const char *name, struct error *err)
{
    CLEANUP(buf_done) struct buf names;
    buf_init(&names, 256);
    size_t told = 0;
    while (told < images->count && buf_printf(&names, ", %s", images->items[told].name) == 0)
        told++;
    char more[32] = "";
    if (told < images->count)
        snprintf(more, sizeof(more), " and %zu more", images->count - told);
    return error_set(err, ERR_NOT_FOUND,
                     "no image '%s'; this launcher has: " SLOT_IMAGE_HOST "%s%s", name, names.data,
                     more);
}

/* Deleted, perhaps to be made anew: what we hold is an empty directory that nobody can fill. */
static bool is_gone(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 || st.st_nlink == 0;
}

int images_get(struct images *images, const char *name, int *ret_fd, struct error *err)
{
    struct image *image = find(images, name);
    if (image == NULL)
        return not_found(images, name, err);
    if (image->fd >= 0 && is_gone(image->fd))
        image->fd = fd_close(image->fd);
    if (image->fd < 0) {
        int r = open_image(images, image, err);
        if (r < 0)
            return r;
    }
    *ret_fd = image->fd;
    return 0;
}
