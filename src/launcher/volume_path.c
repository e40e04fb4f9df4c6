#include "launcher/volume_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/idrange.h"

#define SYSTEM_GROUPS 1000u
#define NAME_SIZE     256 /* of one component, with its terminator */

static int open_below(int dir_fd, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | flags,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

static int make_file(int dir_fd, const char *name, mode_t mode)
{
    AUTO_CLOSE int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0666);
    return fd < 0 ? -errno : 0;
}

/* One component. Somebody else may make the same, or take it away again: then it is theirs. */
static int step_down(int dir_fd, const char *name, bool last, enum volume_path_end end, mode_t mode)
{
    uint64_t flags = last ? 0 : O_DIRECTORY;
    int fd = open_below(dir_fd, name, flags);
    if (fd != -ENOENT || end == VOLUME_PATH_ANY)
        return fd;
    int r = 0;
    if (last && end == VOLUME_PATH_FILE)
        r = make_file(dir_fd, name, mode);
    else if (mkdirat(dir_fd, name, mode) < 0)
        r = -errno;
    return r < 0 && r != -EEXIST ? r : open_below(dir_fd, name, flags);
}

/* The first component of a path, and what follows it. */
static int take_component(const char **at, char ret[NAME_SIZE])
{
    size_t length = strcspn(*at, "/");
    if (length >= NAME_SIZE)
        return -ENAMETOOLONG;
    memcpy(ret, *at, length);
    ret[length] = '\0';
    *at += length + ((*at)[length] == '/');
    return 0;
}

int volume_path_open(int dir_fd, const char *path, enum volume_path_end end, mode_t mode)
{
    AUTO_CLOSE int at = open_below(dir_fd, ".", O_DIRECTORY);
    if (*path == '\0' && at == -ENOTDIR) /* a file, and nothing below it is asked for */
        return fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    while (at >= 0 && *path != '\0') {
        char name[NAME_SIZE];
        int r = take_component(&path, name);
        int next = r < 0 ? r : step_down(at, name, *path == '\0', end, mode);
        fd_close(at);
        at = next;
    }
    return TAKE_FD(at);
}

int volume_path_deepest(int dir_fd, const char *path, const char **ret_rest)
{
    AUTO_CLOSE int at = open_below(dir_fd, ".", O_DIRECTORY);
    while (at >= 0 && *path != '\0') {
        char name[NAME_SIZE];
        const char *rest = path;
        int r = take_component(&rest, name);
        int next = r < 0 ? r : open_below(at, name, O_DIRECTORY);
        if (next == -ENOENT)
            break;
        fd_close(at);
        at = next;
        path = rest;
    }
    *ret_rest = path;
    return TAKE_FD(at);
}

static bool is_of_sandboxes(uint32_t id)
{
    return id >= IDRANGE_FIRST && id - IDRANGE_FIRST < IDRANGE_COUNT * IDRANGE_SIZE;
}

struct volume_ids volume_path_ids(uint32_t uid, uint32_t gid)
{
    struct volume_ids ids = {.uid = uid, .gid = gid};
    if (uid == 0 || is_of_sandboxes(uid))
        ids.uid = IDRANGE_FIRST;
    if (gid == 0 || is_of_sandboxes(gid) || (gid < SYSTEM_GROUPS && gid != uid))
        ids.gid = IDRANGE_FIRST;
    return ids;
}

void volume_path_map(uint32_t id, uint32_t base, char ret[VOLUME_MAP_MAX])
{
    if (id == IDRANGE_FIRST)
        snprintf(ret, VOLUME_MAP_MAX, "%u %u %u\n", id, base, IDRANGE_SIZE);
    else
        snprintf(ret, VOLUME_MAP_MAX, "%u %u 1\n%u %u %u\n", id, base, IDRANGE_FIRST + 1, base + 1,
                 IDRANGE_SIZE - 1);
}
