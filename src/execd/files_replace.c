/* POST /files/replace: literal replacement in files of any size.
 *
 * A file is read once. Until the first occurrence nothing is written; then the part before it is
 * copied, and the rest of the result follows it into a temporary file that takes the place of the
 * old one. A file without an occurrence is not touched. */
#include "execd/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/files.h"
#include "execd/files_place.h"
#include "execd/reply.h"
#include "execd/request.h"
#include "execd/work.h"
#include "http/json_string.h"

#define PIECE_BYTES (64 * 1024)

struct file {
    int fd;
    uint64_t passed; /* bytes before the first occurrence */
    struct execd_replace replace;
    struct execd_place place;
    struct error *err;
};

static int copy_passed(struct file *file, char *bytes)
{
    uint64_t offset = 0;
    while (offset < file->passed) {
        size_t wanted = MIN(file->passed - offset, (uint64_t)PIECE_BYTES);
        ssize_t n = pread(file->fd, bytes, wanted, (off_t)offset);
        if (n <= 0)
            return error_set(file->err, ERR_INTERNAL, "cannot read %.300s: %s", file->place.path,
                             n < 0 ? strerror(errno) : "it became shorter");
        if (execd_place_write(&file->place, bytes, (size_t)n, file->err) < 0)
            return -1;
        offset += (uint64_t)n;
    }
    return 0;
}

static int begin_result(struct file *file)
{
    if (execd_place_open(&file->place, NULL, file->err) < 0)
        return -1;
    AUTO_FREE char *bytes = mem_alloc(PIECE_BYTES);
    return copy_passed(file, bytes);
}

static int on_result(void *ctx, const char *bytes, size_t length)
{
    struct file *file = ctx;
    if (file->replace.count == 0) {
        file->passed += length;
        return 0;
    }
    if (file->place.temp == NULL && begin_result(file) < 0)
        return -1;
    return execd_place_write(&file->place, bytes, length, file->err);
}

static int pass_file(struct file *file, const atomic_bool *gone, struct error *err)
{
    AUTO_FREE char *bytes = mem_alloc(PIECE_BYTES);
    for (;;) {
        if (atomic_load(gone))
            return error_set(err, ERR_UNAVAILABLE, "nobody waits for the answer");
        ssize_t n = read(file->fd, bytes, PIECE_BYTES);
        if (n < 0)
            return error_set(err, ERR_INTERNAL, "cannot read %.300s: %s", file->place.path,
                             strerror(errno));
        int r = n == 0 ? execd_replace_finish(&file->replace)
                       : execd_replace_feed(&file->replace, bytes, (size_t)n);
        if (n == 0 || r < 0)
            return r;
    }
}

static int put_in_place(struct file *file, struct error *err)
{
    if (file->replace.count == 0)
        return 0;
    execd_place_close(&file->place);
    if (execd_place_sync(&file->place, err) < 0 || execd_place_commit(&file->place, err) < 0)
        return -1;
    return execd_place_sync_directory(&file->place, err);
}

static int open_target(struct execd_place *place, const char *path, struct error *err)
{
    if (execd_place_set_target(place, path, err) < 0)
        return -1;
    int fd = open(place->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? execd_files_error(err, errno, path) : fd;
}

static int replace_in_file(const char *path, const struct execd_body_item *item,
                           const atomic_bool *gone, uint64_t *ret_count, struct error *err)
{
    struct file file = {.err = err};
    execd_place_init(&file.place);
    file.fd = open_target(&file.place, path, err);
    int r = file.fd < 0 ? -1 : 0;
    if (r == 0) {
        file.replace = (struct execd_replace){
            .old_text = item->old_text,
            .old_length = item->old_length,
            .new_text = item->new_text,
            .new_length = item->new_length,
            .out = on_result,
            .ctx = &file,
        };
        execd_replace_init(&file.replace);
        r = pass_file(&file, gone, err);
        if (r == 0)
            r = put_in_place(&file, err);
        *ret_count = file.replace.count;
        execd_replace_done(&file.replace);
    }
    fd_close(file.fd);
    execd_place_discard(&file.place);
    return r;
}

static void write_count(struct buf *out, const char *path, uint64_t count)
{
    if (out->length > 1)
        buf_add_char(out, ',');
    http_json_add_string(out, path, strlen(path));
    buf_printf(out, ":{\"replacedCount\":%llu}", (unsigned long long)count);
}

static int replace_all(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    const struct execd_files_job *job = ctx;
    buf_add_char(out, '{');
    for (size_t i = 0; i < job->body.count; i++) {
        const struct execd_body_item *item = &job->body.items[i];
        uint64_t count = 0;
        if (replace_in_file(job->paths[i], item, gone, &count, err) < 0)
            return -1;
        if (job->verbose)
            write_count(out, item->path, count);
    }
    buf_add_char(out, '}');
    return 0;
}

static bool read_verbose(struct http_exchange *exchange, bool *ret)
{
    struct url_query query;
    if (!execd_request_query(exchange, &query))
        return false;
    const char *text = url_query_find(&query, "verbose");
    *ret = str_equal(text, "true") || str_equal(text, "1");
    bool valid = *ret || text == NULL || *text == '\0' || strcmp(text, "false") == 0 ||
                 strcmp(text, "0") == 0;
    if (!valid)
        http_exchange_reply_error(exchange, 400, "INVALID_REQUEST_BODY",
                                  "`verbose` must be true or false, not \"%.40s\"", text);
    url_query_done(&query);
    return valid;
}

void execd_files_handle_replace(struct http_exchange *exchange,
                                const struct http_route_match *match, void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {
        .step = replace_all, .free = execd_files_job_free, .invalid_code = "INVALID_REQUEST_BODY"};
    bool verbose;
    if (read_verbose(exchange, &verbose))
        execd_files_collect_job(ctx, exchange, execd_body_parse_replacements, verbose, &ops);
}
