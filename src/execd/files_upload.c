/* POST /files/upload: pairs of parts, the n-th `metadata` saying where the n-th `file` goes.
 *
 * The loop only collects what arrives; a thread of the work queue takes it apart and writes files
 * under temporary names, as a disk can make a writer wait for long. When the thread falls behind,
 * reading pauses. When the whole body is there and every pair is complete, all files are synced and
 * then all renamed: an upload that fails before the first rename, which is nearly every one that
 * fails, changes nothing. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "execd/files.h"
#include "execd/files_place.h"
#include "execd/paths.h"
#include "execd/reply.h"
#include "http/json.h"
#include "http/multipart.h"

#define METADATA_MAX_BYTES (64 * 1024)
#define ARRIVED_BYTES      (128 * 1024) /* waiting for the thread; reading pauses above this */
#define ARRIVED_MAX        (ARRIVED_BYTES + 64 * 1024)

enum part { PART_IGNORED, PART_METADATA, PART_FILE };

/* What the loop knows of an upload, and what the thread works with: the second is not touched by
 * the loop while `working`. */
struct upload {
    struct http_exchange *exchange; /* NULL once closed */
    struct buf arrived;
    bool paused;
    bool ended;   /* all of the body has arrived */
    bool working; /* the work queue has it */
    bool over;    /* answered; what still arrives is dropped */
    uv_work_t work;

    struct buf taken; /* being worked on */
    bool last;        /* nothing follows it */
    struct error err;
    const char *invalid_code; /* what a mistake of the client is called where we are */
    struct http_multipart *multipart;
    enum part part;
    struct buf metadata; /* of the current part */
    struct execd_place *places;
    size_t place_count; /* the larger of the two below */
    size_t metadata_count;
    size_t file_count;

