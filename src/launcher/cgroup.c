/* The group of one slot or sandbox: the same name in every hierarchy. */
#include "launcher/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/process.h"

#define CPU_PERIOD_US    100000u
#define CPU_QUOTA_MIN_US 1000u
#define PROCS_MAX        (1u << 20)

void cgroup_new_name(struct cgroups *groups, char ret[CGROUP_NAME_MAX])
{
    snprintf(ret, CGROUP_NAME_MAX, "slot-%u", groups->next_slot++);
}

int cgroup_make(const struct cgroups *groups, const char *name)
{
    for (unsigned i = 0; i < groups->count; i++) {
        if (mkdirat(groups->items[i].fd, name, 0755) < 0)
            return -errno;
    }
    return 0;
}

static int write_file(int parent_fd, const char *name, const char *file, const char *text)
{
    char path[CGROUP_NAME_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", name, file);
    AUTO_CLOSE int fd = openat(parent_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int write_number(int parent_fd, const char *name, const char *file, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return write_file(parent_fd, name, file, text);
}

int cgroup_join(const struct cgroups *groups, const char *name)
{
    for (unsigned i = 0; i < groups->count; i++) {
        int r = write_file(groups->items[i].fd, name, "cgroup.procs", "0");
        if (r < 0)
            return r;
    }
    return 0;
}

void cgroup_cpu_quota(uint32_t millis, uint32_t *ret_quota_us, uint32_t *ret_period_us)
{
    uint32_t quota = millis * (CPU_PERIOD_US / 1000);
    *ret_quota_us = MAX(quota, CPU_QUOTA_MIN_US);
    *ret_period_us = quota >= CPU_QUOTA_MIN_US ? CPU_PERIOD_US : 1000 * CPU_QUOTA_MIN_US / millis;
}

static int limit_memory(const struct cgroups *groups, const char *name, uint64_t bytes)
{
    int fd = groups->items[groups->of[CGROUP_MEMORY]].fd;
    int r;
    if (groups->v2) {
        r = write_number(fd, name, "memory.max", bytes);
        if (r == 0)
            r = write_number(fd, name, "memory.swap.max", 0);
    } else {
        r = write_number(fd, name, "memory.limit_in_bytes", bytes);
        if (r == 0)
            r = write_number(fd, name, "memory.memsw.limit_in_bytes", bytes);
        else
            return r;
    }
    return r == -ENOENT ? 0 : r; /* a kernel without swap accounting has nothing to swap to */
}

static int limit_cpu(const struct cgroups *groups, const char *name, uint32_t millis)
{
    int fd = groups->items[groups->of[CGROUP_CPU]].fd;
    uint32_t quota, period;
    cgroup_cpu_quota(millis, &quota, &period);
    if (groups->v2) {
        char text[32];
        snprintf(text, sizeof(text), "%" PRIu32 " %" PRIu32, quota, period);
        return write_file(fd, name, "cpu.max", text);
    }
    int r = write_number(fd, name, "cpu.cfs_period_us", period);
    return r < 0 ? r : write_number(fd, name, "cpu.cfs_quota_us", quota);
}

int cgroup_limit(const struct cgroups *groups, const char *name, const struct cgroup_limits *limits)
{
    int r = 0;
    if (limits->memory_bytes != 0)
        r = limit_memory(groups, name, limits->memory_bytes);
    if (r == 0 && limits->cpu_millis != 0)
        r = limit_cpu(groups, name, limits->cpu_millis);
    if (r == 0 && groups->of[CGROUP_PIDS] >= 0)
        r = write_number(groups->items[groups->of[CGROUP_PIDS]].fd, name, "pids.max",
                         limits->pids != 0 ? limits->pids : CGROUP_PIDS_DEFAULT);
    return r;
}

int cgroup_check(const struct cgroups *groups, const struct cgroup_limits *limits,
                 struct error *err)
{
    const char *missing = NULL;
    if (limits->memory_bytes != 0 && groups->of[CGROUP_MEMORY] < 0)
        missing = "memory";
    else if (limits->cpu_millis != 0 && groups->of[CGROUP_CPU] < 0)
        missing = "cpu";
    else if (limits->pids != 0 && groups->of[CGROUP_PIDS] < 0)
        missing = "pids";
    if (missing == NULL)
        return 0;
    return error_set(err, ERR_UNSUPPORTED,
                     "a %s limit cannot be enforced: this machine has no usable %s cgroup "
                     "controller; leave the limit out or enable the controller",
                     missing, missing);
}

/* v1 has no file that kills a group. A pid read from it may be another process a moment later, so
 * it is signalled through a pidfd, and only if it is still listed once that is open. */
static int kill_listed(int parent_fd, const char *name, const struct buf *before)
{
    char path[CGROUP_NAME_MAX + 64];
    snprintf(path, sizeof(path), "%s/cgroup.procs", name);
    AUTO_FREE char *pids = mem_dup(before->data);
    char *save = NULL;
    for (char *line = strtok_r(pids, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        uint64_t pid;
        AUTO_CLOSE int pidfd = -1;
        if (str_to_u64(line, 2, INT32_MAX, &pid) < 0 || process_open((pid_t)pid, &pidfd) < 0)
            continue;
        CLEANUP(buf_done) struct buf now;
        buf_init(&now, PROCS_MAX);
        if (file_read_at(parent_fd, path, &now, NULL) < 0)
            return -EIO;
        AUTO_FREE char *listed = mem_printf("\n%s", now.data);
        AUTO_FREE char *wanted = mem_printf("\n%s\n", line);
        if (strstr(listed, wanted) != NULL)
            process_signal(pidfd, SIGKILL);
    }
    return 0;
}

int cgroup_kill(const struct cgroups *groups, const char *name)
{
    for (unsigned i = 0; i < groups->count; i++) {
        int fd = groups->items[i].fd;
        if (groups->v2 && write_file(fd, name, "cgroup.kill", "1") == 0)
            continue;
        char path[CGROUP_NAME_MAX + 64];
        snprintf(path, sizeof(path), "%s/cgroup.procs", name);
        CLEANUP(buf_done) struct buf pids;
        buf_init(&pids, PROCS_MAX);
        if (file_read_at(fd, path, &pids, NULL) == 0)
            kill_listed(fd, name, &pids);
    }
    return 0;
}

int cgroup_remove(const struct cgroups *groups, const char *name)
{
    int result = 0;
    for (unsigned i = 0; i < groups->count; i++) {
        if (unlinkat(groups->items[i].fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            result = -errno;
    }
    return result;
}

unsigned cgroup_oom_kills(const struct cgroups *groups, const char *name)
{
    if (groups->of[CGROUP_MEMORY] < 0)
        return 0;
    char path[CGROUP_NAME_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", name,
             groups->v2 ? "memory.events" : "memory.oom_control");
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 4096);
    if (file_read_at(groups->items[groups->of[CGROUP_MEMORY]].fd, path, &text, NULL) < 0)
        return 0;
    const char *line = strstr(text.data, "\noom_kill ");
    if (line == NULL)
        return 0;
    return (unsigned)MIN(strtoul(line + strlen("\noom_kill "), NULL, 10), UINT32_MAX);
}
