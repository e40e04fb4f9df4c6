#include "model/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"

#define BAD_NAME       "VOLUME::INVALID_NAME"
#define BAD_SOURCE     "VOLUME::INVALID_BACKEND"
#define BAD_MOUNT_PATH "VOLUME::INVALID_MOUNT_PATH"
#define BAD_PVC_NAME   "VOLUME::INVALID_PVC_NAME"
#define BAD_HOST_PATH  "VOLUME::INVALID_HOST_PATH"
#define TWICE          "VOLUME::DUPLICATE_NAME"
#define NOT_BUILT      "VOLUME::UNSUPPORTED_BACKEND"

#define PLAIN "without '.', '..', '//', control characters and a final '/', of at most 255 bytes"
#define NAME_RULE \
    "must be 1 to 63 characters of [a-z0-9-] that begin and end with a letter or digit"

/* Where we are in the request, for messages: the number of the volume and the member. */
struct place {
    size_t index;
    const char *source; /* "" or "host." and so on */
    struct problem *problem;
};

static int refuse(const struct place *place, const char *code, const char *member,
                  const char *value, const char *rule)
{
    char path[64], quoted[PROBLEM_QUOTE_MAX];
    snprintf(path, sizeof(path), "%zu.%s%s", place->index, place->source, member);
    if (value == NULL)
        return problem_set(place->problem, code, "value_error", "volumes", path,
                           "`volumes[%zu].%s%s` %s", place->index, place->source, member, rule);
    return problem_set(place->problem, code, "value_error", "volumes", path,
                       "`volumes[%zu].%s%s` %s, not \"%s\"", place->index, place->source, member,
                       rule, problem_quote(value, quoted));
}

/* A member that is there and not null. */
static json_t *find(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static int check_members(const struct place *place, const json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;
        while (known[i] != NULL && !str_equal(known[i], key))
            i++;
        if (known[i] == NULL) {
            char quoted[PROBLEM_QUOTE_MAX];
            return refuse(place, PROBLEM_INVALID, problem_quote(key, quoted), NULL,
                          "is not known; leave it out");
        }
    }
    return 0;
}

/* NULL and 0 when it is absent. */
static int take_string(const struct place *place, const json_t *object, const char *key,
                       const char **ret)
{
    json_t *value = find(object, key);
    *ret = json_string_value(value);
    if (value != NULL && *ret == NULL)
        return refuse(place, PROBLEM_INVALID, key, NULL, "must be a string");
    return 0;
}

static int take_bool(const struct place *place, const json_t *object, const char *key, bool *ret)
{
    json_t *value = find(object, key);
    if (value == NULL)
        return 0;
    if (!json_is_boolean(value))
        return refuse(place, PROBLEM_INVALID, key, NULL, "must be true or false");
    *ret = json_is_true(value);
    return 0;
}

static bool is_name(const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    return length > 0 && length <= VOLUMES_NAME_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length && text[0] != '-' &&
           text[length - 1] != '-';
}

