/* How the lists came about: everything that ordinary programs, compilers, language runtimes,
 * debuggers, databases and package managers call, but not
 *   - what makes namespaces or mounts: a process that gets a user namespace gets every capability
 *     inside it, and with them most of the kernel's attack surface;
 *   - large parts of the kernel with a record of holes that programs can do without (bpf, io_uring,
 *     userfaultfd, perf, keys);
 *   - what concerns the machine as a whole, even where it would take a capability that no sandbox
 *     has: two locks are better than one;
 *   - what takes from a resource that all sandboxes and the host share and nothing else limits.
 * Refused means EPERM where a program that was refused the privilege would see it, or whatever the
 * kernel says when it was built without the thing, which is what programs are prepared for. */
#include "launcher/seccomp_table.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "seccomp/table.h"

/* The constants of clone, ioctl, mmap and sockets used here are the same on both architectures. */
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#endif

/* CLONE_NEWTIME is not among them: clone keeps the signal in those bits and has no such flag. */
#define NAMESPACES                                                                           \
    ((uint64_t)CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
     CLONE_NEWPID | CLONE_NEWNET)

static const struct seccomp_case clone_cases[] = {
    {{{NAMESPACES, 0, 0}}, ALLOW},
};

/* What is not a namespace: leaving off sharing files, directory or semaphores with one's threads.
 * All 64 bits, since the kernel looks at all. */
static const struct seccomp_case unshare_cases[] = {
    {{{~(uint64_t)(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM), 0, 0}}, ALLOW},
};

/* AF_INET and AF_INET6 differ in one bit. Types up to SOCK_RAW; the ones above are DCCP's, SCTP's
 * and that of packet sockets. */
#define INTERNET(protocol)                                               \
    {                                                                    \
        {{INT & ~(uint64_t)(AF_INET ^ AF_INET6), AF_INET & AF_INET6, 0}, \
         {0xc, 0, 1},                                                    \
         {INT, (protocol), 2}},                                          \
            ALLOW                                                        \
    }

/* Each family and protocol is a part of the kernel of its own, loaded on demand, and the seldom
 * used ones are where the holes are. */
static const struct seccomp_case socket_cases[] = {
    {{{INT, AF_UNIX, 0}}, ALLOW},
    INTERNET(0),
    INTERNET(IPPROTO_TCP),
    INTERNET(IPPROTO_UDP),
    INTERNET(IPPROTO_ICMP), /* ping; a raw one takes a capability nobody has */
    INTERNET(IPPROTO_ICMPV6),
    {{{INT & ~(uint64_t)(AF_INET ^ AF_INET6), AF_INET &AF_INET6, 0}}, REFUSE(EPROTONOSUPPORT)},
    /* Interfaces and routes, which every resolver asks for; not netfilter, audit and the rest. */
    {{{INT, AF_NETLINK, 0}, {INT, NETLINK_ROUTE, 2}}, ALLOW},
    {{{INT, AF_NETLINK, 0}}, REFUSE(EPROTONOSUPPORT)},
};

/* It makes both sockets, and loads the family's module, before it finds that the family has no
 * pairs. */
static const struct seccomp_case socketpair_cases[] = {
    {{{INT, AF_UNIX, 0}}, ALLOW},
};

/* No address randomization is what gdb and `setarch -R` ask for; it concerns the caller only, and
 * no program gains privileges by execve here. */
static const struct seccomp_case personality_cases[] = {
    {{{INT & ~(uint64_t)(PER_LINUX32 | UNAME26 | ADDR_NO_RANDOMIZE), 0, 0}}, ALLOW},
    {{{INT, 0xffffffff, 0}}, ALLOW}, /* only asks */
};

static const struct seccomp_case ioctl_cases[] = {
    /* Typing into somebody's terminal. */
    {{{INT, TIOCSTI, 1}}, REFUSE(EPERM)},
    {{{INT, TIOCLINUX, 1}}, REFUSE(EPERM)},
    /* Line disciplines: modem and radio protocols in the kernel, on any pseudo terminal. */
    {{{INT, TIOCSETD, 1}}, REFUSE(EPERM)},
    /* On any socket these load a module (bridge, 8021q) before they look at capabilities. */
    {{{INT, SIOCGIFBR, 1}}, REFUSE(EPERM)},
    {{{INT, SIOCSIFBR, 1}}, REFUSE(EPERM)},
    {{{INT, SIOCBRADDBR, 1}}, REFUSE(EPERM)},
    {{{INT, SIOCBRDELBR, 1}}, REFUSE(EPERM)},
    {{{INT, SIOCGIFVLAN, 1}}, REFUSE(EPERM)},
    {{{INT, SIOCSIFVLAN, 1}}, REFUSE(EPERM)},
};

