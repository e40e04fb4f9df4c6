#include "launcher/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "launcher/volume_store.h"

#define NAMES_MAX   (MESSAGE_VOLUMES_MAX * (MESSAGE_NAME_MAX + 1))
#define LOOSE_MAX   (MESSAGE_NAME_MAX + 32)
#define LOOSE_TRIES 1000u

/* What is allowed. */

int volume_allow(struct volume_allowed *allowed, const char *path, struct error *err)
{
    if (!message_is_plain_path(path, true))
        return error_set(err, ERR_INVALID,
                         "'%s' is not the absolute path of a directory without '.', '..', '//' and "
                         "a final '/'; / itself cannot be allowed",
                         path);
    if (allowed->count == VOLUME_ALLOWED_MAX)
        return error_set(err, ERR_INVALID, "more than %d directories are allowed",
                         VOLUME_ALLOWED_MAX);
    allowed->items[allowed->count++] = path;
    return 0;
}

/* Of plain paths. */
static bool is_at_or_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

const char *volume_find_allowed(const struct volume_allowed *allowed, const char *path)
{
    const char *found = NULL;
    for (size_t i = 0; i < allowed->count; i++) {
        const char *directory = allowed->items[i];
        if (is_at_or_below(path, directory) && (found == NULL || strlen(directory) > strlen(found)))
            found = directory;
    }
    return found;
}

/* Lists. */

static unsigned depth(const char *path)
{
    unsigned slashes = 0;
    for (; *path != '\0'; path++)
        slashes += *path == '/';
    return slashes;
}

struct volume_list *volume_list_new(const struct message_volume *volumes, uint32_t count)
{
    if (count == 0)
        return NULL;
    struct volume_list *list = mem_alloc(sizeof(*list) + count * sizeof(list->items[0]));
    list->refs = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = list->count++;
        for (; at > 0 && depth(list->items[at - 1].mount_path) > depth(volumes[i].mount_path); at--)
            list->items[at] = list->items[at - 1];
        list->items[at] = volumes[i];
    }
    return list;
}

struct volume_list *volume_list_ref(struct volume_list *list)
{
    if (list != NULL)
        list->refs++;
    return list;
}

struct volume_list *volume_list_unref(struct volume_list *list)
{
    if (list != NULL && --list->refs == 0)
        free(list);
    return NULL;
}

/* Checking. */

static int check_mount_path(const struct message_create *request, uint32_t number,
                            struct error *err)
{
    static const char *const kernel[] = {"/proc", "/sys", "/dev"};
    const char *path = request->volumes[number].mount_path;
    for (size_t i = 0; i < ARRAY_LEN(kernel); i++) {
        if (is_at_or_below(path, kernel[i]))
            return error_set(err, ERR_INVALID, "mount path '%s' is in %s, which is the kernel's",
                             path, kernel[i]);
    }
    for (uint32_t i = 0; i < number; i++) {
        if (str_equal(path, request->volumes[i].mount_path))
            return error_set(err, ERR_INVALID, "mount path '%s' is given twice", path);
    }
    return 0;
}

/* Whoever could write to the state directory would be root, and what is above it contains it. */
static int check_host(const struct launcher *launcher, const struct message_volume *volume,
                      struct error *err)
{
    const struct volume_allowed *allowed = &launcher->options.allowed;
    const char *state = launcher->state.path;
    if (volume_find_allowed(allowed, volume->source) == NULL)
        return error_set(err, ERR_DENIED,
                         "host path '%s' is in none of the %zu allowed directories", volume->source,
                         allowed->count);
    if (is_at_or_below(volume->source, state) || is_at_or_below(state, volume->source))
        return error_set(err, ERR_DENIED, "host path '%s' has the sandboxes' own files in it",
                         volume->source);
    return 0;
}

/* Those that are not in memory belong to ids of their own. */
static int check_powers(const struct launcher *launcher, const struct message_volume *volume,
                        struct error *err)
{
    if (launcher->powers.map_mounts || volume->kind == MESSAGE_VOLUME_TMPFS)
        return 0;
    return error_set(
        err, ERR_UNSUPPORTED,
        "volume '%s': an ordinary user's launcher cannot map the ids of files, so that "
        "there are only volumes in memory",
        volume->mount_path);
}

