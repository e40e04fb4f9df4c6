/* Removing a tree that somebody hostile has made, as root.
 *
 * - Names are only ever resolved one component at a time against an open directory, with
 *   O_NOFOLLOW, and ".." is never used: whatever is renamed or replaced by a symbolic link while we
 *   work, only entries of directories that we reached from the top are unlinked. Mount points are
 *   not entered (a bind mount left behind may be a user's data); they make the removal fail.
 * - Depth costs neither stack nor descriptors. The walk keeps at most MAX_LEVELS directories open;
 *   a directory below that is first moved up into the top of the tree under a fresh name and its
 *   turn comes later. The fresh names are numbered, so the queue of those waiting is two counters,
 *   and every directory is moved at most once per MAX_LEVELS of its depth. The alternative, going
 *   up through "..", loses its way when a directory is moved and must read wide directories from
 *   their start again after every child.
 * - Failures do not stop the walk: as much as possible goes, the first failure is reported. Names
 *   inside the tree are not put into messages: they are arbitrary bytes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"

/* Deeper than real trees are, so that moving is for hostile ones only. */
#define MAX_LEVELS 32
/* Reading a directory while it changes may miss entries; more rounds than this means that somebody
 * keeps adding some. */
#define MAX_PASSES 16

struct level {
    DIR *dir;
    int passes;
    bool failed; /* something below stays, so it cannot become empty */
    char name[NAME_MAX + 1];
};

struct removal {
    int top_parent_fd;
    const char *top_name;
    struct level levels[MAX_LEVELS]; /* [0] is the top; its name is top_name */
    int depth;                       /* levels in use */
    char moved_prefix[ID_HEX_LEN + 1];
    uint64_t moved; /* directories moved to the top so far */
    uint64_t taken; /* of these, the ones that had their turn */
    int sys;        /* the first failure */
    const char *what;
};

static struct level *current(struct removal *rm)
{
    return &rm->levels[rm->depth - 1];
}

static void fail(struct removal *rm, int sys, const char *what)
{
    if (rm->sys == 0) {
        rm->sys = sys;
        rm->what = what;
    }
    if (rm->depth > 0)
        current(rm)->failed = true;
}

static int open_in_mount(int parent_fd, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, parent_fd, name, &how, sizeof(how));
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) /* EPERM: a filter that does not know it */
        fd = openat(parent_fd, name, (int)how.flags);
    return fd;
}

/* Root may do everything in a directory of mode 000; others must first give themselves the right.
 */