static const struct seccomp_case prctl_cases[] = {
    /* Keeps everybody else off the other hardware threads of a core. */
    {{{INT, PR_SCHED_CORE, 0}}, REFUSE(EINVAL)},
};

/* Huge pages that the machine's owner set aside for somebody: one pool for the whole machine, of
 * which memory limits know nothing. Transparent huge pages are others and work. */
static const struct seccomp_case mmap_cases[] = {
    {{{MAP_HUGETLB, 0, 3}}, ALLOW},
};

/* EINVAL as from a kernel that does not know the flag: programs probe with all flags at once. */
static const struct seccomp_case memfd_cases[] = {
    {{{MFD_HUGETLB, 0, 1}}, ALLOW},
};

/* The launcher sets the core limit to 1: where the host hands core dumps to a program of its own,
 * that alone keeps the kernel from running it, as root, on what a sandbox wrote; 0 does not. So it
 * stays 1. Programs that give up core dumps, which some insist on, are told that they have. */
static const struct seccomp_case setrlimit_cases[] = {
    {{{INT, RLIMIT_CORE, 0}}, REFUSE(0)},
};

static const struct seccomp_case prlimit_cases[] = {
    {{{INT, RLIMIT_CORE, 1}, {UINT64_MAX, 0, 2}}, ALLOW},     /* only asks */
    {{{INT, RLIMIT_CORE, 1}, {UINT64_MAX, 0, 3}}, REFUSE(0)}, /* only sets */
    {{{INT, RLIMIT_CORE, 1}}, REFUSE(EPERM)},                 /* both: there is no answer to give */
};

