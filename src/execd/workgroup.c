#include "execd/workgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define OOM_SCORE_STEP 100 /* as the launcher has it: a tenth of the memory there is */

static int work_fds[EXECD_WORKGROUP_FDS_MAX];
static size_t work_count;

int execd_workgroup_init(const int *fds, size_t count, struct error *err)
{
    if (count > EXECD_WORKGROUP_FDS_MAX)
        return error_set(err, ERR_INVALID, "more than %d work groups", EXECD_WORKGROUP_FDS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) < 0)
            return error_set_errno(err, errno, "--work-fd %d", fds[i]);
        work_fds[i] = fds[i];
    }
    work_count = count;
    return 0;
}

bool execd_workgroup_exists(void)
{
    return work_count > 0;
}

/* UINT64_MAX for "max" and for what cannot be read. */
static uint64_t read_number(const char *path)
{
    char text[24];
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    uint64_t number = 0;
    ssize_t i = 0;
    for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(text[i] - '0');
    return i > 0 ? number : UINT64_MAX;
}

/* The launcher shows the group there, on version 1 and on version 2. */
static bool is_over_limit(void)
{
    static const char *const paths[][2] = {
        {"/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids/pids.current"},
        {"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids.current"},
    };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        uint64_t limit = read_number(paths[i][0]);
        if (limit == UINT64_MAX)
            continue;
        uint64_t current = read_number(paths[i][1]);
        return current != UINT64_MAX && current > limit;
    }
    return false;
}

int execd_workgroup_join_in_child(void)
{
    for (size_t i = 0; i < work_count; i++) {
        if (write(work_fds[i], "0", 1) != 1)
            return -1;
    }
    if (work_count > 0 && is_over_limit()) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

void execd_workgroup_spare(pid_t pid)
{
    char path[48], text[24];
    uint64_t score = work_count > 0 ? read_number("/proc/self/oom_score_adj") : UINT64_MAX;
    if (score == UINT64_MAX || score < OOM_SCORE_STEP)
        return;
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    int length = snprintf(text, sizeof(text), "%d", (int)(score - OOM_SCORE_STEP));
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t)length) < 0)
        log_debug("the entrypoint is not spared when memory runs out: %s", strerror(errno));
}