static int open_dir(int parent_fd, const char *name)
{
    AUTO_CLOSE int fd = open_in_mount(parent_fd, name);
    if (fd < 0 && errno == EACCES && fchmodat(parent_fd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = open_in_mount(parent_fd, name);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    return TAKE_FD(fd);
}

/* Opens `name` as the next level. It may be gone or have become something else by now: the caller
 * sees it in the next pass. */
static int enter(struct removal *rm, int parent_fd, const char *name)
{
    AUTO_CLOSE int fd = open_dir(parent_fd, name);
    if (fd < 0)
        return fd;
    DIR *dir = fdopendir(fd);
    if (dir == NULL)
        return -errno;
    (void)TAKE_FD(fd);
    struct level *level = &rm->levels[rm->depth++];
    level->dir = dir;
    level->passes = 1;
    level->failed = false;
    snprintf(level->name, sizeof(level->name), "%s", rm->depth == 1 ? "" : name);
    return 0;
}

static void moved_name(const struct removal *rm, uint64_t number, char ret[NAME_MAX + 1])
{
    snprintf(ret, NAME_MAX + 1, ".%s-%llu", rm->moved_prefix, (unsigned long long)number);
}

static int move_to_top(struct removal *rm, int parent_fd, const char *name)
{
    int top_fd = dirfd(rm->levels[0].dir);
    char fresh[NAME_MAX + 1];
    moved_name(rm, rm->moved, fresh);
    int r = renameat(parent_fd, name, top_fd, fresh);
    if (r < 0 && errno == EACCES) {
        /* Its ".." changes, which needs the right to write to it. */
        fd_close(open_dir(parent_fd, name));
        r = renameat(parent_fd, name, top_fd, fresh);
    }
    if (r < 0)
        return -errno;
    rm->moved++;
    return 0;
}

static void remove_directory(struct removal *rm, int parent_fd, const char *name)
{
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0)
        return;
    int r = rm->depth < MAX_LEVELS ? enter(rm, parent_fd, name) : move_to_top(rm, parent_fd, name);
    if (r == -ENOTDIR || r == -ELOOP)
        r = unlinkat(parent_fd, name, 0) < 0 ? -errno : 0; /* replaced since we read its type */
    if (r < 0 && r != -ENOENT)
        fail(rm, -r, "cannot remove a directory in");
}

static void remove_entry(struct removal *rm, const struct dirent *entry)
{
    int fd = dirfd(current(rm)->dir);
    if (entry->d_type != DT_DIR) {
        if (unlinkat(fd, entry->d_name, 0) == 0 || errno == ENOENT)
            return;
        if (errno != EISDIR) {
            fail(rm, errno, "cannot remove a file in");
            return;
        }
    }
    remove_directory(rm, fd, entry->d_name);
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void leave(struct removal *rm)
{
    struct level *level = current(rm);
    bool failed = level->failed;
    closedir(level->dir);
    rm->depth--;
    if (rm->depth > 0 && failed)
        current(rm)->failed = true;
}

/* The current directory was read to its end: remove it, read it again, or give it up. */
static void finish_level(struct removal *rm)
{
    struct level *level = current(rm);
    if (rm->depth == 1 && rm->taken < rm->moved) {
        char name[NAME_MAX + 1];
        moved_name(rm, rm->taken++, name);
        remove_directory(rm, dirfd(level->dir), name);
        return;
    }
    bool top = rm->depth == 1;
    int parent_fd = top ? rm->top_parent_fd : dirfd(rm->levels[rm->depth - 2].dir);
    const char *name = top ? rm->top_name : level->name;
    if (!level->failed && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        if ((errno == ENOTEMPTY || errno == EEXIST) && level->passes < MAX_PASSES) {
            level->passes++;
            rewinddir(level->dir);
            return;
        }
        if (errno != ENOTDIR || top) /* moved away and replaced: the parent's next pass sees it */
            fail(rm, errno, "cannot remove a directory in");
    }
    leave(rm);
}

static void walk(struct removal *rm)
{
    while (rm->depth > 0) {
        errno = 0;
        const struct dirent *entry = readdir(current(rm)->dir);
        if (entry == NULL) {
            if (errno != 0)
                fail(rm, errno, "cannot read a directory in");
            finish_level(rm);
        } else if (!is_dot(entry->d_name)) {
            remove_entry(rm, entry);
        }
    }
}

/* The path to the parent is the caller's and may lead through anything, so it is resolved apart
 * from the last component, to which the rules above apply. */
static int open_top_parent(int dir_fd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash != NULL ? slash + 1 : path;
    AUTO_FREE char *parent = slash != NULL ? mem_dup_n(path, (size_t)(slash + 1 - path)) : NULL;
    int fd = openat(dir_fd, parent != NULL ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int file_remove_tree_at(int dir_fd, const char *name, struct error *err)
{
    const char *last;
    AUTO_CLOSE int parent_fd = open_top_parent(dir_fd, name, &last);
    if (parent_fd == -ENOENT)
        return 0;
    if (parent_fd < 0)
        return error_set_errno(err, -parent_fd, "cannot remove '%s'", name);
    if (last[0] == '\0' || is_dot(last))
        return error_set(err, ERR_INVALID, "cannot remove '%s': it must be the name of an entry",
                         name);
    if (unlinkat(parent_fd, last, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return error_set_errno(err, errno, "cannot remove '%s'", name);

    AUTO_FREE struct removal *rm = mem_alloc(sizeof(*rm));
    rm->top_parent_fd = parent_fd;
    rm->top_name = last;
    id_new_hex(rm->moved_prefix);
    int r = enter(rm, parent_fd, last);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return error_set_errno(err, -r, "cannot open directory '%s'", name);
    walk(rm);
    return rm->sys != 0 ? error_set_errno(err, rm->sys, "%s '%s'", rm->what, name) : 0;
}
