#include "execd/files_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "execd/files.h"
#include "execd/files_copy.h"

#define LINKS_MAX 40 /* as the kernel */

void execd_place_init(struct execd_place *place)
{
    *place =
        (struct execd_place){.owner = EXECD_OWNER_LEAVE, .new_owner = EXECD_OWNER_LEAVE, .fd = -1};
}

/* --- target ----------------------------------------------------------------------------------- */

static char *follow_link(const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    if (n < 0)
        return NULL;
    target[n] = '\0';
    if (target[0] == '/')
        return mem_dup(target);
    AUTO_FREE char *directory = execd_parent_of(path);
    return mem_printf("%s/%s", directory, target);
}

int execd_place_set_target(struct execd_place *place, const char *path, struct error *err)
{
    AUTO_FREE char *current = mem_dup(path);
    for (int links = 0; links <= LINKS_MAX; links++) {
        struct stat st;
        bool exists = lstat(current, &st) == 0;
        if (!exists && errno == ENOTDIR)
            return error_set(err, ERR_INVALID, "%.300s: %s", current, strerror(ENOTDIR));
        if (!exists && errno != ENOENT)
            return execd_files_error(err, errno, current);
        if (exists && S_ISLNK(st.st_mode)) {
            char *next = follow_link(current);
            if (next == NULL)
                return execd_files_error(err, errno, current);
            free(current);
            current = next;
            continue;
        }
        if (exists && !S_ISREG(st.st_mode))
            return error_set(err, ERR_INVALID, "%.300s is %s", current,
                             S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
        place->path = TAKE_PTR(current);
        return 0;
    }
    return execd_files_error(err, ELOOP, path);
}

/* --- data ------------------------------------------------------------------------------------- */

/* A new file of our own in `directory`; fills temp, its identity and fd. */
static int make_temp(struct execd_place *place, const char *directory, struct error *err)
{
    char id[ID_HEX_LEN + 1];
    id_new_hex(id);
    AUTO_FREE char *path =
        mem_printf("%s/.osb-%s", strcmp(directory, "/") == 0 ? "" : directory, id);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, ERR_INTERNAL, "cannot make a file in %.300s: %s", directory,
                         strerror(errno));
    place->temp = TAKE_PTR(path);
    place->temp_device = st.st_dev;
    place->temp_inode = st.st_ino;
    place->fd = TAKE_FD(fd);
    return 0;
}

static int open_beside_target(struct execd_place *place, struct error *err)
{
    if (execd_make_parents(place->path, &place->new_owner, &place->made_from, err) < 0)
        return -1;
    AUTO_FREE char *directory = execd_parent_of(place->path);
    return make_temp(place, directory, err);
}

int execd_place_open(struct execd_place *place, const char *spool, struct error *err)
{
    if (place->path != NULL)
        return open_beside_target(place, err);
    place->spooled = true;
    return make_temp(place, spool, err);
}

int execd_place_write(struct execd_place *place, const char *bytes, size_t length,
                      struct error *err)
{
    int r = file_write_all(place->fd, bytes, length);
    if (r < 0)
        return error_set(err, ERR_INTERNAL, "cannot write %.300s: %s",
                         place->path != NULL ? place->path : place->temp, strerror(-r));
    return 0;
}

void execd_place_close(struct execd_place *place)
{
    place->fd = fd_close(place->fd);
}

/* --- into place ------------------------------------------------------------------------------- */

/* The temporary file again, and no other: between close and now, users of the sandbox who may write
 * to the directory could have put something else under its name. */
static int reopen_temp(const struct execd_place *place, struct error *err)
{
    if (place->temp == NULL)
        return error_set(err, ERR_INTERNAL, "%.300s has no data", place->path);
    AUTO_CLOSE int fd = open(place->temp, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, ERR_INTERNAL, "%.300s: %s", place->temp, strerror(errno));
    if (st.st_dev != place->temp_device || st.st_ino != place->temp_inode)
        return error_set(err, ERR_INTERNAL, "%.300s was replaced by somebody else", place->temp);
    return TAKE_FD(fd);
}

