/* POST /files/permissions and DELETE /files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "execd/files.h"
#include "execd/work.h"

/* --- permissions ------------------------------------------------------------------------------ */

static int apply(const char *path, const struct execd_permission *permission,
                 const struct execd_owner *owner, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return execd_files_error(err, errno, path);
    bool given = owner->uid != (uid_t)-1 || owner->gid != (gid_t)-1;
    if (given && chown(path, owner->uid, owner->gid) < 0) {
        execd_files_error(err, errno, path);
        return error_wrap(err, "cannot change owner or group");
    }
    /* After chown, which takes set-id bits away. */
    if (permission->has_mode && chmod(path, permission->mode) < 0) {
        execd_files_error(err, errno, path);
        return error_wrap(err, "cannot change mode");
    }
    return 0;
}

/* What can be known to be wrong is found before anything is changed. */
static int change_permissions(void *ctx, const atomic_bool *gone, struct buf *out,
                              struct error *err)
{
    (void)gone;
    (void)out;
    const struct execd_files_job *job = ctx;
    size_t count = job->body.count;
    AUTO_FREE struct execd_owner *owners = mem_alloc_array(count + 1, sizeof(*owners));
    for (size_t i = 0; i < count; i++) {
        struct stat st;
        if (execd_files_find_owner(&job->users, &job->body.items[i].permission, &owners[i], err) <
            0)
            return -1;
        if (stat(job->paths[i], &st) < 0)
            return execd_files_error(err, errno, job->paths[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (apply(job->paths[i], &job->body.items[i].permission, &owners[i], err) < 0)
            return -1;
    }
    return 0;
}

void execd_files_handle_permissions(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {.step = change_permissions,
                                              .free = execd_files_job_free,
                                              .invalid_code = "INVALID_REQUEST_BODY"};
    execd_files_collect_job(ctx, exchange, execd_body_parse_permissions, false, &ops);
}

/* --- delete ----------------------------------------------------------------------------------- */

/* Published clients know of no status but 500 here, so that is what a directory gets. */
static int delete_files(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    (void)gone;
    (void)out;
    const struct execd_files_paths *paths = ctx;
    for (size_t i = 0; i < paths->count; i++) {
        const char *path = paths->items[i].path;
        if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
            continue;
        if (errno == EISDIR)
            return error_set(err, ERR_INTERNAL,
                             "%.300s is a directory: DELETE /directories removes those", path);
        return execd_files_error(err, errno, path);
    }
    return 0;
}

void execd_files_handle_delete(struct http_exchange *exchange, const struct http_route_match *match,
                               void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {.step = delete_files,
                                              .free = execd_files_paths_free,
                                              .invalid_code = "INVALID_REQUEST_BODY"};
    execd_files_start_paths(ctx, exchange, &ops);
}
