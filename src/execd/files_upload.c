/* POST /files/upload: pairs of parts, the n-th `metadata` saying where the n-th `file` goes.
 *
 * Files are written to temporary names as they arrive. When the whole body is there and every pair
 * is complete, the work queue syncs all of them and then renames all of them: an upload that fails
 * before the first rename, which is nearly every one that fails, changes nothing. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "execd/files.h"
#include "execd/files_place.h"
#include "execd/reply.h"
#include "http/json.h"
#include "http/multipart.h"

#define METADATA_MAX_BYTES (64 * 1024)

enum part { PART_IGNORED, PART_METADATA, PART_FILE };

struct upload {
    struct execd *execd;
    struct http_exchange *exchange; /* NULL once closed */
    struct http_multipart *multipart;
    enum part part;
    struct buf metadata; /* of the current part */
    struct execd_place *places;
    size_t place_count; /* the larger of the two below */
    size_t metadata_count;
    size_t file_count;
    const char *invalid_code; /* what a mistake of the client is called where we are */
    bool failed;              /* answered; what still arrives is dropped */
    bool working;             /* the work queue has it */
    uv_work_t work;
    struct error work_error;
};

static void discard_places(struct upload *upload)
{
    /* Backwards: folders made for an earlier file may be in use by a later one. */
    while (upload->place_count > 0)
        execd_place_discard(&upload->places[--upload->place_count]);
    free(TAKE_PTR(upload->places));
}

static void free_upload(struct upload *upload)
{
    discard_places(upload);
    http_multipart_free(upload->multipart);
    buf_done(&upload->metadata);
    free(upload);
}

static void fail(struct upload *upload, const struct error *err)
{
    upload->failed = true;
    discard_places(upload); /* before the client can look */
    execd_reply_failure(upload->exchange, upload->invalid_code, err);
}

/* The place number `index`; the two kinds of parts grow the list in turn. How many there can be is
 * limited by http/multipart.h. */
static struct execd_place *get_place(struct upload *upload, size_t index)
{
    if (index == upload->place_count) {
        upload->places =
            mem_resize_array(upload->places, upload->place_count + 1, sizeof(*upload->places));
        execd_place_init(&upload->places[upload->place_count++]);
    }
    return &upload->places[index];
}

/* --- metadata --------------------------------------------------------------------------------- */

static int read_permission(const struct execd *execd, const json_t *json, struct execd_place *place,
                           struct error *err)
{
    struct execd_permission permission;
    if (execd_body_read_permission(json, &permission, err) < 0)
        return -1;
    place->has_mode = permission.has_mode;
    place->mode = permission.mode;
    return execd_files_find_owner(&execd->users, &permission, &place->owner, err);
}

static int read_target(const struct execd *execd, const json_t *json, struct execd_place *place,
                       struct error *err)
{
    if (!json_is_object(json))
        return error_set(err, ERR_INVALID, "metadata must be a JSON object");
    const char *requested = NULL;
    if (http_json_string(json, "path", METADATA_MAX_BYTES, &requested, err) < 0)
        return -1;
    if (requested == NULL || *requested == '\0')
        return error_set(err, ERR_INVALID, "`path` must be a non-empty string");
    AUTO_FREE char *path = NULL;
    if (read_permission(execd, json, place, err) < 0 ||
        execd_files_resolve(execd, requested, &path, err) < 0)
        return -1;
    if (execd->has_user)
        place->new_owner = (struct execd_owner){.uid = execd->user.uid, .gid = execd->user.gid};
    place->new_mode = 0777 & ~execd->umask;
    return execd_place_set_target(place, path, err);
}

static int finish_metadata(struct upload *upload, struct error *err)
{
    upload->invalid_code = "INVALID_FILE_METADATA";
    json_t *json = http_json_parse(upload->metadata.data, upload->metadata.length, err);
    if (json == NULL)
        return -1;
    struct execd_place *place = get_place(upload, upload->metadata_count++);
    int r = read_target(upload->execd, json, place, err);
    json_decref(json);
    buf_clear(&upload->metadata);
    if (r == 0)
        upload->invalid_code = "INVALID_FILE";
    return r;
}

/* --- parts ------------------------------------------------------------------------------------ */

static int on_part(void *ctx, const struct http_multipart_part *part, struct error *err)
{
    struct upload *upload = ctx;
    upload->part = PART_IGNORED;
    if (part->filename == NULL)
        return 0;
    if (strcmp(part->name, "metadata") == 0) {
        upload->part = PART_METADATA;
        return 0;
    }
    if (strcmp(part->name, "file") != 0)
        return 0;
    upload->part = PART_FILE;
    const char *spool = execd_env_find(&upload->execd->env, "TMPDIR");
    struct execd_place *place = get_place(upload, upload->file_count++);
    return execd_place_open(place, spool != NULL && *spool == '/' ? spool : "/tmp", err);
}