bool volumes_is_plain_path(const char *path, bool absolute)
{
    if (strlen(path) > VOLUMES_PATH_MAX || (path[0] == '/') != absolute)
        return false;
    for (const char *p = path; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    }
    for (const char *at = path + absolute;; at++) {
        size_t length = strcspn(at, "/");
        if (length == 0 || (length == 1 && at[0] == '.') ||
            (length == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

/* Of plain paths. */
static bool is_at_or_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* --- sources ---------------------------------------------------------------------------------- */

static int parse_host(const struct place *place, const json_t *host, const char *const *allowed,
                      struct volume *ret)
{
    static const char *const known[] = {"path", NULL};
    const char *path = NULL;
    int r = check_members(place, host, known);
    if (r == 0)
        r = take_string(place, host, "path", &path);
    if (r < 0)
        return r;
    if (path == NULL || !volumes_is_plain_path(path, true))
        return refuse(place, BAD_HOST_PATH, "path", path, "must be an absolute path " PLAIN);
    ret->source = mem_dup(path);
    ret->create = true;
    for (size_t i = 0; allowed != NULL && allowed[i] != NULL; i++) {
        if (is_at_or_below(path, allowed[i]))
            return 0;
    }
    return refuse(place, VOLUMES_NOT_ALLOWED, "path", path,
                  "must lie in a directory of the server's `storage.allowed_host_paths`");
}

static int parse_access_modes(const struct place *place, const json_t *pvc)
{
    static const char *const modes[] = {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"};
    json_t *array = find(pvc, "accessModes");
    size_t index;
    json_t *item;
    if (array != NULL && !json_is_array(array))
        return refuse(place, PROBLEM_INVALID, "accessModes", NULL, "must be an array of strings");
    json_array_foreach(array, index, item)
    {
        const char *mode = json_string_value(item);
        size_t i = 0;
        while (i < ARRAY_LEN(modes) && !str_equal(mode, modes[i]))
            i++;
        if (i == ARRAY_LEN(modes))
            return refuse(place, PROBLEM_INVALID, "accessModes", mode != NULL ? mode : "",
                          "can hold ReadWriteOnce, ReadOnlyMany and ReadWriteMany (whoever names a "
                          "volume may use it)");
    }
    return 0;
}

static int parse_storage(const struct place *place, const json_t *pvc, struct volume *ret)
{
    const char *storage = NULL, *class = NULL;
    int r = take_string(place, pvc, "storage", &storage);
    if (r == 0)
        r = take_string(place, pvc, "storageClass", &class);
    if (r < 0)
        return r;
    if (class != NULL && class[0] != '\0' && !str_equal(class, "local"))
        return refuse(place, PROBLEM_INVALID, "storageClass", class,
                      "must be \"local\", the only one here, or left out");
    if (storage != NULL &&
        limits_parse_size(storage, LIMITS_DISK_MIN, LIMITS_DISK_MAX, &ret->size_bytes) < 0)
        return refuse(place, PROBLEM_INVALID, "storage", storage,
                      "must be a size such as \"1Gi\" or \"500Mi\", from 16Mi to 1Pi");
    return parse_access_modes(place, pvc);
}

static int parse_pvc(const struct place *place, const json_t *pvc, struct volume *ret)
{
    static const char *const known[] = {"claimName",
                                        "createIfNotExists",
                                        "deleteOnSandboxTermination",
                                        "storageClass",
                                        "storage",
                                        "accessModes",
                                        NULL};
    const char *name = NULL;
    ret->create = true;
    int r = check_members(place, pvc, known);
    if (r == 0)
        r = take_string(place, pvc, "claimName", &name);
    if (r == 0 && !is_name(name))
        r = refuse(place, BAD_PVC_NAME, "claimName", name, NAME_RULE);
    if (r < 0)
        return r;
    ret->source = mem_dup(name);
    r = take_bool(place, pvc, "createIfNotExists", &ret->create);
    if (r == 0)
        r = take_bool(place, pvc, "deleteOnSandboxTermination", &ret->remove);
    return r == 0 ? parse_storage(place, pvc, ret) : r;
}

static int parse_tmpfs(const struct place *place, const json_t *tmpfs, struct volume *ret)
{
    static const char *const known[] = {"size", NULL};
    const char *size = NULL;
    ret->source = mem_dup("");
    int r = check_members(place, tmpfs, known);
    if (r == 0)
        r = take_string(place, tmpfs, "size", &size);
    if (r < 0)
        return r;
    if (size == NULL ||
        limits_parse_size(size, VOLUMES_TMPFS_MIN, VOLUMES_TMPFS_MAX, &ret->size_bytes) < 0)
        return refuse(place, PROBLEM_INVALID, "size", size,
                      "must be a size such as \"64Mi\", from 4Ki to 1Pi");
    return 0;
}

static int parse_source(struct place *place, const json_t *volume, const char *const *allowed,
                        struct volume *ret)
{
    static const struct {
        const char *name;
        const char *prefix;
    } sources[] = {
        [VOLUMES_HOST] = {"host", "host."},
        [VOLUMES_NAMED] = {"pvc", "pvc."},
        [VOLUMES_TMPFS] = {"tmpfs", "tmpfs."},
    };
    const json_t *source = NULL;
    size_t count = find(volume, "ossfs") != NULL;
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        const json_t *found = find(volume, sources[i].name);
        if (found != NULL) {
            ret->kind = (enum volumes_kind)i;
            source = found;
            count++;
        }
    }
    if (count != 1)
        return refuse(place, BAD_SOURCE, "host", NULL,
                      "or pvc or tmpfs must be there, and only one of them");
    if (source == NULL)
        return refuse(place, NOT_BUILT, "ossfs", NULL,
                      "is not supported by this version of the server; host, pvc and tmpfs are");
    if (!json_is_object(source))
        return refuse(place, BAD_SOURCE, sources[ret->kind].name, NULL, "must be an object");
    place->source = sources[ret->kind].prefix;
    int r = ret->kind == VOLUMES_HOST    ? parse_host(place, source, allowed, ret)
            : ret->kind == VOLUMES_NAMED ? parse_pvc(place, source, ret)
                                         : parse_tmpfs(place, source, ret);
    place->source = "";
    return r;
}

/* --- what all have ---------------------------------------------------------------------------- */

static int parse_mount_path(const struct place *place, const char *path, struct volume *ret)
{
    static const char *const kernel[] = {"/proc", "/sys", "/dev"};
    if (path == NULL || !volumes_is_plain_path(path, true))
        return refuse(place, BAD_MOUNT_PATH, "mountPath", path,
                      "must be an absolute path other than / " PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(kernel); i++) {
        if (is_at_or_below(path, kernel[i]))
            return refuse(place, BAD_MOUNT_PATH, "mountPath", path,
                          "must not lie in /proc, /sys or /dev, which are the kernel's");
    }
    ret->mount_path = mem_dup(path);
    return 0;
}

static int parse_sub_path(const struct place *place, const char *path, struct volume *ret)
{
    ret->sub_path = mem_dup(path != NULL ? path : "");
    if (ret->sub_path[0] == '\0')
        return 0;
    if (ret->kind == VOLUMES_TMPFS)
        return refuse(place, VOLUMES_BAD_SUB_PATH, "subPath", path,
                      "must be left out: a new file system in memory has nothing below it");
    if (!volumes_is_plain_path(path, false))
        return refuse(place, VOLUMES_BAD_SUB_PATH, "subPath", path,
                      "must be a relative path " PLAIN);
    return 0;
}

static int parse_volume(struct place *place, const json_t *volume, const char *const *allowed,
                        struct volume *ret)
{
    static const char *const known[] = {"name", "mountPath", "readOnly", "subPath", "host",
                                        "pvc",  "ossfs",     "tmpfs",    NULL};
    const char *name = NULL, *mount_path = NULL, *sub_path = NULL;
    if (!json_is_object(volume))
        return problem_set(place->problem, PROBLEM_INVALID, "dict_type", "volumes", NULL,
                           "`volumes[%zu]` must be an object", place->index);
    int r = check_members(place, volume, known);
    if (r == 0)
        r = take_string(place, volume, "name", &name);
    if (r == 0 && !is_name(name))
        r = refuse(place, BAD_NAME, "name", name, NAME_RULE);
    if (r < 0)
        return r;
    ret->name = mem_dup(name);
    r = take_string(place, volume, "mountPath", &mount_path);
    if (r == 0)
        r = parse_mount_path(place, mount_path, ret);
    if (r == 0)
        r = take_bool(place, volume, "readOnly", &ret->read_only);
    if (r == 0)
        r = parse_source(place, volume, allowed, ret);
    if (r == 0)
        r = take_string(place, volume, "subPath", &sub_path);
    return r == 0 ? parse_sub_path(place, sub_path, ret) : r;
}

static int check_others(const struct place *place, const struct volumes *volumes)
{
    const struct volume *last = &volumes->items[place->index];
    for (size_t i = 0; i < place->index; i++) {
        if (str_equal(volumes->items[i].name, last->name))
            return refuse(place, TWICE, "name", last->name, "must be that of one volume only");
        if (str_equal(volumes->items[i].mount_path, last->mount_path))
            return refuse(place, BAD_MOUNT_PATH, "mountPath", last->mount_path,
                          "must be that of one volume only");
    }
    return 0;
}

int volumes_parse(const json_t *array, const char *const *allowed, struct volumes *ret,
                  struct problem *problem)
{
    *ret = (struct volumes){0};
    size_t count = json_array_size(array);
    if (!json_is_array(array))
        return problem_set(problem, PROBLEM_INVALID, "list_type", "volumes", NULL,
                           "`volumes` must be an array");
    if (count > VOLUMES_MAX)
        return problem_set(problem, PROBLEM_INVALID, "too_long", "volumes", NULL,
                           "`volumes` has %zu entries; at most %d are allowed", count, VOLUMES_MAX);
    if (count == 0)
        return 0;
    struct volumes volumes = {.items = mem_alloc(count * sizeof(struct volume)), .count = count};
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        struct place place = {.index = i, .source = "", .problem = problem};
        r = parse_volume(&place, json_array_get(array, i), allowed, &volumes.items[i]);
        if (r == 0)
            r = check_others(&place, &volumes);
    }
    if (r < 0)
        volumes_done(&volumes);
    else
        *ret = volumes;
    return r;
}

void volumes_done(struct volumes *volumes)
{
    for (size_t i = 0; i < volumes->count; i++) {
        free(volumes->items[i].name);
        free(volumes->items[i].mount_path);
        free(volumes->items[i].source);
        free(volumes->items[i].sub_path);
    }
    free(volumes->items);
    *volumes = (struct volumes){0};
}