    /* Of execd, which may change meanwhile. */
    struct execd_users users;
    struct execd_env env;
    char *cwd;
    struct execd_owner owner; /* of what is made */
    mode_t new_mode;
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
    buf_done(&upload->arrived);
    buf_done(&upload->taken);
    buf_done(&upload->metadata);
    execd_env_done(&upload->env);
    free(upload->cwd);
    free(upload);
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

static int read_permission(const struct upload *upload, const json_t *json,
                           struct execd_place *place, struct error *err)
{
    struct execd_permission permission;
    if (execd_body_read_permission(json, &permission, err) < 0)
        return -1;
    place->has_mode = permission.has_mode;
    place->mode = permission.mode;
    return execd_files_find_owner(&upload->users, &permission, &place->owner, err);
}

static int read_target(const struct upload *upload, const json_t *json, struct execd_place *place,
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
    if (read_permission(upload, json, place, err) < 0 ||
        execd_path_expand(requested, &upload->env, upload->cwd, &path, err) < 0)
        return -1;
    place->new_owner = upload->owner;
    place->new_mode = upload->new_mode;
    return execd_place_set_target(place, path, err);
}

static int finish_metadata(struct upload *upload, struct error *err)
{
    upload->invalid_code = "INVALID_FILE_METADATA";
    json_t *json = http_json_parse(upload->metadata.data, upload->metadata.length, err);
    if (json == NULL)
        return -1;
    struct execd_place *place = get_place(upload, upload->metadata_count++);
    int r = read_target(upload, json, place, err);
    json_decref(json);
    buf_clear(&upload->metadata);
    if (r == 0)
        upload->invalid_code = "INVALID_FILE";
    return r;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Where a file waits for its metadata. An image may have no /tmp. */
static const char *find_spool(const struct upload *upload)
{
    const char *const places[] = {execd_env_find(&upload->env, "TMPDIR"), "/tmp", "/var/tmp",
                                  "/dev/shm", "/"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (places[i] != NULL && places[i][0] == '/' && access(places[i], W_OK | X_OK) == 0)
            return places[i];
    }
    return "/tmp";
}

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
    struct execd_place *place = get_place(upload, upload->file_count++);
    return execd_place_open(place, find_spool(upload), err);
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

static int put_into_place(struct upload *upload, struct error *err)
{
    for (size_t i = 0; i < upload->place_count; i++) {
        if (execd_place_sync(&upload->places[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < upload->place_count; i++) {
        if (execd_place_commit(&upload->places[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < upload->place_count; i++) {
        bool again = i + 1 < upload->place_count &&
                     execd_place_same_directory(&upload->places[i], &upload->places[i + 1]);
        if (!again && execd_place_sync_directory(&upload->places[i], err) < 0)
            return -1;
    }
    return 0;
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

static int take_in(struct upload *upload, struct error *err)
{
    if (http_multipart_feed(upload->multipart, upload->taken.data, upload->taken.length, err) < 0)
        return -1;
    if (!upload->last)
        return 0;
    if (http_multipart_end(upload->multipart, err) < 0 || check_pairs(upload, err) < 0)
        return -1;
    return put_into_place(upload, err);
}

/* On a thread of the work queue. */
static void work(uv_work_t *request)
{
    struct upload *upload = CONTAINER_OF(request, struct upload, work);
    if (take_in(upload, &upload->err) < 0)
        discard_places(upload); /* before the client can look */
}

/* --- the request ------------------------------------------------------------------------------ */

static void on_worked(uv_work_t *request, int status);

/* Give the thread what has arrived, or the end. */
static void go_on(struct upload *upload)
{
    if (upload->working || upload->over || (upload->arrived.length == 0 && !upload->ended))
        return;
    struct buf empty = upload->taken;
    upload->taken = upload->arrived;
    upload->arrived = empty;
    upload->last = upload->ended;
    upload->working = true;
    uv_queue_work(http_exchange_loop(upload->exchange), &upload->work, work, on_worked);
    if (upload->paused) {
        upload->paused = false;
        http_exchange_resume_body(upload->exchange);
    }
}

static void on_worked(uv_work_t *request, int status)
{
    (void)status; /* never cancelled */
    struct upload *upload = CONTAINER_OF(request, struct upload, work);
    upload->working = false;
    buf_clear(&upload->taken);
    if (upload->exchange == NULL) {
        free_upload(upload);
        return;
    }
    upload->over = upload->last || upload->err.code != ERR_OK;
    if (upload->err.code != ERR_OK)
        execd_reply_failure(upload->exchange, upload->invalid_code, &upload->err);
    else if (upload->last)
        execd_reply_empty(upload->exchange);
    else
        go_on(upload);
}

static void on_data(struct http_exchange *exchange, const char *bytes, size_t length, void *ctx)
{
    struct upload *upload = ctx;
    if (upload->over)
        return;
    if (buf_add(&upload->arrived, bytes, length) < 0) {
        http_exchange_abort(exchange); /* cannot be: reading pauses before */
        return;
    }
    go_on(upload);
    if (upload->arrived.length > ARRIVED_BYTES) {
        upload->paused = true;
        http_exchange_pause_body(exchange);
    }
}

static void on_end(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct upload *upload = ctx;
    upload->ended = true;
    go_on(upload);
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

static struct upload *new_upload(const struct execd *execd, struct http_exchange *exchange)
{
    struct upload *upload = mem_alloc(sizeof(*upload));
    upload->exchange = exchange;
    upload->invalid_code = "INVALID_FILE";
    buf_init(&upload->arrived, ARRIVED_MAX);
    buf_init(&upload->taken, ARRIVED_MAX);
    buf_init(&upload->metadata, METADATA_MAX_BYTES);
    upload->users = execd->users;
    execd_env_init(&upload->env);
    execd_env_copy(&upload->env, &execd->env);
    upload->cwd = mem_dup(execd->cwd);
    upload->owner = execd_files_owner(execd);
    upload->new_mode = 0777 & ~execd->umask;
    return upload;
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
    struct upload *upload = new_upload(ctx, exchange);
    struct error err = ERROR_INIT;
    upload->multipart = http_multipart_new(type != NULL ? type : "", &part_events, upload, &err);
    if (upload->multipart == NULL) {
        execd_reply_failure(exchange, "INVALID_FILE", &err);
        free_upload(upload);
        return;
    }
    http_exchange_on_close(exchange, on_close, upload);
    http_exchange_read_body(exchange, &body_events, upload);
}
