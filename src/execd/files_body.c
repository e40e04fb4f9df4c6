#include "execd/files_body.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/files.h"
#include "http/json.h"

typedef int read_item_fn(const json_t *value, struct execd_body_item *item, struct error *err);

int execd_body_read_permission(const json_t *object, struct execd_permission *ret,
                               struct error *err)
{
    struct execd_permission permission = {0};
    int64_t digits = 0;
    if (http_json_string(object, "owner", EXECD_BODY_NAME_MAX, &permission.owner, err) < 0 ||
        http_json_string(object, "group", EXECD_BODY_NAME_MAX, &permission.group, err) < 0 ||
        http_json_int(object, "mode", 0, 7777, &digits, err) < 0)
        return -1;
    if (execd_files_mode_from_digits(digits, &permission.mode) < 0)
        return error_set(err, ERR_INVALID, "`mode` must have octal digits (like 644), not %lld",
                         (long long)digits);
    permission.has_mode = digits != 0;
    if (permission.owner != NULL && *permission.owner == '\0')
        permission.owner = NULL;
    if (permission.group != NULL && *permission.group == '\0')
        permission.group = NULL;
    *ret = permission;
    return 0;
}

static int read_permission(const json_t *value, struct execd_body_item *item, struct error *err)
{
    return json_is_null(value) ? 0 : execd_body_read_permission(value, &item->permission, err);
}

static int read_required(const json_t *object, const char *key, const char **ret, struct error *err)
{
    if (http_json_string(object, key, EXECD_BODY_MAX_BYTES, ret, err) < 0)
        return -1;
    if (*ret == NULL || **ret == '\0')
        return error_set(err, ERR_INVALID, "`%s` must be a non-empty string", key);
    return 0;
}

static int read_move(const json_t *value, struct execd_body_item *item, struct error *err)
{
    return read_required(value, "src", &item->path, err) < 0 ||
                   read_required(value, "dest", &item->dest, err) < 0
               ? -1
               : 0;
}

static int read_replacement(const json_t *value, struct execd_body_item *item, struct error *err)
{
    item->new_text = "";
    if (read_required(value, "old", &item->old_text, err) < 0 ||
        http_json_string(value, "new", EXECD_BODY_MAX_BYTES, &item->new_text, err) < 0)
        return -1;
    item->old_length = strlen(item->old_text);
    item->new_length = strlen(item->new_text);
    if (item->old_length > EXECD_BODY_OLD_MAX_BYTES)
        return error_set(err, ERR_INVALID, "`old` must have at most %d bytes, not %zu",
                         EXECD_BODY_OLD_MAX_BYTES, item->old_length);
    return 0;
}

static int check_count(size_t count, struct error *err)
{
    if (count > EXECD_BODY_ITEMS_MAX)
        return error_set(err, ERR_INVALID, "the body has %zu items, %d are allowed", count,
                         EXECD_BODY_ITEMS_MAX);
    return 0;
}

/* A member of an object or an element of an array, which must be an object or, where the reader
 * says so, null. */
static int read_one(struct execd_body *body, const char *path, const json_t *value,
                    read_item_fn *read_item, struct error *err)
{
    struct execd_body_item *item = &body->items[body->count];
    item->path = path;
    bool is_object = json_is_object(value) || (json_is_null(value) && read_item == read_permission);
    int r = is_object ? read_item(value, item, err)
                      : error_set(err, ERR_INVALID, "it must be a JSON object");
    if (r == 0)
        body->count++;
    else if (path != NULL)
        error_wrap(err, "\"%.200s\"", path);
    else
        error_wrap(err, "item %zu", body->count + 1);
    return r;
}

static int read_object(struct execd_body *body, read_item_fn *read_item, struct error *err)
{
    const char *path;
    json_t *value;
    if (!json_is_object(body->json))
        return error_set(err, ERR_INVALID, "the body must be a JSON object with paths as its keys");
    if (check_count(json_object_size(body->json), err) < 0)
        return -1;
    body->items = mem_alloc_array(json_object_size(body->json) + 1, sizeof(*body->items));
    json_object_foreach(body->json, path, value)
    {
        if (read_one(body, path, value, read_item, err) < 0)
            return -1;
    }
    return 0;
}

static int read_array(struct execd_body *body, read_item_fn *read_item, struct error *err)
{
    size_t index;
    json_t *value;
    if (!json_is_array(body->json))
        return error_set(err, ERR_INVALID, "the body must be a JSON array of {src, dest}");
    if (check_count(json_array_size(body->json), err) < 0)
        return -1;
    body->items = mem_alloc_array(json_array_size(body->json) + 1, sizeof(*body->items));
    json_array_foreach(body->json, index, value)
    {
        if (read_one(body, NULL, value, read_item, err) < 0)
            return -1;
    }
    return 0;
}

static int parse(const char *text, size_t length, bool array, read_item_fn *read_item,
                 struct execd_body *ret, struct error *err)
{
    struct execd_body body = {.json = http_json_parse(text, length, err)};
    if (body.json == NULL)
        return -1;
    int r = array ? read_array(&body, read_item, err) : read_object(&body, read_item, err);
    if (r < 0)
        execd_body_done(&body);
    else
        *ret = body;
    return r;
}

int execd_body_parse_permissions(const char *text, size_t length, struct execd_body *ret,
                                 struct error *err)
{
    return parse(text, length, false, read_permission, ret, err);
}

int execd_body_parse_moves(const char *text, size_t length, struct execd_body *ret,
                           struct error *err)
{
    return parse(text, length, true, read_move, ret, err);
}

int execd_body_parse_replacements(const char *text, size_t length, struct execd_body *ret,
                                  struct error *err)
{
    return parse(text, length, false, read_replacement, ret, err);
}

void execd_body_done(struct execd_body *body)
{
    json_decref(body->json);
    free(body->items);
    *body = (struct execd_body){0};
}
