#include "server/images.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/message.h"

#define HOST_IMAGE "host"
#define USER_MAX   256 /* as long as execd takes */

static void image_done(struct server_image *image)
{
    free(TAKE_PTR(image->path));
    free(TAKE_PTR(image->user));
    free(TAKE_PTR(image->workdir));
}

void server_images_done(struct server_images *images)
{
    for (size_t i = 0; i < images->names.count; i++)
        image_done(&images->items[i]);
    free(TAKE_PTR(images->items));
    string_list_done(&images->names);
}

const struct server_image *server_images_find(const struct server_images *images, const char *name)
{
    for (size_t i = 0; i < images->names.count; i++) {
        if (str_equal(images->names.items[i], name))
            return &images->items[i];
    }
    return NULL;
}

static int check_name(const struct server_images *images, const char *name, struct error *err)
{
    if (!message_is_image_name(name) || str_equal(name, HOST_IMAGE))
        return error_set(
            err, ERR_INVALID,
            "an image's name has 1 to %d characters of [A-Za-z0-9._:/@+-], begins with "
            "a letter or digit, has no '..' and is not \"" HOST_IMAGE "\"",
            MESSAGE_IMAGE_MAX - 1);
    if (images->names.count >= SERVER_IMAGES_MAX)
        return error_set(err, ERR_INVALID, "there are more than %d images", SERVER_IMAGES_MAX);
    return 0;
}

static int check_path(const char *key, const char *value, struct error *err)
{
    if (str_is_plain_path(value))
        return 0;
    return error_set(err, ERR_INVALID,
                     "`%s` must be an absolute path without '.', '..' and superfluous slashes, not "
                     "'%.200s'",
                     key, value);
}

/* Whether the sandbox knows that user shows when one is made. */
static int check_user(const char *user, struct error *err)
{
    const char *colon = strchr(user, ':');
    bool is_good = strlen(user) <= USER_MAX && user[0] != '\0' && user[0] != ':' &&
                   (colon == NULL || (colon[1] != '\0' && strchr(colon + 1, ':') == NULL));
    for (const char *p = user; *p != '\0'; p++)
        is_good = is_good && isgraph((unsigned char)*p);
    if (is_good)
        return 0;
    return error_set(err, ERR_INVALID,
                     "`user` must be a name or number, or two of them for user and group as in "
                     "\"1000:1000\", not '%.200s'",
                     user);
}

static void keep(struct server_images *images, const char *name, struct server_image image)
{
    size_t count = images->names.count;
    images->items = mem_resize_array(images->items, count + 1, sizeof(*images->items));
    images->items[count] = image;
    string_list_add(&images->names, name);
}

static int read_members(const struct toml *doc, const struct toml_value *table,
                        struct server_image *ret, struct error *err)
{
    const char *path = NULL;
    const char *user = NULL;
    const char *workdir = NULL;
    if (toml_get_string(doc, table, "path", &path, err) < 0 ||
        toml_get_string(doc, table, "user", &user, err) < 0 ||
        toml_get_string(doc, table, "workdir", &workdir, err) < 0)
        return -1;
    if (path == NULL)
        return error_set(err, ERR_INVALID, "`path` is missing: the directory of its files");
    if (check_path("path", path, err) < 0 || (user != NULL && check_user(user, err) < 0))
        return -1;
    if (workdir != NULL && !str_equal(workdir, "/") && check_path("workdir", workdir, err) < 0)
        return -1;
    *ret = (struct server_image){.path = mem_dup(path),
                                 .user = user != NULL ? mem_dup(user) : NULL,
                                 .workdir = workdir != NULL ? mem_dup(workdir) : NULL};
    return 0;
}

int server_images_read(struct server_images *images, const struct toml *doc, const char *document,
                       const char *name, const struct toml_value *table, struct error *err)
{
    struct server_image image;
    if (check_name(images, name, err) < 0 || read_members(doc, table, &image, err) < 0)
        return error_wrap(err, "%s:%d: image \"%.200s\"", document, toml_line(table), name);
    keep(images, name, image);
    return 0;
}
