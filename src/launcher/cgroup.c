/* The groups of one slot or sandbox: the same name in every hierarchy. */
#include "launcher/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/cgroup_internal.h"

#define PATH_ROOM        (CGROUP_NAME_MAX + 96)
#define CPU_PERIOD_US    100000u
#define CPU_QUOTA_MIN_US 1000u

static const struct cgroup_ops *ops_of(const struct cgroups *groups)
{
    return groups->v2 ? &cgroup_v2_ops : &cgroup_v1_ops;
}

bool cgroup_has(const struct cgroups *groups, enum cgroup_controller controller)
{
    return groups->of[controller] >= 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static int write_at(int parent_fd, const char *name, const char *file, const char *text)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s/%s", name, file);
    AUTO_CLOSE int fd = openat(parent_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int cgroup_write(const struct cgroups *groups, enum cgroup_controller controller, const char *name,
                 const char *file, const char *format, ...)
{
    char text[128];
    if (!cgroup_has(groups, controller))
        return -ENOTSUP;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return write_at(groups->items[groups->of[controller]].fd, name, file, text);
}

/* One read: the kernel makes the whole text of such a file at once. */
int cgroup_read(const struct cgroups *groups, enum cgroup_controller controller, const char *name,
                const char *file, char ret[CGROUP_TEXT_MAX])
{
    ret[0] = '\0';
    if (!cgroup_has(groups, controller))
        return -ENOTSUP;
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s/%s", name, file);
    AUTO_CLOSE int fd =
        openat(groups->items[groups->of[controller]].fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, ret, CGROUP_TEXT_MAX - 1);
    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

void cgroup_new_name(struct cgroups *groups, char ret[CGROUP_NAME_MAX])
{
    snprintf(ret, CGROUP_NAME_MAX, "slot-%u", groups->next_slot++);
}

static const char *pids_max(const struct cgroups *groups)
{
    return groups->v2 ? "work/pids.max" : "pids.max";
}

static int make_child(int parent_fd, const char *name, const char *child)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s/%s", name, child);
    return mkdirat(parent_fd, path, 0755) < 0 ? -errno : 0;
}

int cgroup_make(const struct cgroups *groups, const char *name)
{
    for (unsigned i = 0; i < groups->count; i++) {
        if (mkdirat(groups->items[i].fd, name, 0755) < 0)
            return -errno;
    }
    int r = ops_of(groups)->prepare != NULL ? ops_of(groups)->prepare(groups, name) : 0;
    if (r == 0 && groups->v2)
        r = make_child(groups->items[0].fd, name, "work");
    if (r == 0 && groups->v2)
        r = make_child(groups->items[0].fd, name, "init");
    if (r == 0 && cgroup_has(groups, CGROUP_PIDS))
        r = cgroup_write(groups, CGROUP_PIDS, name, pids_max(groups), "%d", CGROUP_PIDS_DEFAULT);
    return r;
}

static void remove_one(void *context, int parent_fd, const char *path)
{
    int *result = context;
    if (unlinkat(parent_fd, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
        *result = -errno;
}

/* Nobody makes groups below ours, but if somebody does they shall not keep ours for ever. */
static int remove_from(const struct cgroup_hierarchy *hierarchy, bool v2, const char *name)
{
    int ignored = 0;
    int result = 0;
    char path[PATH_ROOM];
    if (v2) {
        static const char *const children[] = {"work", "init"};
        for (size_t i = 0; i < ARRAY_LEN(children); i++) {
            snprintf(path, sizeof(path), "%s/%s", name, children[i]);
            remove_one(&ignored, hierarchy->fd, path);
        }
    }
    remove_one(&result, hierarchy->fd, name);
    if (result == 0)
        return 0;
    result = 0;
    cgroup_walk(hierarchy->fd, name, remove_one, &result);
    return result;
}

bool cgroup_can_renew(const struct cgroups *groups)
{
    return groups->count > 0 && ops_of(groups)->renew != NULL;
}

int cgroup_renew(const struct cgroups *groups, const char *name)
{
    unsigned worn = ops_of(groups)->renew(groups, name);
    for (unsigned i = 0; i < groups->count; i++) {
        if (!(worn >> i & 1))
            continue;
        int r = remove_from(&groups->items[i], groups->v2, name);
        if (r < 0)
            return r;
        if (mkdirat(groups->items[i].fd, name, 0755) < 0)
            return -errno;
    }
    if (!cgroup_has(groups, CGROUP_PIDS))
        return 0;
    return cgroup_write(groups, CGROUP_PIDS, name, pids_max(groups), "%d", CGROUP_PIDS_DEFAULT);
}

int cgroup_open_birth(const struct cgroups *groups, const char *name, int *ret_fd)
{
    *ret_fd = -1;
    if (!groups->v2)
        return 0;
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s/work", name);
    *ret_fd = openat(groups->items[0].fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

int cgroup_join(const struct cgroups *groups, const char *name)
{
    int r = 0;
    for (unsigned i = 0; i < groups->count && !groups->v2 && r == 0; i++)
        r = write_at(groups->items[i].fd, name, "cgroup.procs", "0");
    return r;
}

/* One file of every hierarchy that has `work`: all of them or none. */
static int open_procs(const struct cgroups *groups, const char *name, const char *file,
                      int ret_fds[CGROUP_WORK_FDS_MAX], unsigned *ret_count)
{
    unsigned count = 0;
    for (unsigned i = 0; i < groups->count; i++) {
        if (!groups->items[i].has_work)
            continue;
        char path[PATH_ROOM];
        snprintf(path, sizeof(path), "%s/%s", name, file);
        int fd = count < CGROUP_WORK_FDS_MAX
                     ? openat(groups->items[i].fd, path, O_WRONLY | O_CLOEXEC)
                     : -1;
        if (fd < 0) {
            int r = count < CGROUP_WORK_FDS_MAX ? -errno : -E2BIG;
            while (count > 0)
                fd_close(ret_fds[--count]);
            return r;
        }
        ret_fds[count++] = fd;
    }
    *ret_count = count;
    return 0;
}

int cgroup_open_work(const struct cgroups *groups, const char *name,
                     int ret_fds[CGROUP_WORK_FDS_MAX], unsigned *ret_count)
{
    return open_procs(groups, name, groups->v2 ? "work/cgroup.procs" : "cgroup.procs", ret_fds,
                      ret_count);
}

/* The way out is opened first, too: from inside the namespace it leads nowhere. */
int cgroup_enter_namespace(const struct cgroups *groups, const char *name)
{
    int fds[CGROUP_WORK_FDS_MAX];
    unsigned count = 0;
    int r = groups->v2 ? open_procs(groups, name, "init/cgroup.procs", fds, &count)
                       : open_procs(groups, CGROUP_EXECD, "cgroup.procs", fds, &count);
    if (r < 0)
        return r;
    if (unshare(CLONE_NEWCGROUP) < 0)
        r = -errno;
    for (unsigned i = 0; i < count; i++) {
        if (r == 0 && write(fds[i], "0", 1) < 0)
            r = -errno;
        fd_close(fds[i]);
    }
    return r;
}

int cgroup_remove(const struct cgroups *groups, const char *name)
{
    int result = 0;
    for (unsigned i = 0; i < groups->count; i++) {
        int r = remove_from(&groups->items[i], groups->v2, name);
        result = r < 0 ? r : result;
    }
    return result;
}

int cgroup_kill(const struct cgroups *groups, const char *name)
{
    return ops_of(groups)->kill(groups, name);
}

int cgroup_freeze(const struct cgroups *groups, const char *name, bool frozen)
{
    return groups->count == 0 ? -ENOTSUP : ops_of(groups)->freeze(groups, name, frozen);
}

int cgroup_frozen(const struct cgroups *groups, const char *name, bool *ret_frozen)
{
    return groups->count == 0 ? -ENOTSUP : ops_of(groups)->frozen(groups, name, ret_frozen);
}

int cgroup_meter(const struct cgroups *groups, const char *name, struct cgroup_usage *ret)
{
    *ret = (struct cgroup_usage){0};
    return groups->count == 0 ? 0 : ops_of(groups)->meter(groups, name, ret);
}

int cgroup_usage(const struct cgroups *groups, const char *name, struct cgroup_usage *ret)
{
    int r = cgroup_meter(groups, name, ret);
    if (r == 0 && groups->count > 0)
        ops_of(groups)->usage(groups, name, ret);
    return r;
}

/* --- limits ----------------------------------------------------------------------------------- */

void cgroup_cpu_quota(uint32_t millis, uint32_t *ret_quota_us, uint32_t *ret_period_us)
{
    uint32_t quota = millis * (CPU_PERIOD_US / 1000);
    *ret_quota_us = MAX(quota, CPU_QUOTA_MIN_US);
    *ret_period_us = quota >= CPU_QUOTA_MIN_US ? CPU_PERIOD_US : 1000 * CPU_QUOTA_MIN_US / millis;
}

static bool limits_io(const struct cgroup_limits *limits)
{
    return limits->io_read_bps != 0 || limits->io_write_bps != 0 || limits->io_read_iops != 0 ||
           limits->io_write_iops != 0;
}

/* What is missing for a limit is an error only if it is asked for: there is nothing to lift. */
static int set_limits(const struct cgroups *groups, const char *name,
                      const struct cgroup_limits *limits, bool lift)
{
    const struct cgroup_ops *ops = ops_of(groups);
    uint32_t pids = limits->pids != 0 ? limits->pids : CGROUP_PIDS_DEFAULT;
    int r = 0;
    if (limits->memory_bytes != 0 || (lift && cgroup_has(groups, CGROUP_MEMORY)))
        r = ops->limit_memory(groups, name, limits->memory_bytes);
    if (r == 0 && (limits->cpu_millis != 0 || (lift && cgroup_has(groups, CGROUP_CPU))))
        r = ops->limit_cpu(groups, name, limits->cpu_millis);
    if (r == 0 && (limits->pids != 0 || (lift && cgroup_has(groups, CGROUP_PIDS))))
        r = cgroup_write(groups, CGROUP_PIDS, name, pids_max(groups), "%" PRIu32, pids);
    bool io = cgroup_has(groups, CGROUP_IO) && groups->device.found;
    if (r == 0 && limits_io(limits) && !io)
        r = -ENOTSUP;
    if (r == 0 && (limits_io(limits) || (lift && io)))
        r = ops->limit_io(groups, name, limits, lift);
    return r;
}

int cgroup_limit(const struct cgroups *groups, const char *name, const struct cgroup_limits *limits)
{
    return set_limits(groups, name, limits, true);
}

int cgroup_limit_new(const struct cgroups *groups, const char *name,
                     const struct cgroup_limits *limits)
{
    return set_limits(groups, name, limits, false);
}

static int check_io(const struct cgroups *groups, const struct cgroup_limits *limits,
                    struct error *err)
{
    if (!groups->device.found)
        return error_set(err, ERR_UNSUPPORTED, "an I/O limit cannot be enforced: %s",
                         groups->device.reason);
    if (!groups->v2 && (limits->io_write_bps != 0 || limits->io_write_iops != 0))
        return error_set(
            err, ERR_UNSUPPORTED,
            "an I/O write limit cannot be enforced: this machine uses cgroup v1, which "
            "does not see buffered writes; boot with cgroup v2 or leave it out");
    return 0;
}

int cgroup_check(const struct cgroups *groups, const struct cgroup_limits *limits,
                 struct error *err)
{
    const struct {
        bool wanted;
        enum cgroup_controller controller;
        const char *limit, *name;
    } needs[] = {
        {limits->memory_bytes != 0, CGROUP_MEMORY, "a memory", "memory"},
        {limits->cpu_millis != 0, CGROUP_CPU, "a cpu", "cpu"},
        {limits->pids != 0, CGROUP_PIDS, "a pids", "pids"},
        {limits_io(limits), CGROUP_IO, "an I/O", groups->v2 ? "io" : "blkio"},
    };
    for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
        if (needs[i].wanted && groups->none[0] != '\0')
            return error_set(err, ERR_UNSUPPORTED, "%s limit cannot be enforced: %s",
                             needs[i].limit, groups->none);
        if (needs[i].wanted && !cgroup_has(groups, needs[i].controller))
            return error_set(err, ERR_UNSUPPORTED,
                             "%s limit cannot be enforced: this machine has no usable %s cgroup "
                             "controller; leave the limit out or enable the controller",
                             needs[i].limit, needs[i].name);
    }
    return limits_io(limits) ? check_io(groups, limits, err) : 0;
}
