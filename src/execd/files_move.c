/* POST /files/mv. A move never replaces anything. To another file system it is a copy under a
 * temporary name, which takes its place at once when it is complete, and then the removal of the
 * source: so at every moment at least one of the two is whole. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "execd/files.h"
#include "execd/files_copy.h"
#include "execd/work.h"

/* Not every kernel and file system can refuse to replace: then we look before. 0 or -errno. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
        return -errno;
    struct stat st;
    if (lstat(to, &st) == 0)
        return -EEXIST;
    return rename(from, to) < 0 ? -errno : 0;
}

/* Data that only one file system has must be on its disk before the other loses it. */
static int sync_copy(const char *path)
{
    AUTO_FREE char *parent = execd_parent_of(path);
    AUTO_CLOSE int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || syncfs(fd) < 0 ? -errno : 0;
}

static int move_error(struct error *err, int sys, const char *from, const char *to)
{
    if (sys == EEXIST || sys == ENOTEMPTY)
        return error_set(err, ERR_CONFLICT, "cannot move %.150s: %.250s exists", from, to);
    if (sys == EINVAL)
        return error_set(err, ERR_INVALID, "cannot move %.150s into itself, to %.250s", from, to);
    enum error_code code = sys == EBUSY                          ? ERR_CONFLICT
                           : sys == ENAMETOOLONG || sys == ELOOP ? ERR_INVALID
                                                                 : ERR_INTERNAL;
    return error_set(err, code, "cannot move %.150s to %.250s: %s", from, to, strerror(sys));
}

static int copy_into_place(const char *from, const char *temp, const char *to,
                           const atomic_bool *gone, struct error *err)
{
    if (execd_copy_tree(from, temp, gone, err) < 0)
        return -1;
    int r = sync_copy(to);
    if (r == 0)
        r = rename_new(temp, to);
    return r < 0 ? move_error(err, -r, from, to) : 0;
}

static int move_by_copy(const char *from, const char *to, const atomic_bool *gone,
                        struct error *err)
{
    struct stat st;
    if (lstat(to, &st) == 0)
        return move_error(err, EEXIST, from, to);
    char id[ID_HEX_LEN + 1];
    id_new_hex(id);
    AUTO_FREE char *parent = execd_parent_of(to);
    AUTO_FREE char *temp = mem_printf("%s/.osb-%s", strcmp(parent, "/") == 0 ? "" : parent, id);
    if (copy_into_place(from, temp, to, gone, err) < 0) {
        file_remove_tree_at(AT_FDCWD, temp, NULL);
        return -1;
    }
    if (file_remove_tree_at(AT_FDCWD, from, err) < 0)
        return error_wrap(err, "%.150s was copied to %.150s but could not be removed", from, to);
    return 0;
}

static int move_one(const struct execd_files_job *job, size_t index, const atomic_bool *gone,
                    struct error *err)
{
    const char *from = job->paths[index];
    const char *to = job->dests[index];
    struct stat st;
    size_t made_from;
    if (lstat(from, &st) < 0)
        return execd_files_error(err, errno, from);
    if (execd_make_parents(to, &job->owner, &made_from, err) < 0)
        return -1;
    int r = rename_new(from, to);
    if (r == -EXDEV)
        r = move_by_copy(from, to, gone, err);
    else if (r < 0)
        move_error(err, -r, from, to);
    if (r < 0)
        execd_make_parents_undo(to, made_from);
    return r;
}

static int move_all(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    (void)out;
    const struct execd_files_job *job = ctx;
    for (size_t i = 0; i < job->body.count; i++) {
        if (move_one(job, i, gone, err) < 0)
            return -1;
    }
    return 0;
}

void execd_files_handle_move(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    (void)match;
    static const struct execd_work_ops ops = {
        .step = move_all, .free = execd_files_job_free, .invalid_code = "INVALID_REQUEST_BODY"};
    execd_files_collect_job(ctx, exchange, execd_body_parse_moves, false, &ops);
}
