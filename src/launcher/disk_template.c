#include "launcher/disk_template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/disk_super.h"

#define GRAIN      (1ull << 20)
#define SUFFIX     ".img"
#define NAME_MAX_  32
#define COPY_CHUNK (1u << 20)

/* The label names the recipe: one made by another version of it is made anew. */
#define LABEL "opensandbox-1"

/* Listed in full, so that a distribution's mke2fs.conf changes nothing. No journal: nothing in here
 * outlives a crash of the machine, and it would take space and write everything twice.
 * resize_inode: room to grow while mounted. metadata_csum: damage is noticed. */
static const char features[] = "none,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,"
                               "sparse_super,large_file,huge_file,dir_nlink,extra_isize,"
                               "metadata_csum";

uint64_t disk_template_round(uint64_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

const char *disk_template_program(void)
{
    static const char *const paths[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    }
    return NULL;
}

void disk_template_arguments(const char *program, const char *path, uint64_t bytes, char size[24],
                             const char *ret[DISK_MKE2FS_ARGS])
{
    static char inode_ratio[16];
    snprintf(inode_ratio, sizeof(inode_ratio), "%u", DISK_BYTES_PER_INODE);
    snprintf(size, 24, "%" PRIu64 "k", bytes / 1024);
    /* lazy_itable_init: the file is all zeros already, so nothing need write inode tables. */
    const char *const arguments[] = {
        program,
        "-q",
        "-F",
        "-t",
        "ext4",
        "-b",
        "4096",
        "-I",
        "256",
        "-i",
        inode_ratio,
        "-m",
        "0",
        "-L",
        LABEL,
        "-O",
        features,
        "-E",
        "lazy_itable_init=1,nodiscard",
        path,
        size,
        NULL,
    };
    _Static_assert(sizeof(arguments) <= DISK_MKE2FS_ARGS * sizeof(ret[0]), "room for them");
    memcpy(ret, arguments, sizeof(arguments));
}

static void name_of(uint64_t bytes, char ret[NAME_MAX_])
{
    snprintf(ret, NAME_MAX_, "%" PRIu64 SUFFIX, bytes);
}

/* Enough to tell one that is cut short, of another size or of another recipe; what this does not
 * see the mount does. */
static int check_file(int fd, uint64_t bytes)
{
    struct stat st;
    struct disk_super super;
    if (fstat(fd, &st) < 0)
        return -errno;
    int r = disk_super_read(fd, &super);
    if (r < 0)
        return r;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes ||
        super.blocks != bytes / DISK_BLOCK || !super.clean || !str_equal(super.label, LABEL))
        return -EINVAL;
    return 0;
}

