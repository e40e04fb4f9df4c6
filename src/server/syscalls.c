/* What an attacker who has taken over the server shall not find: new processes and programs, memory
 * that can be executed, traces of other processes, mounts, namespaces, other users, devices, and
 * the parts of the kernel that nobody needs to answer HTTP.
 *
 * A call that is not listed answers ENOSYS, not a signal: the list is made for the libraries of
 * today, those of tomorrow try newer calls first and fall back when there are none. A killed server
 * would be an outage for what is mostly a harmless question. Refusals are logged by the kernel
 * where it audits. */
#include "server/syscalls.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "seccomp/table.h"

#define SOCKET_KIND 0xfull /* of the type; the rest are flags */

/* No datagrams, no raw sockets, no netlink: addresses are numeric, nothing is looked up. */
static const struct seccomp_case socket_cases[] = {
    {{{INT, AF_UNIX, 0}, {SOCKET_KIND, SOCK_STREAM, 1}, {INT, 0, 2}}, ALLOW},    /* execd */
    {{{INT, AF_UNIX, 0}, {SOCKET_KIND, SOCK_SEQPACKET, 1}, {INT, 0, 2}}, ALLOW}, /* launcher */
    {{{INT, AF_INET, 0}, {SOCKET_KIND, SOCK_STREAM, 1}, {INT & ~(uint64_t)IPPROTO_TCP, 0, 2}},
     ALLOW},
    {{{INT, AF_INET6, 0}, {SOCKET_KIND, SOCK_STREAM, 1}, {INT & ~(uint64_t)IPPROTO_TCP, 0, 2}},
     ALLOW},
};

static const struct seccomp_case executable_cases[] = {
    {{{PROT_EXEC, 0, 2}}, ALLOW},
};

static const struct seccomp_case ioctl_cases[] = {
    {{{INT, FIONBIO, 1}}, ALLOW},
    {{{INT, FIONREAD, 1}}, ALLOW},
    {{{INT, TCGETS, 1}}, ALLOW}, /* stdio asks whether it writes to a terminal */
};

static const struct seccomp_case prlimit_cases[] = {
    {{{UINT64_MAX, 0, 2}}, ALLOW}, /* only asks */
};

#if !defined(__SANITIZE_ADDRESS__)
/* Threads (the database's checkpoints run on one), never processes. */
static const struct seccomp_case clone_cases[] = {
    {{{CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, 0}},
     ALLOW},
};

static const struct seccomp_case prctl_cases[] = {
    {{{INT, PR_SET_NAME, 0}}, ALLOW}, /* of threads */
};
#endif

static const struct seccomp_group groups[] = {
    /* Files: the database with its log, locks and index, and the key; which ones is Landlock's
     * matter. No links, no directories, no other owners, no attributes. */
    {"read write readv writev pread64 pwrite64 open openat close lseek fcntl fsync fdatasync "
     "ftruncate fallocate fchmod umask rename renameat renameat2 unlink unlinkat stat fstat lstat "
     "newfstatat statx access faccessat faccessat2 readlink readlinkat getcwd",
     NULL, ALLOW},
    {"ioctl", RULE(ioctl_cases, REFUSE(EPERM)), 0},

    /* The loop. */
    {"epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll eventfd2 pipe2", NULL,
     ALLOW},

    /* Clients, launcher and sandboxes. recvmsg brings descriptors that the launcher hands out. */
    {"bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt "
     "sendto recvfrom sendmsg recvmsg",
     NULL, ALLOW},
    {"socket", RULE(socket_cases, REFUSE(EAFNOSUPPORT)), 0},

    /* Memory that is never executed. */
    {"munmap mremap madvise brk", NULL, ALLOW},
    {"mmap mprotect", RULE(executable_cases, REFUSE(EPERM)), 0},

    /* Threads. clone3 must be absent: its flags lie in memory, where no filter can look. */
    {"futex futex_wait futex_wake set_robust_list rseq set_tid_address exit exit_group sched_yield "
     "gettid getpid",
     NULL, ALLOW},
    {"clone3", NULL, REFUSE(ENOSYS)},
#if defined(__SANITIZE_ADDRESS__)
    /* Only in builds for tests: at the exit LeakSanitizer stops all threads with a process that
     * traces them, and looks at their memory. */
    {"clone ptrace wait4 kill prctl getdents getdents64 getppid sched_getaffinity mincore pipe "
     "dup2 "
     "process_vm_readv setrlimit arch_prctl",
     NULL, ALLOW},
#else
    {"clone", RULE(clone_cases, REFUSE(EPERM)), 0},
    {"prctl", RULE(prctl_cases, REFUSE(EPERM)), 0},
    {"sched_getaffinity", NULL, ALLOW},
#endif

    /* Signals: handlers, masks, and abort() to itself; Landlock keeps others out of reach. */
    {"rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack tgkill restart_syscall", NULL, ALLOW},

    /* Questions: time, random numbers, who and where one is, how much there is. */
    {"clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getrandom getuid "
     "geteuid getgid getegid uname sysinfo getrlimit getrusage",
     NULL, ALLOW},
    {"prlimit64", RULE(prlimit_cases, REFUSE(EPERM)), 0},
};

const struct seccomp_policy server_syscalls_policy = {
    .groups = groups,
    .count = ARRAY_LEN(groups),
    .otherwise = REFUSE(ENOSYS),
};

int server_syscalls_restrict(bool *ret_active, struct error *err)
{
    struct seccomp_filter filter;
    int r = seccomp_filter_compile(&filter, SECCOMP_FILTER_NATIVE, &server_syscalls_policy, err);
    if (r < 0)
        return r;
    r = seccomp_filter_load_logged(&filter);
    seccomp_filter_done(&filter);
    *ret_active = r == 0;
    if (r == 0 || r == -EINVAL || r == -ENOSYS) /* a kernel without filters */
        return 0;
    return error_set_errno(err, -r, "cannot load the system call filter");
}
