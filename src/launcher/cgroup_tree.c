/* Groups and the groups below them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup_internal.h"
#include "launcher/process.h"

#define DEPTH_MAX 8
#define PROCS_MAX (1u << 20)

typedef void found_fn(void *context, int parent_fd, const char *path);

static void walk(int parent_fd, const char *path, int depth, found_fn *found, void *context)
{
    int fd = openat(parent_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return;
    }
    struct dirent *entry;
    while (depth < DEPTH_MAX && (entry = readdir(dir)) != NULL) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        AUTO_FREE char *child = mem_printf("%s/%s", path, entry->d_name);
        walk(parent_fd, child, depth + 1, found, context);
    }
    closedir(dir);
    found(context, parent_fd, path);
}

void cgroup_walk(int parent_fd, const char *path, found_fn *found, void *context)
{
    walk(parent_fd, path, 0, found, context);
}

/* There is no file that kills a group. A pid read from it may be another process a moment later, so
 * it is signalled through a pidfd, and only if it is still listed once that is open. */
static void kill_if_listed(int parent_fd, const char *procs, const char *line)
{
    uint64_t pid;
    AUTO_CLOSE int pidfd = -1;
    if (str_to_u64(line, 2, INT32_MAX, &pid) < 0 || process_open((pid_t)pid, &pidfd) < 0)
        return;
    CLEANUP(buf_done) struct buf now;
    buf_init(&now, PROCS_MAX);
    if (file_read_at(parent_fd, procs, &now, NULL) < 0)
        return;
    AUTO_FREE char *listed = mem_printf("\n%s", now.data);
    AUTO_FREE char *wanted = mem_printf("\n%s\n", line);
    if (strstr(listed, wanted) != NULL)
        process_signal(pidfd, SIGKILL);
}

static void kill_group(void *context, int parent_fd, const char *path)
{
    (void)context;
    AUTO_FREE char *procs = mem_printf("%s/cgroup.procs", path);
    CLEANUP(buf_done) struct buf pids;
    buf_init(&pids, PROCS_MAX);
    if (file_read_at(parent_fd, procs, &pids, NULL) < 0)
        return;
    char *save = NULL;
    for (char *line = strtok_r(pids.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        kill_if_listed(parent_fd, procs, line);
}

void cgroup_kill_listed(const struct cgroups *groups, const char *name)
{
    for (unsigned i = 0; i < groups->count; i++)
        cgroup_walk(groups->items[i].fd, name, kill_group, NULL);
}

void cgroup_each(const struct cgroups *groups, void (*found)(void *context, const char *name),
                 void *context)
{
    for (unsigned i = 0; i < groups->count; i++) {
        DIR *dir = opendir(groups->items[i].path);
        if (dir == NULL)
            continue;
        struct dirent *entry;
        while ((entry = readdir(dir)) != NULL) {
            if (str_starts_with(entry->d_name, "slot-") && strlen(entry->d_name) < CGROUP_NAME_MAX)
                found(context, entry->d_name);
        }
        closedir(dir);
    }
}