static int on_part_data(void *ctx, const char *bytes, size_t length, struct error *err)
{
    struct upload *upload = ctx;
    if (upload->part == PART_FILE)
        return execd_place_write(&upload->places[upload->file_count - 1], bytes, length, err);
    if (upload->part == PART_METADATA && buf_add(&upload->metadata, bytes, length) < 0) {
        upload->invalid_code = "INVALID_FILE_METADATA";
        return error_set(err, ERR_INVALID, "a metadata part has over %d bytes", METADATA_MAX_BYTES);
    }
    return 0;
}

static int on_part_end(void *ctx, struct error *err)
{
    struct upload *upload = ctx;
    if (upload->part == PART_FILE)
        execd_place_close(&upload->places[upload->file_count - 1]);
    return upload->part == PART_METADATA ? finish_metadata(upload, err) : 0;
}

/* --- into place ------------------------------------------------------------------------------- */

/* On a thread of the work queue: touches nothing but the places. */
static void put_into_place(uv_work_t *work)
{
    struct upload *upload = CONTAINER_OF(work, struct upload, work);
    struct error *err = &upload->work_error;
    for (size_t i = 0; i < upload->place_count; i++) {
        if (execd_place_sync(&upload->places[i], err) < 0)
            return;
    }
    for (size_t i = 0; i < upload->place_count; i++) {
        if (execd_place_commit(&upload->places[i], err) < 0)
            return;
    }
    for (size_t i = 0; i < upload->place_count; i++) {
        bool again = i + 1 < upload->place_count &&
                     execd_place_same_directory(&upload->places[i], &upload->places[i + 1]);
        if (!again && execd_place_sync_directory(&upload->places[i], err) < 0)
            return;
    }
}

static void on_in_place(uv_work_t *work, int status)
{
    (void)status; /* never cancelled */
    struct upload *upload = CONTAINER_OF(work, struct upload, work);
    upload->working = false;
    if (upload->exchange == NULL)
        free_upload(upload);
    else if (upload->work_error.code != ERR_OK)
        fail(upload, &upload->work_error);
    else
        execd_reply_empty(upload->exchange);
}

static int check_pairs(struct upload *upload, struct error *err)
{
    if (upload->metadata_count == 0) {
        upload->invalid_code = "INVALID_FILE_METADATA";
        return error_set(err, ERR_INVALID, "there is no `metadata` part with a filename");
    }
    if (upload->file_count == 0) {
        upload->invalid_code = "INVALID_FILE_CONTENT";
        return error_set(err, ERR_INVALID, "there is no `file` part with a filename");
    }
    if (upload->metadata_count != upload->file_count)
        return error_set(err, ERR_INVALID, "there are %zu `metadata` parts but %zu `file` parts",
                         upload->metadata_count, upload->file_count);
    return 0;
}

/* --- the request ------------------------------------------------------------------------------ */

static void on_data(struct http_exchange *exchange, const char *bytes, size_t length, void *ctx)
{
    (void)exchange;
    struct upload *upload = ctx;
    struct error err = ERROR_INIT;
    if (!upload->failed && http_multipart_feed(upload->multipart, bytes, length, &err) < 0)
        fail(upload, &err);
}

static void on_end(struct http_exchange *exchange, void *ctx)
{
    struct upload *upload = ctx;
    struct error err = ERROR_INIT;
    if (upload->failed)
        return;
    if (http_multipart_end(upload->multipart, &err) < 0 || check_pairs(upload, &err) < 0) {
        fail(upload, &err);
        return;
    }
    upload->working = true;
    uv_queue_work(http_exchange_loop(exchange), &upload->work, put_into_place, on_in_place);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct upload *upload = ctx;
    upload->exchange = NULL;
    if (!upload->working)
        free_upload(upload);
}

void execd_files_handle_upload(struct http_exchange *exchange, const struct http_route_match *match,
                               void *ctx)
{
    (void)match;
    static const struct http_multipart_events part_events = {
        .on_part = on_part,
        .on_data = on_part_data,
        .on_part_end = on_part_end,
    };
    static const struct http_body_events body_events = {.on_data = on_data, .on_end = on_end};
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    const char *type = http_headers_find(headers, "Content-Type");
    struct upload *upload = mem_alloc(sizeof(*upload));
    struct error err = ERROR_INIT;
    upload->execd = ctx;
    upload->exchange = exchange;
    upload->invalid_code = "INVALID_FILE";
    buf_init(&upload->metadata, METADATA_MAX_BYTES);
    upload->multipart = http_multipart_new(type != NULL ? type : "", &part_events, upload, &err);
    if (upload->multipart == NULL) {
        execd_reply_failure(exchange, "INVALID_FILE", &err);
        free_upload(upload);
        return;
    }
    http_exchange_on_close(exchange, on_close, upload);
    http_exchange_read_body(exchange, &body_events, upload);
}
