/* POST /directories and DELETE /directories; listing is in files_list.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "execd/files.h"
#include "execd/work.h"

/* --- make ------------------------------------------------------------------------------------- */

/* Through a descriptor, as users of the sandbox may have put something else under the name. */
static int apply(const char *path, const struct execd_permission *permission,
                 const struct execd_owner *owner)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    bool given = owner->uid != (uid_t)-1 || owner->gid != (gid_t)-1;
    if (given && fchown(fd, owner->uid, owner->gid) < 0)
        return -errno;
    return permission->has_mode && fchmod(fd, permission->mode) < 0 ? -errno : 0;
}

static int make_one(const struct execd_files_job *job, size_t index,
                    const struct execd_owner *owner, struct error *err)
{
    const char *path = job->paths[index];
    size_t made_from;
    if (execd_make_dirs(path, &job->owner, &made_from, err) < 0)
        return -1;
    if (made_from == 0)
        return 0; /* it was there, and stays as it is */
    int r = apply(path, &job->body.items[index].permission, owner);
    if (r == 0)
        return 0;
    execd_make_dirs_undo(path, made_from);
    return error_set(err, ERR_INTERNAL, "cannot set owner or mode of %.300s: %s", path,
                     strerror(-r));
}

static int make_all(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    (void)gone;
    (void)out;
    const struct execd_files_job *job = ctx;
    size_t count = job->body.count;
    AUTO_FREE struct execd_owner *owners = mem_alloc_array(count + 1, sizeof(*owners));
    for (size_t i = 0; i < count; i++) {
        if (execd_files_find_owner(&job->users, &job->body.items[i].permission, &owners[i], err) <
            0)
            return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (make_one(job, i, &owners[i], err) < 0)
            return -1;
    }
    return 0;
}

void execd_directories_handle_make(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {
        .step = make_all, .free = execd_files_job_free, .invalid_code = "INVALID_REQUEST_BODY"};
    execd_files_collect_job(ctx, exchange, execd_body_parse_permissions, false, &ops);
}

/* --- delete ----------------------------------------------------------------------------------- */

static int delete_one(const char *path, struct error *err)
{
    if (strcmp(path, "/") == 0)
        return error_set(err, ERR_INVALID, "\"/\" cannot be deleted");
    int r = file_remove_tree_at(AT_FDCWD, path, err);
    if (r == 0 || err->sys == ENOTDIR) /* below a file there is nothing */
        return 0;
    if (err->sys == EXDEV || err->sys == EBUSY)
        return error_set(err, ERR_CONFLICT, "%.300s is or contains a mount point, which stays",
                         path);
    return r;
}

/* Goes on when nobody waits any more: half a tree is of no use to anybody. */
static int delete_all(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    (void)gone;
    (void)out;
    const struct execd_files_paths *paths = ctx;
    for (size_t i = 0; i < paths->count; i++) {
        if (delete_one(paths->items[i].path, err) < 0)
            return -1;
        *err = (struct error)ERROR_INIT;
    }
    return 0;
}

void execd_directories_handle_delete(struct http_exchange *exchange,
                                     const struct http_route_match *match, void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {
        .step = delete_all, .free = execd_files_paths_free, .invalid_code = "INVALID_REQUEST_BODY"};
    execd_files_start_paths(ctx, exchange, &ops);
}
