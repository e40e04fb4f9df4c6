/* Control groups of an ordinary user: a part of the v2 hierarchy that was given to him, as systemd
 * does with Delegate=yes. Version 1 cannot be given safely and is left alone.
 *
 * Without --cgroup-parent it is the group we were started in. A group that passes controllers on
 * must have no processes, so we move out of it into a child, with the server that has started us.
 * When others are in it they are not ours to move. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup_internal.h"

#define OWN_GROUP "opensandbox-control" /* where we and the server are */
#define PROCS_MAX (1u << 20)
#define START     "; in systemd: a unit of its own with Delegate=yes"

/* Our group: the line "0::/path" of /proc/self/cgroup. */
static char *find_own(void)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 65536);
    if (file_read_at(AT_FDCWD, "/proc/self/cgroup", &text, NULL) < 0 || text.length == 0)
        return NULL;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (str_starts_with(line, "0::/"))
            return mem_dup(line + strlen("0::/"));
    }
    return NULL;
}

static int move_to(int group_fd, const char *pid)
{
    AUTO_CLOSE int fd = openat(group_fd, OWN_GROUP "/cgroup.procs", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : file_write_all(fd, pid, strlen(pid));
}

static bool is_ours(const char *pid)
{
    char self[16], parent[16];
    snprintf(self, sizeof(self), "%d", (int)getpid());
    snprintf(parent, sizeof(parent), "%d", (int)getppid());
    return str_equal(pid, self) || str_equal(pid, parent);
}

static int move_out(int group_fd)
{
    CLEANUP(buf_done) struct buf procs;
    buf_init(&procs, PROCS_MAX);
    if (file_read_at(group_fd, "cgroup.procs", &procs, NULL) < 0)
        return -EIO;
    if (procs.length == 0)
        return 0;
    if (mkdirat(group_fd, OWN_GROUP, 0755) < 0 && errno != EEXIST)
        return -errno;
    int r = 0;
    char *save = NULL;
    for (char *pid = strtok_r(procs.data, "\n", &save); pid && r == 0;
         pid = strtok_r(NULL, "\n", &save)) {
        r = move_to(group_fd, pid);
        if (r == -ESRCH)
            r = 0;
    }
    return r;
}

/* A launcher that is restarted finds itself where its server has been moved to. */
static void leave_own_group(char *path)
{
    char *slash = strrchr(path, '/');
    const char *last = slash != NULL ? slash + 1 : path;
    if (str_equal(last, OWN_GROUP))
        *(slash != NULL ? slash : path) = '\0';
}

/* What must be ours: to make groups in it, to move processes within, and to pass controllers on. */
static int check_given(int group_fd)
{
    static const char *const names[] = {".", "cgroup.procs", "cgroup.subtree_control"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (faccessat(group_fd, names[i], W_OK, AT_EACCESS) < 0)
            return -errno;
    }
    return 0;
}

/* Which of those in it are not ours: -EBUSY. */
static int check_procs(int group_fd, struct buf *procs)
{
    if (file_read_at(group_fd, "cgroup.procs", procs, NULL) < 0)
        return -EIO;
    if (procs->length == 0)
        return 0;
    AUTO_FREE char *names = mem_dup(procs->data);
    char *save = NULL;
    for (char *pid = strtok_r(names, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
        if (!is_ours(pid))
            return -EBUSY;
    }
    return 0;
}

int cgroup_find_given(const struct cgroup_mounts *mounts, const char *parent, char **ret_path,
                      char reason[CGROUP_REASON_MAX])
{
    CLEANUP(buf_done) struct buf procs;
    buf_init(&procs, PROCS_MAX);
    AUTO_FREE char *path = parent != NULL ? mem_dup(parent) : find_own();
    if (mounts->v2 == NULL || path == NULL) {
        snprintf(
            reason, CGROUP_REASON_MAX,
            "version 2 of control groups, the one that can be given to a user, is not mounted");
        return -ENOENT;
    }
    if (parent == NULL)
        leave_own_group(path);
    AUTO_FREE char *whole = mem_printf("%s/%s", mounts->v2, path);
    AUTO_CLOSE int fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : check_given(fd);
    if (r == 0)
        r = check_procs(fd, &procs);
    if (r == -EBUSY)
        snprintf(reason, CGROUP_REASON_MAX, "other processes are in the control group /%.60s" START,
                 path);
    else if (r < 0)
        snprintf(reason, CGROUP_REASON_MAX,
                 "the control group /%.50s was not given to this user (%.30s)" START, path,
                 strerror(-r));
    if (r == 0)
        *ret_path = TAKE_PTR(path);
    return r;
}

static int open_given(struct cgroups *groups, const char *mount, const char *path,
                      const char *relative, struct error *err)
{
    AUTO_FREE char *whole = mem_printf("%s/%s", mount, path);
    AUTO_CLOSE int fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : move_out(fd);
    if (r < 0)
        return error_set_errno(err, -r, "cannot leave the control group /%s", path);
    AUTO_FREE char *below = mem_printf("%s/%s", path, relative);
    groups->v2 = true;
    return cgroup_open_v2(groups, mount, below[0] == '/' ? below + 1 : below, err);
}

void cgroup_open_given(struct cgroups *groups, const struct cgroup_mounts *mounts,
                       const char *parent, const char *relative)
{
    AUTO_FREE char *path = NULL;
    struct error err = ERROR_INIT;
    if (cgroup_find_given(mounts, parent, &path, groups->none) < 0)
        return;
    if (open_given(groups, mounts->v2, path, relative, &err) < 0) {
        cgroup_close(groups);
        groups->v2 = false;
        snprintf(groups->none, sizeof(groups->none), "%.*s", CGROUP_REASON_MAX - 1, err.message);
    }
}