int volume_check(const struct launcher *launcher, const struct message_create *request,
                 struct error *err)
{
    for (uint32_t i = 0; i < request->volume_count; i++) {
        const struct message_volume *volume = &request->volumes[i];
        int r = check_mount_path(request, i, err);
        if (r == 0)
            r = check_powers(launcher, volume, err);
        if (r == 0 && volume->kind == MESSAGE_VOLUME_HOST)
            r = check_host(launcher, volume, err);
        if (r == 0 && volume->kind == MESSAGE_VOLUME_NAMED) {
            r = disk_check(&launcher->disks, &launcher->state, volume->size_bytes, err);
            if (r < 0)
                error_wrap(err, "volume '%s'", volume->source);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* Named ones that nobody uses. */

static bool is_used(const struct launcher *launcher, const char *name)
{
    const struct sandboxes *table = &launcher->sandboxes;
    for (size_t i = 0; i < table->count; i++) {
        const struct volume_list *list = table->items[i]->shape.volumes;
        for (uint32_t k = 0; list != NULL && k < list->count; k++) {
            if (list->items[k].kind == MESSAGE_VOLUME_NAMED &&
                str_equal(list->items[k].source, name))
                return true;
        }
    }
    return false;
}

/* Out of sight by one rename; the name ends so that it cannot be taken for that of a range. */
static void detach(struct launcher *launcher, const char *name)
{
    const struct state *state = &launcher->state;
    char loose[LOOSE_MAX];
    int r = -EEXIST;
    for (unsigned i = 0; i < LOOSE_TRIES && (r == -EEXIST || r == -ENOTEMPTY); i++) {
        snprintf(loose, sizeof(loose), "volume-%s-%u.0", name, i);
        r = renameat(state->volumes_fd, name, state->loose_fd, loose) < 0 ? -errno : 0;
    }
    if (r < 0) {
        log_error("cannot delete volume '%s': %s", name, strerror(-r));
        return;
    }
    log_info("volume '%s' is deleted: nobody uses it any more", name);
    remove_later(launcher, loose, NULL, 0);
}

static void check_unused(struct launcher *launcher, const char *name)
{
    struct volume_store_info info;
    struct error err = ERROR_INIT;
    if (is_used(launcher, name))
        return;
    if (volume_store_read(launcher->state.volumes_fd, name, &info, &err) < 0) {
        if (err.code != ERR_NOT_FOUND)
            log_warn("volume '%s' stays: %s", name, err.message);
    } else if (info.remove) {
        detach(launcher, name);
    }
}

void volume_release(struct launcher *launcher, const struct volume_list *list)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        if (list->items[i].kind == MESSAGE_VOLUME_NAMED)
            check_unused(launcher, list->items[i].source);
    }
}

void volume_sweep(struct launcher *launcher)
{
    int copy = fcntl(launcher->state.volumes_fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(copy);
        log_warn("cannot read the volumes there are: %s", strerror(errno));
        return;
    }
    rewinddir(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (message_is_volume_name(entry->d_name))
            check_unused(launcher, entry->d_name);
    }
    closedir(dir);
}

/* One name; what follows it, or NULL when it is none. */
static const char *take_name(const char *at, struct message_volume *ret)
{
    size_t length = strcspn(at, "\n");
    *ret = (struct message_volume){.kind = MESSAGE_VOLUME_NAMED};
    if (length > MESSAGE_NAME_MAX || at[length] != '\n')
        return NULL;
    memcpy(ret->source, at, length);
    return message_is_volume_name(ret->source) ? at + length + 1 : NULL;
}

int volume_read_names(int sandbox_fd, struct volume_list **ret, struct error *err)
{
    struct message_volume volumes[MESSAGE_VOLUMES_MAX];
    uint32_t count = 0;
    struct error reason = ERROR_INIT;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, NAMES_MAX);
    *ret = NULL;
    int r = file_read_at(sandbox_fd, VOLUME_NAMES, &text, &reason);
    if (r < 0 && reason.code == ERR_NOT_FOUND)
        return 0;
    if (r < 0) {
        if (err != NULL)
            *err = reason;
        return r;
    }
    for (const char *at = text.data; at != NULL && *at != '\0'; count++) {
        at = count < MESSAGE_VOLUMES_MAX ? take_name(at, &volumes[count]) : NULL;
        if (at == NULL)
            return error_set(err, ERR_INVALID, "the names of its volumes are damaged");
    }
    *ret = volume_list_new(volumes, count);
    return 0;
}