const struct seccomp_group seccomp_table[] = {
    /* Files. mknod makes pipes and sockets; the kernel refuses device nodes in a user namespace.
     * chroot leads to a part of what one has already. A handle of name_to_handle_at is good for
     * nothing without open_by_handle_at, but tells mounts apart. */
    {"read write open openat openat2 close close_range creat stat fstat lstat newfstatat statx "
     "statfs fstatfs lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 access "
     "faccessat faccessat2 dup dup2 dup3 fcntl flock fsync fdatasync sync syncfs sync_file_range "
     "truncate ftruncate fallocate getdents getdents64 getcwd chdir fchdir rename renameat "
     "renameat2 mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink "
     "readlinkat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utime utimes "
     "utimensat futimesat mknod mknodat chroot sendfile splice tee vmsplice copy_file_range "
     "fadvise64 readahead cachestat name_to_handle_at setxattr lsetxattr fsetxattr setxattrat "
     "getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat "
     "removexattr lremovexattr fremovexattr removexattrat pipe pipe2 inotify_init inotify_init1 "
     "inotify_add_watch inotify_rm_watch",
     NULL, ALLOW},
    {"ioctl", RULE(ioctl_cases, ALLOW), 0},
    {"memfd_create", RULE(memfd_cases, REFUSE(EINVAL)), 0},

    /* Waiting. */
    {"poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
     "epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime "
     "timerfd_gettime",
     NULL, ALLOW},

    /* Memory. process_vm_* reads and writes what the caller may trace. */
    {"munmap mprotect mremap msync madvise mincore brk mlock mlock2 munlock mlockall munlockall "
     "pkey_alloc pkey_free pkey_mprotect mseal map_shadow_stack membarrier mbind set_mempolicy "
     "get_mempolicy process_madvise process_mrelease process_vm_readv process_vm_writev",
     NULL, ALLOW},
    {"mmap", RULE(mmap_cases, REFUSE(ENOMEM)), 0},

    /* Processes and threads. ptrace is for gdb and strace: it reaches what has the caller's ids in
     * the caller's namespaces, and execd, whose file nobody may read, not at all. Filters and
     * Landlock rules of a sandbox's own only ever take away: an errno of ours goes before whatever
     * its filter, tracer or notified supervisor says. uretprobe and uprobe are what a program
     * finds itself calling when the host's owner traces it. */
    {"fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid "
     "getpgrp setpgid getsid setsid set_tid_address set_robust_list get_robust_list futex "
     "futex_waitv futex_wake futex_wait futex_requeue rseq arch_prctl ptrace kcmp pidfd_open "
     "pidfd_send_signal pidfd_getfd kill tkill tgkill set_thread_area get_thread_area "
     "landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp uretprobe uprobe",
     NULL, ALLOW},
    {"clone", RULE(clone_cases, REFUSE(EPERM)), 0},
    /* Its flags lie in memory, where no filter can look: every libc then uses clone. */
    {"clone3", NULL, REFUSE(ENOSYS)},
    {"unshare", RULE(unshare_cases, REFUSE(EPERM)), 0},
    {"prctl", RULE(prctl_cases, ALLOW), 0},
    {"personality", RULE(personality_cases, REFUSE(EPERM)), 0},

    /* Signals. */
    {"rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo "
     "rt_tgsigqueueinfo rt_sigsuspend sigaltstack pause restart_syscall",
     NULL, ALLOW},

    /* Identity, limits, scheduling of one's own. */
    {"getuid geteuid getgid getegid setuid setgid setreuid setregid setresuid getresuid "
     "setresgid getresgid setfsuid setfsgid getgroups setgroups capget capset getrlimit "
     "getrusage getpriority setpriority ioprio_get ioprio_set sched_yield "
     "sched_getparam sched_setparam sched_getscheduler sched_setscheduler sched_get_priority_max "
     "sched_get_priority_min sched_rr_get_interval sched_getaffinity sched_setaffinity "
     "sched_getattr sched_setattr getcpu uname sysinfo times getrandom",
     NULL, ALLOW},

    {"setrlimit", RULE(setrlimit_cases, ALLOW), 0},
    {"prlimit64", RULE(prlimit_cases, ALLOW), 0},

    /* Time. The adjusting ones also tell. */
    {"gettimeofday time clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer "
     "setitimer timer_create timer_delete timer_settime timer_gettime timer_getoverrun adjtimex "
     "clock_adjtime",
     NULL, ALLOW},

    /* Sockets, and System V and POSIX ipc. */
    {"connect accept accept4 bind listen getsockname getpeername getsockopt setsockopt sendto "
     "recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown shmget shmat shmctl shmdt semget semop "
     "semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend "
     "mq_timedreceive mq_notify mq_getsetattr",
     NULL, ALLOW},
    {"socket", RULE(socket_cases, REFUSE(EAFNOSUPPORT)), 0},
    {"socketpair", RULE(socketpair_cases, REFUSE(EAFNOSUPPORT)), 0},

    /* Namespaces and mounts. */
    {"setns mount umount umount2 move_mount open_tree fsopen fsconfig fsmount fspick "
     "mount_setattr pivot_root open_by_handle_at",
     NULL, REFUSE(EPERM)},

    /* Large and seldom needed parts of the kernel. request_key also runs a program of the host. */
    {"bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key "
     "request_key keyctl fanotify_init fanotify_mark migrate_pages",
     NULL, REFUSE(EPERM)},

    /* As if the kernel did not have them: memfd_secret cuts the kernel's own map of memory into
     * pieces, for the whole machine; move_pages moves pages of files that others use, too;
     * remap_file_pages and modify_ldt are relics with a history. The kernel counts the requests
     * that io_setup makes room for over the whole machine (fs.aio-max-nr), so that one call of a
     * sandbox could leave none for all others; databases do without it where a kernel does not have
     * it. */
    {"memfd_secret move_pages remap_file_pages modify_ldt io_setup io_destroy io_submit io_cancel "
     "io_getevents io_pgetevents",
     NULL, REFUSE(ENOSYS)},

    /* The machine. */
    {"kexec_load kexec_file_load init_module finit_module delete_module create_module "
     "query_module get_kernel_syms swapon swapoff reboot acct quotactl quotactl_fd sethostname "
     "setdomainname settimeofday clock_settime stime syslog iopl ioperm vhangup lookup_dcookie "
     "nfsservctl uselib _sysctl",
     NULL, REFUSE(EPERM)},
};

const size_t seccomp_table_count = ARRAY_LEN(seccomp_table);

static const struct seccomp_policy policy = {
    .groups = seccomp_table,
    .count = ARRAY_LEN(seccomp_table),
    .otherwise = REFUSE(ENOSYS),
};

int seccomp_table_build_for(struct seccomp_filter *filter, uint32_t audit_arch, struct error *err)
{
    return seccomp_filter_compile(filter, audit_arch, &policy, err);
}

int seccomp_table_build(struct seccomp_filter *filter, struct error *err)
{
    return seccomp_table_build_for(filter, SECCOMP_FILTER_NATIVE, err);
}
