/* Users of the sandbox may change what is copied, and may own the directory that it is copied to.
 * The source is only ever opened name by name without following links. The copy's top is a
 * directory of mode 0700 of ours until all is done, so that the paths in it cannot be bent. */
#include "execd/files_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "execd/make_dirs.h"
#include "execd/walk.h"

#define TURN_BYTES  (1024 * 1024) /* between two looks at `gone` */
#define PIECE_BYTES (32 * 1024)

/* --- data ------------------------------------------------------------------------------------- */

/* One turn where sendfile() cannot serve: *offset is moved. */
static ssize_t copy_piece(int from, int to, off_t *offset, size_t length)
{
    char bytes[PIECE_BYTES];
    ssize_t n = pread(from, bytes, MIN(length, sizeof(bytes)), *offset);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    int r = file_write_all(to, bytes, (size_t)n);
    if (r < 0)
        return r;
    *offset += n;
    return n;
}

/* Up to `end` or the end of the file, whichever is first; `to` stands at *offset. */
static int copy_range(int from, int to, off_t *offset, off_t end, const atomic_bool *gone)
{
    while (*offset < end) {
        if (gone != NULL && atomic_load(gone))
            return -ECANCELED;
        size_t length = (size_t)MIN(end - *offset, (off_t)TURN_BYTES);
        ssize_t n = sendfile(to, from, offset, length);
        if (n < 0) /* not for these files, or for a reason that will show again */
            n = copy_piece(from, to, offset, length);
        if (n <= 0)
            return (int)n;
    }
    return 0;
}

/* The next data at or behind `offset`; the end of the file when there is none. */
static off_t next_data(int fd, off_t offset, off_t size)
{
    off_t data = lseek(fd, offset, SEEK_DATA);
    if (data >= 0)
        return MIN(data, size);
    return errno == ENXIO ? size : offset;
}

static off_t next_hole(int fd, off_t offset, off_t size)
{
    off_t hole = lseek(fd, offset, SEEK_HOLE);
    return hole > offset ? MIN(hole, size) : size;
}

int execd_copy_data(int from, int to, const atomic_bool *gone)
{
    struct stat st;
    if (fstat(from, &st) < 0)
        return -errno;
    off_t offset = 0;
    while (offset < st.st_size) {
        off_t data = next_data(from, offset, st.st_size);
        off_t hole = data < st.st_size ? next_hole(from, data, st.st_size) : data;
        if (lseek(to, data, SEEK_SET) < 0)
            return -errno;
        offset = data;
        int r = copy_range(from, to, &offset, hole, gone);
        if (r < 0)
            return r;
        if (offset < hole)
            return -EAGAIN; /* it shrinks while we read */
    }
    /* It may have a hole at its end, or it may have grown, or be of the kind that says 0. */
    if (ftruncate(to, offset) < 0 || lseek(to, offset, SEEK_SET) < 0)
        return -errno;
    return copy_range(from, to, &offset, INT64_MAX, gone);
}

/* --- one entry -------------------------------------------------------------------------------- */

struct names {
    int from_fd;
    const char *from;
    int to_fd;
    const char *to;
};

