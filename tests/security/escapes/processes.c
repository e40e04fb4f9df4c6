/* Processes of the host by their numbers (PID is that of the test's victim), and gaining more than
 * one's share of the machine or more privileges than one has. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "escapes.h"

#define IOPRIO_REAL_TIME (1 << 13)
#define USER             1000
#define PROGRAM          "/tmp/osb-setid"

/* Its number, or -ESRCH: a process of the sandbox may happen to have the same. */
static pid_t find_victim(const char *number)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%s/cmdline", number);
    if (escapes_find_in(path, "victim") != 0)
        return -ESRCH;
    return (pid_t)strtol(number, NULL, 10);
}

/* PID */
static int host_signal(char **arguments)
{
    pid_t pid = find_victim(arguments[0]);
    return pid < 0 ? pid : escapes_result(kill(pid, SIGURG)); /* which is ignored */
}

/* PID PATH SECRET: a file of the host in the root directory of a process of the host. */
static int host_root(char **arguments)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "/proc/%s/root/%s", arguments[0], arguments[1]);
    return escapes_find_in(path, arguments[2]);
}

/* PID FD SECRET */
static int host_descriptor(char **arguments)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%s/fd/%s", arguments[0], arguments[1]);
    return escapes_find_in(path, arguments[2]);
}

/* PID FD SECRET */
static int host_take_descriptor(char **arguments)
{
    pid_t pid = find_victim(arguments[0]);
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return pid < 0 ? pid : -errno;
    int fd = (int)syscall(SYS_pidfd_getfd, pidfd, strtol(arguments[1], NULL, 10), 0);
    if (fd < 0)
        return -errno;
    (void)lseek(fd, 0, SEEK_SET);
    return escapes_find(fd, arguments[2]);
}

/* PID ADDRESS SECRET */
static int host_memory(char **arguments)
{
    char bytes[64] = "";
    pid_t pid = (pid_t)strtol(arguments[0], NULL, 10);
    struct iovec here = {bytes, strlen(arguments[2])};
    struct iovec there = {(void *)(uintptr_t)strtoull(arguments[1], NULL, 16), here.iov_len};
    if (here.iov_len >= sizeof(bytes) || process_vm_readv(pid, &here, 1, &there, 1, 0) < 0)
        return -errno;
    return strcmp(bytes, arguments[2]) == 0 ? 0 : TO_NO_AVAIL;
}

/* PID */
static int host_trace(char **arguments)
{
    pid_t pid = find_victim(arguments[0]);
    return pid < 0 ? pid : escapes_result(ptrace(PTRACE_SEIZE, pid, 0, 0));
}

/* PID */
static int host_limit(char **arguments)
{
    struct rlimit limit;
    pid_t pid = find_victim(arguments[0]);
    if (pid < 0 || prlimit(pid, RLIMIT_CORE, NULL, &limit) < 0)
        return pid < 0 ? pid : -errno;
    return escapes_result(prlimit(pid, RLIMIT_CORE, &limit, NULL));
}

/* PID */
static int host_priority(char **arguments)
{
    pid_t pid = find_victim(arguments[0]);
    return pid < 0 ? pid : escapes_result(setpriority(PRIO_PROCESS, (id_t)pid, 1));
}

static int real_time(char **arguments)
{
    (void)arguments;
    struct sched_param first = {.sched_priority = 1};
    return escapes_result(sched_setscheduler(0, SCHED_FIFO, &first));
}

static int real_time_deadline(char **arguments)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr),
              .policy = 6,
              .runtime = 1000000,
              .deadline = 100000000,
              .period = 100000000};
    (void)arguments;
    return escapes_result(syscall(SYS_sched_setattr, 0, &attr, 0));
}

static int nice_negative(char **arguments)
{
    (void)arguments;
    return escapes_result(setpriority(PRIO_PROCESS, 0, -20));
}

static int io_real_time(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_ioprio_set, 1, 0, IOPRIO_REAL_TIME));
}

static int oom_score(char **arguments)
{
    (void)arguments;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : escapes_result(write(fd, "-1000", 5));
}

static int raise_limit(char **arguments)
{
    struct rlimit limit;
    (void)arguments;
    if (getrlimit(RLIMIT_NICE, &limit) < 0)
        return -errno;
    limit.rlim_max++;
    return escapes_result(setrlimit(RLIMIT_NICE, &limit));
}

static int copy_self(void)
{
    char bytes[65536];
    ssize_t n = 0;
    (void)mkdir("/tmp", 01777);
    (void)unlink(PROGRAM);
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(PROGRAM, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (from < 0 || to < 0)
        return -errno;
    while ((n = read(from, bytes, sizeof(bytes))) > 0) {
        if (write(to, bytes, (size_t)n) != n)
            return -errno;
    }
    close(from);
    close(to);
    return n < 0 ? -errno : 0;
}

/* As an ordinary user: does the program make us root? */
static int run_as_user(void)
{
    if (setgid(USER) < 0 || setuid(USER) < 0)
        return -errno;
    execl(PROGRAM, PROGRAM, "root", (char *)NULL);
    return -errno;
}

static int setid_program(char **arguments)
{
    (void)arguments;
    int r = copy_self();
    if (r < 0 || chmod(PROGRAM, 04755) < 0)
        return r < 0 ? r : -errno;
    return escapes_in_child(run_as_user);
}

static int file_capability(char **arguments)
{
    struct vfs_cap_data data = {
        .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
        .data = {{.permitted = 1u << CAP_SETUID}},
    };
    (void)arguments;
    int r = copy_self();
    if (r < 0 || setxattr(PROGRAM, "security.capability", &data, sizeof(data), 0) < 0)
        return r < 0 ? r : -errno;
    return escapes_in_child(run_as_user);
}

const struct escape escapes_of_processes[] = {
    {"host_signal", 1, host_signal},
    {"host_root", 3, host_root},
    {"host_descriptor", 3, host_descriptor},
    {"host_take_descriptor", 3, host_take_descriptor},
    {"host_memory", 3, host_memory},
    {"host_trace", 1, host_trace},
    {"host_limit", 1, host_limit},
    {"host_priority", 1, host_priority},
    {"real_time", 0, real_time},
    {"real_time_deadline", 0, real_time_deadline},
    {"nice_negative", 0, nice_negative},
    {"io_real_time", 0, io_real_time},
    {"oom_score", 0, oom_score},
    {"raise_limit", 0, raise_limit},
    {"setid_program", 0, setid_program},
    {"file_capability", 0, file_capability},
    {NULL, 0, NULL},
};
