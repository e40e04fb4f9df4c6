#include "execd/make_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

char *execd_parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? mem_dup("/") : mem_dup_n(path, (size_t)(slash - path));
}

/* Through a descriptor that can only be a directory: a user of the sandbox may put something else
 * under the name, and must not be given that. */
static int give_to(const char *path, const struct execd_owner *owner)
{
    if (owner->uid == (uid_t)-1 && owner->gid == (gid_t)-1)
        return 0;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fchown(fd, owner->uid, owner->gid) < 0 ? -errno : 0;
}

static int make_one(const char *path, const struct execd_owner *owner, size_t length,
                    size_t *made_from)
{
    if (mkdir(path, 0777) < 0)
        return errno == EEXIST ? 0 : -errno;
    if (*made_from == 0)
        *made_from = length;
    return give_to(path, owner);
}

/* ENOENT: a link that leads nowhere is in the way. */
static int make_error(struct error *err, int sys, const char *path)
{
    bool in_the_way = sys == ENOTDIR || sys == ENOENT;
    bool impossible = sys == ENAMETOOLONG || sys == ELOOP;
    return error_set(err,
                     in_the_way   ? ERR_CONFLICT
                     : impossible ? ERR_INVALID
                                  : ERR_INTERNAL,
                     "cannot make directory %.300s: %s", path,
                     in_the_way ? "something else is in the way" : strerror(sys));
}

/* Every prefix of the path in turn. */
static int make_all(char *path, const struct execd_owner *owner, size_t *made_from,
                    struct error *err)
{
    for (size_t i = 1;; i++) {
        char c = path[i];
        if (c != '/' && c != '\0')
            continue;
        path[i] = '\0';
        int r = make_one(path, owner, i, made_from);
        if (r < 0)
            return make_error(err, -r, path);
        path[i] = c;
        if (c == '\0')
            return 0;
    }
}

int execd_make_dirs(const char *path, const struct execd_owner *owner, size_t *ret_made_from,
                    struct error *err)
{
    struct stat st;
    *ret_made_from = 0;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode)
                   ? 0
                   : error_set(err, ERR_CONFLICT, "%.300s exists and is not a directory", path);
    AUTO_FREE char *copy = mem_dup(path);
    int r = make_all(copy, owner, ret_made_from, err);
    if (r == 0 && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
        r = make_error(err, ENOTDIR, path);
    if (r < 0) {
        execd_make_dirs_undo(path, *ret_made_from);
        *ret_made_from = 0;
    }
    return r;
}

void execd_make_dirs_undo(const char *path, size_t made_from)
{
    if (made_from == 0)
        return;
    AUTO_FREE char *copy = mem_dup(path);
    for (size_t length = strlen(copy); length >= made_from; length--) {
        if (copy[length] == '/' || copy[length] == '\0') {
            copy[length] = '\0';
            rmdir(copy); /* fails where somebody uses it, or where it was never made */
        }
    }
}

int execd_make_parents(const char *path, const struct execd_owner *owner, size_t *ret_made_from,
                       struct error *err)
{
    AUTO_FREE char *parent = execd_parent_of(path);
    return execd_make_dirs(parent, owner, ret_made_from, err);
}

void execd_make_parents_undo(const char *path, size_t made_from)
{
    AUTO_FREE char *parent = execd_parent_of(path);
    execd_make_dirs_undo(parent, made_from);
}
