/* What a file is, in words of the API: GET /files/info, and helpers of all file endpoints. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "execd/files.h"
#include "execd/work.h"
#include "http/json_string.h"

int execd_files_error(struct error *err, int sys, const char *path)
{
    enum error_code code = ERR_INTERNAL;
    if (sys == ENOENT || sys == ENOTDIR)
        code = ERR_NOT_FOUND;
    else if (sys == ENAMETOOLONG || sys == ELOOP || sys == EISDIR)
        code = ERR_INVALID;
    return error_set(err, code, "%.300s: %s", path, strerror(sys));
}

int execd_files_mode_from_digits(int64_t digits, mode_t *ret)
{
    if (digits < 0 || digits > 7777)
        return -EINVAL;
    mode_t mode = 0;
    for (int shift = 0; digits > 0; shift += 3, digits /= 10) {
        if (digits % 10 > 7)
            return -EINVAL;
        mode |= (mode_t)(digits % 10) << shift;
    }
    *ret = mode & 0777;
    return 0;
}

int64_t execd_files_mode_to_digits(mode_t mode)
{
    int64_t bits = mode;
    return (bits >> 6 & 7) * 100 + (bits >> 3 & 7) * 10 + (bits & 7);
}

static const char *type_name(mode_t mode)
{
    if (S_ISREG(mode))
        return "file";
    if (S_ISDIR(mode))
        return "directory";
    return S_ISLNK(mode) ? "symlink" : "other";
}

int execd_files_stat(int dir_fd, const char *name, struct statx *ret)
{
    int r = statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, ret);
    return r < 0 ? -errno : 0;
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void add_text(struct buf *out, const char *key, const char *text, size_t length)
{
    buf_add_str(out, key);
    http_json_add_string(out, text, length);
}

static void add_number(struct buf *out, const char *key, uint64_t number)
{
    buf_printf(out, "%s%llu", key, (unsigned long long)number);
}

static void add_time(struct buf *out, const char *key, const struct statx_timestamp *time)
{
    char text[CLOCK_RFC3339_MAX];
    clock_format_rfc3339_ns(time->tv_sec, time->tv_nsec, text);
    add_text(out, key, text, strlen(text));
}

static void add_name(struct buf *out, const char *key, struct execd_names *names,
                     enum execd_names_kind kind, uint32_t id)
{
    const char *name = execd_names_get(names, kind, id);
    add_text(out, key, name, strlen(name));
}

void execd_files_write_info(struct buf *out, struct execd_names *names, const char *path,
                            size_t path_length, const struct statx *st)
{
    /* Some file systems know no time of birth, and some of those say that they do. */
    bool born = (st->stx_mask & STATX_BTIME) != 0 && st->stx_btime.tv_sec != 0;
    const char *type = type_name(st->stx_mode);
    add_text(out, "{\"path\":", path, path_length);
    add_text(out, ",\"type\":", type, strlen(type));
    add_number(out, ",\"size\":", st->stx_size);
    add_time(out, ",\"modified_at\":", &st->stx_mtime);
    add_time(out, ",\"created_at\":", born ? &st->stx_btime : &st->stx_ctime);
    add_name(out, ",\"owner\":", names, EXECD_NAMES_USER, st->stx_uid);
    add_name(out, ",\"group\":", names, EXECD_NAMES_GROUP, st->stx_gid);
    add_number(out, ",\"mode\":", (uint64_t)execd_files_mode_to_digits(st->stx_mode));
    buf_add_char(out, '}');
}

/* --- GET /files/info -------------------------------------------------------------------------- */

static bool is_repeated(const struct execd_files_paths *paths, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(paths->items[i].requested, paths->items[index].requested) == 0)
            return true;
    }
    return false;
}

static int write_one(struct buf *out, struct execd_names *names,
                     const struct execd_files_path *item, struct error *err)
{
    struct statx st;
    int r = execd_files_stat(AT_FDCWD, item->path, &st);
    if (r < 0)
        return execd_files_error(err, -r, item->path);
    if (out->length > 1)
        buf_add_char(out, ',');
    add_text(out, "", item->requested, strlen(item->requested));
    buf_add_char(out, ':');
    execd_files_write_info(out, names, item->path, strlen(item->path), &st);
    return 0;
}

/* Keys of an object must be told apart, and those that are not UTF-8 could not be. */
static int check_key(const char *requested, struct error *err)
{
    return str_is_utf8(requested, strlen(requested))
               ? 0
               : error_set(err, ERR_INVALID, "the path %.300s is not UTF-8", requested);
}

static int describe_paths(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    (void)gone;
    const struct execd_files_paths *paths = ctx;
    struct execd_names names;
    execd_names_init(&names, &paths->users);
    int r = 0;
    buf_add_char(out, '{');
    for (size_t i = 0; i < paths->count && r == 0; i++) {
        r = check_key(paths->items[i].requested, err);
        if (r == 0 && !is_repeated(paths, i))
            r = write_one(out, &names, &paths->items[i], err);
    }
    buf_add_char(out, '}');
    execd_names_done(&names);
    return r;
}

void execd_files_handle_info(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {.step = describe_paths,
                                              .free = execd_files_paths_free,
                                              .invalid_code = "INVALID_REQUEST_BODY"};
    execd_files_start_paths(ctx, exchange, &ops);
}
