/* Any bytes as the body of each endpoint: what is accepted is within the limits that the endpoints
 * rely on. The replacements asked for are also made, in the path itself, and compared with the
 * plain way of doing it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "execd/files_body.h"
#include "execd/replace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_permission(const struct execd_body_item *item)
{
    const struct execd_permission *permission = &item->permission;
    require(item->path != NULL && permission->mode <= 0777);
    require(permission->owner == NULL || *permission->owner != '\0');
    require(permission->group == NULL || *permission->group != '\0');
    require(permission->owner == NULL || strlen(permission->owner) <= EXECD_BODY_NAME_MAX);
}

static void check_move(const struct execd_body_item *item)
{
    require(item->path != NULL && *item->path != '\0');
    require(item->dest != NULL && *item->dest != '\0');
}

static int collect(void *ctx, const char *bytes, size_t length)
{
    return buf_add(ctx, bytes, length);
}

static void check_replacement(const struct execd_body_item *item)
{
    require(item->path != NULL && item->old_length > 0 &&
            item->old_length <= EXECD_BODY_OLD_MAX_BYTES && item->new_text != NULL);
    struct buf expected;
    struct buf got;
    buf_init(&expected, SIZE_MAX);
    buf_init(&got, SIZE_MAX);
    uint64_t count = 0;
    const char *at = item->path;
    for (const char *found; (found = strstr(at, item->old_text)) != NULL; count++) {
        buf_add(&expected, at, (size_t)(found - at));
        buf_add(&expected, item->new_text, item->new_length);
        at = found + item->old_length;
    }
    buf_add_str(&expected, at);

    struct execd_replace replace = {
        .old_text = item->old_text,
        .old_length = item->old_length,
        .new_text = item->new_text,
        .new_length = item->new_length,
        .out = collect,
        .ctx = &got,
    };
    execd_replace_init(&replace);
    replace.room = item->old_length + 1; /* so that the window is full all the time */
    size_t length = strlen(item->path);
    for (size_t i = 0; i < length; i += 3)
        require(execd_replace_feed(&replace, item->path + i, MIN(length - i, (size_t)3)) == 0);
    require(execd_replace_finish(&replace) == 0);
    require(replace.count == count && got.length == expected.length &&
            memcmp(got.data, expected.data, got.length) == 0);
    execd_replace_done(&replace);
    buf_done(&expected);
    buf_done(&got);
}

typedef int parse_fn(const char *text, size_t length, struct execd_body *ret, struct error *err);

static void check_body(parse_fn *parse, const char *text, size_t length,
                       void (*check)(const struct execd_body_item *item))
{
    struct execd_body body = {0};
    struct error err = ERROR_INIT;
    if (parse(text, length, &body, &err) < 0) {
        require(body.items == NULL && err.code == ERR_INVALID && err.message[0] != '\0');
        return;
    }
    require(body.count <= EXECD_BODY_ITEMS_MAX);
    for (size_t i = 0; i < body.count; i++)
        check(&body.items[i]);
    execd_body_done(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = mem_dup_n((const char *)data, size);
    check_body(execd_body_parse_permissions, text, size, check_permission);
    check_body(execd_body_parse_moves, text, size, check_move);
    check_body(execd_body_parse_replacements, text, size, check_replacement);
    return 0;
}
