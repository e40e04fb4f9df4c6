#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"

#define READ_CHUNK 16384

/* Room for a chunk, or for the byte that proves the file too long. */
static ssize_t read_chunk(int fd, struct buf *buf)
{
    char probe;
    size_t room = MIN(buf->max - buf->length, (size_t)READ_CHUNK);
    if (room > 0)
        buf_reserve(buf, room);
    ssize_t n;
    do
        n = read(fd, room > 0 ? buf->data + buf->length : &probe, room > 0 ? room : 1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (room == 0 && n > 0)
        return -EMSGSIZE;
    buf_commit(buf, (size_t)n);
    return n;
}

/* O_NONBLOCK: a FIFO in the place of a file must not hang us. Sizes are not trusted (/proc and
 * /sys say 0), the end of the file decides. */
int file_read_at(int dir_fd, const char *path, struct buf *buf, struct error *err)
{
    AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open '%s'", path);
    size_t start = buf->length;
    ssize_t n;
    do
        n = read_chunk(fd, buf);
    while (n > 0);
    if (n == 0)
        return 0;
    if (buf->capacity > 0) {
        buf->length = start;
        buf->data[start] = '\0';
    }
    if (n == -EMSGSIZE)
        return error_set(err, ERR_LIMIT, "'%s' is larger than the %zu bytes allowed", path,
                         buf->max - start);
    return error_set_errno(err, (int)-n, "cannot read '%s'", path);
}

int file_write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t n = write(fd, at, length);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

/* The directory that holds `path`, open for fsync; *ret_name is the last component. */
static int open_parent(int dir_fd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash != NULL ? slash + 1 : path;
    AUTO_FREE char *parent = slash == NULL   ? mem_dup(".")
                             : slash == path ? mem_dup("/")
                                             : mem_dup_n(path, (size_t)(slash - path));
    int fd = openat(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* fchmod, because the umask would take bits from the mode given to openat. */
static int write_new(int parent_fd, const char *name, const void *bytes, size_t length, mode_t mode)
{
    AUTO_CLOSE int fd =
        openat(parent_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = file_write_all(fd, bytes, length);
    if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        r = -errno;
    if (r < 0)
        unlinkat(parent_fd, name, 0);
    return r;
}

int file_write_atomic_at(int dir_fd, const char *path, const void *bytes, size_t length,
                         mode_t mode, struct error *err)
{
    const char *name;
    AUTO_CLOSE int parent = open_parent(dir_fd, path, &name);
    if (parent < 0)
        return error_set_errno(err, -parent, "cannot open the directory of '%s'", path);
    char random[ID_HEX_LEN + 1];
    char temporary[sizeof(random) + 16];
    id_new_hex(random);
    snprintf(temporary, sizeof(temporary), ".tmp-%s", random);

    int r = write_new(parent, temporary, bytes, length, mode);
    if (r < 0)
        return error_set_errno(err, -r, "cannot write '%s'", path);
    if (renameat(parent, temporary, parent, name) < 0) {
        r = errno;
        unlinkat(parent, temporary, 0);
        return error_set_errno(err, r, "cannot replace '%s'", path);
    }
    /* Without this the rename itself may be lost with the power. */
    if (fsync(parent) < 0)
        return error_set_errno(err, errno, "cannot sync the directory of '%s'", path);
    return 0;
}

int file_make_dirs(const char *path, mode_t mode, struct error *err)
{
    AUTO_FREE char *prefix = mem_dup(path);
    size_t length = strlen(prefix);
    for (size_t i = 1; i <= length; i++) {
        if (prefix[i] != '/' && prefix[i] != '\0')
            continue;
        prefix[i] = '\0';
        /* Linux says EEXIST before EACCES or EROFS, so parents that are not ours do no harm. */
        if (mkdir(prefix, mode) < 0 && errno != EEXIST)
            return error_set_errno(err, errno, "cannot make directory '%s'", prefix);
        if (i < length)
            prefix[i] = '/';
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return error_set_errno(err, errno, "cannot make directory '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return error_set_errno(err, ENOTDIR, "cannot make directory '%s'", path);
    return 0;
}
