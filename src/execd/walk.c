/* The way back up: only the innermost OPEN_MAX directories (and the top) are held open. A parent
 * that was closed is reached again through ".." of its child and must be the same directory as
 * before; if the child was moved away meanwhile, it is looked up from the top, name by name.
 *
 * Names of outer directories wait in memory while inner ones are read. When all of them together
 * take more than NAMES_MAX, the outermost are dropped: those are needed last, and are then read
 * again behind the name where they were left, which stands in the path. */
#include "execd/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "execd/walk_names.h"

#define OPEN_MAX        12
#define NAMES_LEVEL_MAX (1536 * 1024)     /* of one directory */
#define NAMES_MAX       (6 * 1024 * 1024) /* of all directories on the way */
#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct level {
    int fd; /* -1: not open; pop() opens it again */
    dev_t device;
    ino_t inode;
    size_t path_length; /* of the directory */
    bool started;       /* the path goes on with the last name that was given */
    struct execd_walk_names names;
};

struct execd_walk {
    struct level *levels; /* [0] is the top */
    size_t depth;
    size_t room;
    size_t open_from; /* levels but the top that are open: from this one on */
    struct buf path;
    size_t top_length;
    size_t names_bytes; /* of all levels */
    bool leaving;
    bool lost; /* with `leaving`: a directory was moved away under us */
    const atomic_bool *gone;
    char scratch[EXECD_WALK_READ_BYTES];
};

static struct level *current(struct execd_walk *walk)
{
    return &walk->levels[walk->depth - 1];
}

static void cut_path(struct execd_walk *walk, size_t length)
{
    if (walk->path.length > length) {
        walk->path.length = length;
        walk->path.data[length] = '\0';
    }
}

static void forget_names(struct execd_walk *walk, struct level *level)
{
    walk->names_bytes -= execd_walk_names_bytes(&level->names);
    execd_walk_names_done(&level->names);
}

/* --- levels ----------------------------------------------------------------------------------- */

static int push(struct execd_walk *walk, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (walk->depth == walk->room) {
        walk->room = MAX(2 * walk->room, (size_t)16);
        walk->levels = mem_resize_array(walk->levels, walk->room, sizeof(*walk->levels));
    }
    walk->levels[walk->depth++] = (struct level){
        .fd = fd, .device = st.st_dev, .inode = st.st_ino, .path_length = walk->path.length};
    if (walk->depth - walk->open_from > OPEN_MAX) {
        struct level *outer = &walk->levels[walk->open_from++];
        outer->fd = fd_close(outer->fd);
    }
    return 0;
}

static bool is_level(const struct level *level, int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == level->device &&
           st.st_ino == level->inode;
}

/* The current level by its names from the top. */
static int open_from_top(struct execd_walk *walk)
{
    AUTO_CLOSE int fd = fcntl(walk->levels[0].fd, F_DUPFD_CLOEXEC, 0);
    for (size_t i = 1; i < walk->depth && fd >= 0; i++) {
        size_t begin = walk->levels[i - 1].path_length + 1;
        AUTO_FREE char *name =
            mem_dup_n(walk->path.data + begin, walk->levels[i].path_length - begin);
        int next = openat(fd, name, DIRECTORY_FLAGS);
        fd_close(fd);
        fd = next;
    }
    return TAKE_FD(fd);
}

/* The innermost directory is done. Its parent may have to be opened again; when that is not where
 * it was any more, what is left of it has vanished. */
static void pop(struct execd_walk *walk)
{
    struct level *child = current(walk);
    forget_names(walk, child);
    cut_path(walk, child->path_length);
    walk->depth--;
    struct level *level = walk->depth > 0 ? current(walk) : NULL;
    if (level != NULL && level->fd < 0) {
        AUTO_CLOSE int fd = child->fd >= 0 ? openat(child->fd, "..", DIRECTORY_FLAGS) : -1;
        if (!is_level(level, fd)) {
            fd_close(fd);
            fd = open_from_top(walk);
        }
        walk->open_from = walk->depth - 1;
        if (is_level(level, fd)) {
            level->fd = TAKE_FD(fd);
        } else {
            forget_names(walk, level);
            walk->lost = true;
        }
    }
    child->fd = fd_close(child->fd);
}

/* Make room for the names of the current level. */
static void drop_names(struct execd_walk *walk)
{
    for (size_t i = 0; i + 1 < walk->depth && walk->names_bytes > NAMES_MAX; i++) {
        struct level *level = &walk->levels[i];
        if (execd_walk_names_bytes(&level->names) > 0)
            forget_names(walk, level); /* they are not complete any more, so they are read again */
    }
}

/* --- entries ---------------------------------------------------------------------------------- */

