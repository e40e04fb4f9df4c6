/* Process 1: it has the sandbox's socket, descriptors of control groups and files of the host. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "escapes.h"

#define IDLE_FILE "/proc/1/fd/5" /* of the launcher, given to be executed */
#define EXECD     "/proc/1/exe"
#define SOCKET_FD 3
#define SOMEWHERE 0x400000 /* where programs without random addresses are */

static int read_some(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, &byte, 1);
    int code = errno;
    close(fd);
    if (n < 0)
        return -code;
    return n == 1 ? 0 : TO_NO_AVAIL;
}

static int execd_root(char **arguments)
{
    (void)arguments;
    return escapes_result(open("/proc/1/root/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int execd_environment(char **arguments)
{
    (void)arguments;
    return read_some("/proc/1/environ");
}

static int execd_program(char **arguments)
{
    (void)arguments;
    return read_some(EXECD);
}

static int execd_files(char **arguments)
{
    char path[256];
    (void)arguments;
    return escapes_result(readlink("/proc/1/fd/3", path, sizeof(path)));
}

/* What its first writable memory is. */
static int find_memory(uintptr_t *ret_address)
{
    char line[512], mode[5];
    FILE *maps = fopen("/proc/1/maps", "re");
    if (maps == NULL)
        return -errno;
    int r = TO_NO_AVAIL;
    while (r < 0 && fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%lx-%*x %4s", ret_address, mode) == 2 && strcmp(mode, "rw-p") == 0)
            r = 0;
    }
    (void)fclose(maps);
    return r;
}

static int execd_memory(char **arguments)
{
    uintptr_t address;
    char byte;
    (void)arguments;
    int r = find_memory(&address);
    int fd = open("/proc/1/mem", O_RDWR | O_CLOEXEC);
    if (fd < 0 || r < 0)
        return r < 0 ? r : -errno;
    if (pread(fd, &byte, 1, (off_t)address) != 1)
        return -errno;
    return pwrite(fd, &byte, 1, (off_t)address) == 1 ? 0 : -errno;
}

static int execd_vm_write(char **arguments)
{
    uintptr_t address;
    char byte = 0;
    (void)arguments;
    if (find_memory(&address) < 0)
        address = SOMEWHERE;
    struct iovec here = {&byte, 1}, there = {(void *)address, 1};
    if (process_vm_readv(1, &here, 1, &there, 1, 0) != 1)
        return -errno;
    return process_vm_writev(1, &here, 1, &there, 1, 0) == 1 ? 0 : -errno;
}

static int execd_trace(char **arguments)
{
    (void)arguments;
    if (ptrace(PTRACE_SEIZE, 1, 0, 0) < 0)
        return -errno;
    return 0; /* it is let go when we end */
}

/* Its listening socket: whoever has it answers in the sandbox's name. */
static int execd_socket(char **arguments)
{
    (void)arguments;
    int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
    if (pidfd < 0)
        return -errno;
    int fd = (int)syscall(SYS_pidfd_getfd, pidfd, SOCKET_FD, 0);
    if (fd < 0)
        return -errno;
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) < 0)
        return -errno;
    return listens ? 0 : TO_NO_AVAIL;
}

/* While it runs it is "busy", said after the permission was given: a moment later it is not. */
static int execd_overwrite(char **arguments)
{
    (void)arguments;
    return escapes_past(open(EXECD, O_WRONLY | O_CLOEXEC), ETXTBSY);
}

static int host_program_overwrite(char **arguments)
{
    (void)arguments;
    return escapes_past(open(IDLE_FILE, O_WRONLY | O_CLOEXEC), ETXTBSY);
}

/* How the kernel's addresses of two objects compare: a step on the way to knowing them. */
static int execd_compare(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_kcmp, 1, getpid(), KCMP_VM, 0, 0));
}

static int execd_oom_score(char **arguments)
{
    (void)arguments;
    return escapes_write_back("/proc/1/oom_score_adj");
}

const struct escape escapes_of_execd[] = {
    {"execd_compare", 0, execd_compare},
    {"execd_oom_score", 0, execd_oom_score},
    {"execd_root", 0, execd_root},
    {"execd_environment", 0, execd_environment},
    {"execd_program", 0, execd_program},
    {"execd_files", 0, execd_files},
    {"execd_memory", 0, execd_memory},
    {"execd_vm_write", 0, execd_vm_write},
    {"execd_trace", 0, execd_trace},
    {"execd_socket", 0, execd_socket},
    {"execd_overwrite", 0, execd_overwrite},
    {"host_program_overwrite", 0, host_program_overwrite},
    {NULL, 0, NULL},
};
