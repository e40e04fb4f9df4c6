/* GET /files/info, and helpers of all file endpoints. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execd/files.h"
#include "execd/paths.h"
#include "execd/reply.h"
#include "http/json.h"

int execd_files_resolve(const struct execd *execd, const char *path, char **ret, struct error *err)
{
    return execd_path_expand(path, &execd->env, execd->cwd, ret, err);
}

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

static json_t *name_or_number(char *name, uint32_t id)
{
    AUTO_FREE char *text = name != NULL ? name : mem_printf("%u", id);
    json_t *json = json_string(text);
    return json != NULL ? json : json_sprintf("%u", id); /* a name that is not UTF-8 */
}

static json_t *time_text(const struct statx_timestamp *time)
{
    char text[CLOCK_RFC3339_MAX];
    clock_format_rfc3339_ns(time->tv_sec, time->tv_nsec, text);
    return json_string(text);
}

/* Bytes that are not UTF-8 cannot be said in JSON; such a path is refused rather than changed. */
static json_t *describe(const struct execd *execd, const char *path, struct error *err)
{
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st) < 0) {
        execd_files_error(err, errno, path);
        return NULL;
    }
    /* Some file systems know no time of birth, and some of those say that they do. */
    bool born = (st.stx_mask & STATX_BTIME) != 0 && st.stx_btime.tv_sec != 0;
    const struct statx_timestamp *created = born ? &st.stx_btime : &st.stx_ctime;
    json_t *info = json_pack(
        "{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I}", "path", path, "type", type_name(st.stx_mode),
        "size", (json_int_t)st.stx_size, "modified_at", time_text(&st.stx_mtime), "created_at",
        time_text(created), "owner",
        name_or_number(execd_users_find_name(&execd->users, st.stx_uid), st.stx_uid), "group",
        name_or_number(execd_users_find_group_name(&execd->users, st.stx_gid), st.stx_gid), "mode",
        (json_int_t)execd_files_mode_to_digits(st.stx_mode));
    if (info == NULL)
        error_set(err, ERR_INVALID, "the path is not UTF-8");
    return info;
}

static int add_info(const struct execd *execd, json_t *all, const char *requested,
                    struct error *err)
{
    AUTO_FREE char *path = NULL;
    if (execd_files_resolve(execd, requested, &path, err) < 0)
        return -1;
    json_t *info = describe(execd, path, err);
    if (info == NULL)
        return -1;
    if (json_object_set_new(all, requested, info) < 0)
        return error_set(err, ERR_INVALID, "the path is not UTF-8");
    return 0;
}

void execd_files_handle_info(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    (void)match;
    struct execd *execd = ctx;
    struct url_query query;
    if (url_query_parse(http_exchange_query(exchange), &query) < 0) {
        http_exchange_reply_error(exchange, 400, "INVALID_REQUEST_BODY",
                                  "the query string is malformed or has over %d items",
                                  URL_QUERY_MAX);
        return;
    }
    struct error err = ERROR_INIT;
    json_t *all = json_object();
    int r = 0;
    for (size_t i = 0; i < query.count && r == 0; i++) {
        if (strcmp(query.items[i].name, "path") == 0)
            r = add_info(execd, all, query.items[i].value, &err);
    }
    url_query_done(&query);
    if (r == 0) {
        http_exchange_reply_json(exchange, 200, all);
        return;
    }
    json_decref(all);
    execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
}