static int read_names(struct execd_walk *walk, struct error *err)
{
    struct level *level = current(walk);
    AUTO_FREE char *after =
        level->started ? mem_dup(walk->path.data + level->path_length + 1) : NULL;
    walk->names_bytes -= execd_walk_names_bytes(&level->names);
    int r = execd_walk_names_fill(&level->names, level->fd, after, NAMES_LEVEL_MAX, walk->scratch,
                                  walk->gone);
    walk->names_bytes += execd_walk_names_bytes(&level->names);
    if (r == 0 && level->names.count == 0 && !level->names.complete)
        r = -EIO; /* a file system that lists one name over and over */
    if (r < 0) {
        cut_path(walk, level->path_length);
        return error_set_errno(err, -r, "cannot read directory %.300s",
                               walk->path.length > 0 ? walk->path.data : "/");
    }
    drop_names(walk);
    return 0;
}

static void describe(const struct execd_walk *walk, const struct level *level, unsigned char type,
                     struct execd_walk_entry *ret)
{
    *ret = (struct execd_walk_entry){
        .path = walk->path.data,
        .path_length = walk->path.length,
        .relative = walk->path.data + walk->top_length + 1,
        .name = walk->path.data + level->path_length + 1,
        .dir_fd = level->fd,
        .type = type,
        .depth = walk->depth,
    };
}

/* The next name of the current directory becomes the end of the path. */
static int take_name(struct execd_walk *walk, const struct execd_walk_name *name,
                     struct execd_walk_entry *ret, struct error *err)
{
    struct level *level = current(walk);
    cut_path(walk, level->path_length);
    if (buf_add_char(&walk->path, '/') < 0 || buf_add_str(&walk->path, name->name) < 0)
        return error_set(err, ERR_LIMIT, "a path below %.*s is longer than %d bytes",
                         (int)MIN(walk->top_length, (size_t)300), walk->path.data,
                         EXECD_WALK_PATH_MAX);
    level->started = true;
    describe(walk, level, name->type, ret);
    if (level->names.complete && level->names.next == level->names.count) {
        forget_names(walk, level); /* many levels deep, even little adds up */
        level->names.complete = true;
    }
    return 1;
}

static bool is_repeated(const struct execd_walk *walk, const struct level *level, const char *name)
{
    return level->started && strcmp(walk->path.data + level->path_length + 1, name) == 0;
}

int execd_walk_next(struct execd_walk *walk, struct execd_walk_entry *ret, struct error *err)
{
    while (walk->depth > 0) {
        struct level *level = current(walk);
        struct execd_walk_name name;
        if (execd_walk_names_next(&level->names, &name)) {
            if (!is_repeated(walk, level, name.name))
                return take_name(walk, &name, ret, err);
        } else if (level->fd >= 0 && !level->names.complete) {
            if (read_names(walk, err) < 0)
                return -1;
        } else {
            pop(walk);
            if (walk->leaving && walk->lost)
                return error_set(err, ERR_CONFLICT, "directories below %.*s were moved meanwhile",
                                 (int)MIN(walk->top_length, (size_t)300), walk->path.data);
            if (walk->leaving && walk->depth > 0) {
                describe(walk, current(walk), 0, ret);
                ret->leaving = true;
                return 1;
            }
        }
    }
    return 0;
}

static bool has_vanished(int sys)
{
    return sys == ENOENT || sys == ENOTDIR || sys == ELOOP;
}

int execd_walk_enter(struct execd_walk *walk, bool lenient, struct error *err)
{
    const struct level *level = current(walk);
    if (walk->depth >= EXECD_WALK_DEPTH_MAX)
        return error_set(err, ERR_LIMIT, "directories below %.*s are nested deeper than %d",
                         (int)MIN(walk->top_length, (size_t)300), walk->path.data,
                         EXECD_WALK_DEPTH_MAX);
    AUTO_CLOSE int fd =
        openat(level->fd, walk->path.data + level->path_length + 1, DIRECTORY_FLAGS);
    int r = fd < 0 ? -errno : push(walk, fd);
    if (r == 0) {
        (void)TAKE_FD(fd);
        return 1;
    }
    if (has_vanished(-r) || (lenient && (r == -EACCES || r == -EPERM)))
        return 0;
    return error_set_errno(err, -r, "cannot open directory %.300s", walk->path.data);
}

/* --- life ------------------------------------------------------------------------------------- */

struct execd_walk *execd_walk_new(int fd, const char *path, bool leaving, const atomic_bool *gone)
{
    struct execd_walk *walk = mem_alloc(sizeof(*walk));
    walk->leaving = leaving;
    walk->gone = gone;
    walk->open_from = 1;
    buf_init(&walk->path, EXECD_WALK_PATH_MAX);
    buf_add_str(&walk->path, strcmp(path, "/") == 0 ? "" : path);
    walk->top_length = walk->path.length;
    if (push(walk, fd) < 0)
        fd_close(fd); /* cannot be: it is open */
    return walk;
}

void execd_walk_free(struct execd_walk *walk)
{
    if (walk == NULL)
        return;
    while (walk->depth > 0) {
        struct level *level = &walk->levels[--walk->depth];
        execd_walk_names_done(&level->names);
        fd_close(level->fd);
    }
    buf_done(&walk->path);
    free(walk->levels);
    free(walk);
}