static int open_templates(int launcher_fd)
{
    if (mkdirat(launcher_fd, DISK_TEMPLATES, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(launcher_fd, DISK_TEMPLATES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The template, or -errno. */
static int open_template(int templates_fd, uint64_t bytes)
{
    char name[NAME_MAX_];
    name_of(bytes, name);
    AUTO_CLOSE int fd = openat(templates_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = check_file(fd, bytes);
    return r < 0 ? r : TAKE_FD(fd);
}

int disk_template_check(int launcher_fd, uint64_t bytes)
{
    AUTO_CLOSE int templates =
        openat(launcher_fd, DISK_TEMPLATES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (templates < 0)
        return -errno;
    int fd = open_template(templates, bytes);
    fd_close(fd);
    return MIN(fd, 0);
}

/* In the child. */
static NORETURN void execute(const char *program, int fd, uint64_t bytes)
{
    static const char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                                              NULL};
    const char *arguments[DISK_MKE2FS_ARGS];
    char size[24];
    disk_template_arguments(program, "/proc/self/fd/3", bytes, size, arguments);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(127);
    if (fd == 3 ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, 3) < 0)
        _exit(127);
    execve(program, (char *const *)arguments, (char *const *)environment);
    _exit(127);
}

static int format(int fd, uint64_t bytes)
{
    const char *program = disk_template_program();
    if (program == NULL)
        return -ENOENT;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        execute(program, fd, bytes);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? check_file(fd, bytes) : -EIO;
}

/* Give the file its name. One that is there is another slot's who was faster, unless it is to be
 * replaced. */
static int publish(int templates_fd, int fd, uint64_t bytes, bool replace)
{
    char name[NAME_MAX_], path[40];
    name_of(bytes, name);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (replace)
        unlinkat(templates_fd, name, 0);
    if (linkat(AT_FDCWD, path, templates_fd, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
        return -errno;
    disk_template_prune(templates_fd, DISK_TEMPLATES_MAX);
    return 0;
}

static int make_template(int templates_fd, uint64_t bytes, bool replace)
{
    AUTO_CLOSE int fd = openat(templates_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return -errno;
    int r = format(fd, bytes);
    if (r == 0)
        r = publish(templates_fd, fd, bytes, replace);
    return r < 0 ? r : TAKE_FD(fd);
}

/* For file systems that cannot copy inside the kernel. */
static int copy_by_hand(int from, int to, off_t at, off_t end)
{
    char chunk[16384];
    while (at < end) {
        ssize_t n = pread(from, chunk, (size_t)MIN(end - at, (off_t)sizeof(chunk)), at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        ssize_t written = pwrite(to, chunk, (size_t)n, at);
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        at += written;
    }
    return 0;
}

static int copy_range(int from, int to, off_t at, off_t end)
{
    while (at < end) {
        off_t in = at, out = at;
        ssize_t n =
            copy_file_range(from, &in, to, &out, (size_t)MIN(end - at, (off_t)COPY_CHUNK), 0);
        if (n < 0 && errno != EXDEV && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
            return -errno;
        if (n <= 0)
            return copy_by_hand(from, to, at, end);
        at += n;
    }
    return 0;
}

int disk_template_copy_data(int from, int to, uint64_t bytes)
{
    if (ftruncate(to, (off_t)bytes) < 0)
        return -errno;
    off_t end = 0;
    for (;;) {
        off_t start = lseek(from, end, SEEK_DATA);
        if (start < 0)
            return errno == ENXIO ? 0 : -errno; /* only a hole is left */
        end = lseek(from, start, SEEK_HOLE);
        if (end < 0)
            return -errno;
        int r = copy_range(from, to, start, MIN(end, (off_t)bytes));
        if (r < 0)
            return r;
    }
}

int disk_template_copy(int launcher_fd, uint64_t bytes, bool fresh, int dir_fd, const char *name)
{
    AUTO_CLOSE int templates = open_templates(launcher_fd);
    if (templates < 0)
        return templates;
    AUTO_CLOSE int from = fresh ? -EINVAL : open_template(templates, bytes);
    if (from < 0)
        from = make_template(templates, bytes, from != -ENOENT);
    if (from < 0)
        return from;
    futimens(from, NULL); /* used now: what disk_template_prune() goes by */
    AUTO_CLOSE int to = openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int r = disk_template_copy_data(from, to, bytes);
    return r < 0 ? r : TAKE_FD(to);
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Counts them, and finds the one whose turn it is. */
static unsigned find_oldest(DIR *dir, char ret_name[256])
{
    unsigned count = 0;
    struct timespec oldest = {0};
    struct dirent *entry;
    rewinddir(dir);
    while ((entry = readdir(dir)) != NULL) {
        struct stat st;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (count++ == 0 || is_older(&st.st_mtim, &oldest)) {
            oldest = st.st_mtim;
            snprintf(ret_name, 256, "%s", entry->d_name);
        }
    }
    return count;
}

void disk_template_prune(int templates_fd, unsigned keep)
{
    int fd = openat(templates_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return;
    }
    char name[256];
    while (find_oldest(dir, name) > keep && unlinkat(templates_fd, name, 0) == 0)
        ;
    closedir(dir);
}