/* Owner before mode: a change of owner takes set-id bits away. */
static int copy_attributes(int fd, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    struct stat now;
    if (fstat(fd, &now) < 0)
        return -errno;
    bool same = now.st_uid == st->st_uid && now.st_gid == st->st_gid;
    if (!same && fchown(fd, st->st_uid, st->st_gid) < 0)
        return -errno;
    if (fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
        return -errno;
    return 0;
}

static int copy_file(const struct names *names, const atomic_bool *gone)
{
    AUTO_CLOSE int from =
        openat(names->from_fd, names->from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (from < 0 || fstat(from, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EAGAIN; /* replaced since it was looked at */
    AUTO_CLOSE int to =
        openat(names->to_fd, names->to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int r = execd_copy_data(from, to, gone);
    return r < 0 ? r : copy_attributes(to, &st);
}

static int copy_link(const struct names *names, const struct stat *st)
{
    char target[PATH_MAX];
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    ssize_t n = readlinkat(names->from_fd, names->from, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, names->to_fd, names->to) < 0 ||
        fchownat(names->to_fd, names->to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(names->to_fd, names->to, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* FIFOs, sockets, devices (which only root may make). */
static int copy_node(const struct names *names, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    if (mknodat(names->to_fd, names->to, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0 ||
        fchownat(names->to_fd, names->to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(names->to_fd, names->to, st->st_mode & 07777, 0) < 0 ||
        utimensat(names->to_fd, names->to, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int copy_entry(const struct names *names, const struct stat *st, const atomic_bool *gone)
{
    if (S_ISREG(st->st_mode))
        return copy_file(names, gone);
    if (S_ISLNK(st->st_mode))
        return copy_link(names, st);
    if (S_ISDIR(st->st_mode))
        return mkdirat(names->to_fd, names->to, 0700) < 0 ? -errno : 0;
    return copy_node(names, st);
}

/* --- trees ------------------------------------------------------------------------------------ */

#define OPEN_DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A directory whose content is complete gets its attributes: content changes times, and the mode
 * may forbid adding. */
static int finish_directory(int to_fd, const char *to, const struct stat *st)
{
    AUTO_CLOSE int fd = openat(to_fd, to, OPEN_DIRECTORY);
    return fd < 0 ? -errno : copy_attributes(fd, st);
}

static int copy_walked(struct execd_walk *walk, const struct execd_walk_entry *entry, int to_fd,
                       const atomic_bool *gone, struct error *err)
{
    struct names names = {entry->dir_fd, entry->name, to_fd, entry->relative};
    struct stat st;
    int r = fstatat(entry->dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == 0 && entry->leaving)
        r = finish_directory(to_fd, entry->relative, &st);
    else if (r == 0)
        r = copy_entry(&names, &st, gone);
    if (r < 0)
        return error_set(err, ERR_INTERNAL, "cannot copy %.300s: %s", entry->path, strerror(-r));
    if (entry->leaving || !S_ISDIR(st.st_mode))
        return 0;
    r = execd_walk_enter(walk, false, err);
    if (r == 0)
        return error_set(err, ERR_CONFLICT, "%.300s was moved meanwhile", entry->path);
    return r < 0 ? r : 0;
}

static int copy_content(int from_fd, const char *from, int to_fd, const atomic_bool *gone,
                        struct error *err)
{
    struct execd_walk *walk = execd_walk_new(from_fd, from, true, gone);
    struct execd_walk_entry entry;
    int r;
    while ((r = execd_walk_next(walk, &entry, err)) > 0) {
        r = copy_walked(walk, &entry, to_fd, gone, err);
        if (r < 0)
            break;
    }
    execd_walk_free(walk);
    return r;
}

int execd_copy_tree(const char *from, const char *to, const atomic_bool *gone, struct error *err)
{
    struct names names = {AT_FDCWD, from, AT_FDCWD, to};
    struct stat st;
    int r = lstat(from, &st) < 0 ? -errno : copy_entry(&names, &st, gone);
    if (r < 0)
        return error_set(err, ERR_INTERNAL, "cannot copy %.300s: %s", from, strerror(-r));
    if (!S_ISDIR(st.st_mode))
        return 0;
    AUTO_CLOSE int to_fd = open(to, OPEN_DIRECTORY);
    int from_fd = to_fd < 0 ? -1 : open(from, OPEN_DIRECTORY);
    if (from_fd < 0)
        return error_set(err, ERR_INTERNAL, "cannot copy %.300s: %s", from, strerror(errno));
    if (copy_content(from_fd, from, to_fd, gone, err) < 0)
        return -1;
    r = copy_attributes(to_fd, &st);
    return r < 0 ? error_set(err, ERR_INTERNAL, "cannot set owner, mode or times of %.300s: %s", to,
                             strerror(-r))
                 : 0;
}
