#include "launcher/copy.h"

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
#include "base/str.h"

#define DEPTH_MAX 32

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, unsigned depth,
                      struct copy_budget *budget, struct error *err);

/* A link cannot change, so one more name of the same will do if it is ours: there are hundreds of
 * them, and a new file costs a disk far more than a name. */
static int copy_link(int from_fd, const char *from, int to_fd, const char *to,
                     const struct stat *st, struct error *err)
{
    char target[PATH_MAX];
    if (st->st_uid == geteuid() && st->st_gid == getegid() &&
        linkat(from_fd, from, to_fd, to, 0) == 0)
        return 0;
    ssize_t length = readlinkat(from_fd, from, target, sizeof(target) - 1);
    if (length < 0)
        return error_set_errno(err, errno, "cannot read link '%s'", from);
    target[length] = '\0';
    if (symlinkat(target, to_fd, to) < 0)
        return error_set_errno(err, errno, "cannot make link '%s'", to);
    return 0;
}

static int copy_file(int from_fd, const char *from, int to_fd, const char *to,
                     struct copy_budget *budget, struct error *err)
{
    AUTO_CLOSE int in = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st) < 0)
        return error_set_errno(err, errno, "cannot open '%s'", from);
    if ((uint64_t)st.st_size > budget->bytes)
        return error_set(err, ERR_LIMIT, "'%s' is more than may be copied", from);
    budget->bytes -= (uint64_t)st.st_size;
    mode_t mode = st.st_mode & 0100 ? 0755 : 0644;
    AUTO_CLOSE int out =
        openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0 || fchmod(out, mode) < 0)
        return error_set_errno(err, errno, "cannot make '%s'", to);
    for (off_t offset = 0; offset < st.st_size;) {
        ssize_t n = sendfile(out, in, &offset, (size_t)(st.st_size - offset));
        if (n < 0)
            return error_set_errno(err, errno, "cannot copy '%s'", from);
        if (n == 0)
            break; /* it got shorter meanwhile */
    }
    return 0;
}

static int copy_dir(int from_fd, const char *from, int to_fd, const char *to, unsigned depth,
                    struct copy_budget *budget, struct error *err)
{
    int in = openat(from_fd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = in < 0 ? NULL : fdopendir(in);
    if (dir == NULL) {
        fd_close(in);
        return error_set_errno(err, errno, "cannot open directory '%s'", from);
    }
    AUTO_CLOSE int out = -1;
    if (mkdirat(to_fd, to, 0700) == 0)
        out = openat(to_fd, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out < 0 || fchmod(out, 0755) < 0) {
        int r = error_set_errno(err, errno, "cannot make directory '%s'", to);
        closedir(dir);
        return r;
    }
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = copy_entry(dirfd(dir), entry->d_name, out, entry->d_name, depth + 1, budget, err);
    }
    closedir(dir);
    return r;
}

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, unsigned depth,
                      struct copy_budget *budget, struct error *err)
{
    struct stat st;
    if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "cannot look at '%s'", from);
    if (depth > DEPTH_MAX || budget->entries == 0)
        return error_set(err, ERR_LIMIT, "too many files or too deep at '%s'", from);
    budget->entries--;
    if (S_ISLNK(st.st_mode))
        return copy_link(from_fd, from, to_fd, to, &st, err);
    if (S_ISREG(st.st_mode) && st.st_mode & S_IROTH)
        return copy_file(from_fd, from, to_fd, to, budget, err);
    if (S_ISDIR(st.st_mode) && st.st_mode & S_IROTH && st.st_mode & S_IXOTH)
        return copy_dir(from_fd, from, to_fd, to, depth, budget, err);
    return 0;
}

int copy_tree(int from_fd, const char *from, int to_fd, const char *to, struct copy_budget *budget,
              struct error *err)
{
    return copy_entry(from_fd, from, to_fd, to, 0, budget, err);
}

int copy_text(int to_fd, const char *to, const char *text, struct error *err)
{
    AUTO_CLOSE int fd =
        openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, 0644) < 0)
        return error_set_errno(err, errno, "cannot make '%s'", to);
    int r = file_write_all(fd, text, strlen(text));
    if (r < 0)
        return error_set_errno(err, -r, "cannot write '%s'", to);
    return 0;
}