/* The data waited in the spool: move it beside its target. */
static int leave_spool(struct execd_place *place, struct error *err)
{
    AUTO_CLOSE int from = reopen_temp(place, err);
    if (from < 0)
        return -1;
    AUTO_FREE char *old = TAKE_PTR(place->temp);
    place->spooled = false;
    int r = open_beside_target(place, err);
    if (r == 0) {
        r = execd_copy_data(from, place->fd, NULL);
        if (r < 0)
            error_set(err, ERR_INTERNAL, "cannot write %.300s: %s", place->path, strerror(-r));
    }
    execd_place_close(place);
    unlink(old);
    return r;
}

/* Like writing into the old file would: it keeps owner and mode unless others are asked for. */
static int apply_attributes(const struct execd_place *place, int fd)
{
    struct stat old;
    mode_t mode = place->new_mode;
    struct execd_owner owner = place->new_owner;
    if (stat(place->path, &old) == 0) {
        mode = old.st_mode & 07777;
        owner = (struct execd_owner){.uid = old.st_uid, .gid = old.st_gid};
    }
    if (place->has_mode)
        mode = place->mode;
    if (place->owner.uid != (uid_t)-1)
        owner.uid = place->owner.uid;
    if (place->owner.gid != (gid_t)-1)
        owner.gid = place->owner.gid;
    struct stat now;
    if (fstat(fd, &now) < 0)
        return -errno;
    bool same_uid = owner.uid == (uid_t)-1 || owner.uid == now.st_uid;
    bool same_gid = owner.gid == (gid_t)-1 || owner.gid == now.st_gid;
    if (!(same_uid && same_gid) && fchown(fd, owner.uid, owner.gid) < 0)
        return -errno;
    return fchmod(fd, mode) < 0 ? -errno : 0; /* last: chown clears set-id bits */
}

int execd_place_sync(struct execd_place *place, struct error *err)
{
    if (place->spooled && leave_spool(place, err) < 0)
        return -1;
    AUTO_CLOSE int fd = reopen_temp(place, err);
    if (fd < 0)
        return -1;
    int r = apply_attributes(place, fd);
    if (r < 0)
        return error_set(err, ERR_INTERNAL, "cannot set owner or mode of %.300s: %s", place->path,
                         strerror(-r));
    if (fsync(fd) < 0)
        return error_set(err, ERR_INTERNAL, "cannot write %.300s: %s", place->path,
                         strerror(errno));
    return 0;
}

/* A file that is a mount of its own, as containers have for /etc/hosts, cannot be replaced. */
static int write_in_place(struct execd_place *place, struct error *err)
{
    AUTO_CLOSE int from = reopen_temp(place, err);
    if (from < 0)
        return -1;
    AUTO_CLOSE int to = open(place->path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    int r = to < 0 ? -errno : execd_copy_data(from, to, NULL);
    if (r == 0)
        r = apply_attributes(place, to);
    if (r == 0 && fsync(to) < 0)
        r = -errno;
    if (r < 0)
        return error_set(err, ERR_INTERNAL, "cannot write %.300s: %s", place->path, strerror(-r));
    unlink(place->temp);
    return 0;
}

int execd_place_commit(struct execd_place *place, struct error *err)
{
    if (rename(place->temp, place->path) < 0) {
        if (errno != EBUSY)
            return error_set(err, ERR_INTERNAL, "cannot replace %.300s: %s", place->path,
                             strerror(errno));
        if (write_in_place(place, err) < 0)
            return -1;
    }
    free(TAKE_PTR(place->temp));
    place->made_from = 0;
    return 0;
}

int execd_place_sync_directory(const struct execd_place *place, struct error *err)
{
    AUTO_FREE char *path = execd_parent_of(place->path);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return error_set(err, ERR_INTERNAL, "cannot sync %.300s: %s", path, strerror(errno));
    return 0;
}

bool execd_place_same_directory(const struct execd_place *a, const struct execd_place *b)
{
    AUTO_FREE char *a_path = execd_parent_of(a->path);
    AUTO_FREE char *b_path = execd_parent_of(b->path);
    return strcmp(a_path, b_path) == 0;
}

void execd_place_discard(struct execd_place *place)
{
    execd_place_close(place);
    if (place->temp != NULL)
        unlink(place->temp);
    if (place->path != NULL)
        execd_make_parents_undo(place->path, place->made_from);
    free(TAKE_PTR(place->temp));
    free(TAKE_PTR(place->path));
}
