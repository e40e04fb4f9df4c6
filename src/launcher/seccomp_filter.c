/* Namespaces need a word: a sandbox that can make a user namespace gets every capability inside it
 * and with them most of the kernel's attack surface (mount, netfilter, traffic control). So
 * unshare, setns and clone with a namespace flag are refused, and clone3, whose flags lie in memory
 * where no filter can look, answers ENOSYS: every libc then uses clone. */
#include "launcher/seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "add this architecture's AUDIT_ARCH_ constant"
#endif

/* Separated by spaces. Names the library does not know on this architecture are skipped: they do
 * not exist there. */
static const char *const allowed[] = {
    /* files */
    "read write open openat openat2 close close_range creat stat fstat lstat newfstatat statx "
    "statfs fstatfs lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 access "
    "faccessat faccessat2 dup dup2 dup3 fcntl flock fsync fdatasync sync syncfs sync_file_range "
    "truncate ftruncate fallocate getdents getdents64 getcwd chdir fchdir rename renameat "
    "renameat2 mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink "
    "readlinkat chmod fchmod fchmodat chown fchown lchown fchownat umask utime utimes utimensat "
    "futimesat mknod mknodat chroot sendfile splice tee vmsplice copy_file_range fadvise64 "
    "readahead name_to_handle_at setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr "
    "listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr ioctl pipe pipe2 "
    "memfd_create memfd_secret inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
    /* waiting */
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
    "epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime "
    "timerfd_gettime io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
    /* memory */
    "mmap munmap mprotect mremap msync madvise mincore brk mlock mlock2 munlock mlockall "
    "munlockall remap_file_pages pkey_alloc pkey_free pkey_mprotect membarrier mbind "
    "set_mempolicy get_mempolicy move_pages process_madvise process_mrelease process_vm_readv "
    "process_vm_writev",
    /* processes and threads */
    "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid "
    "getpgrp setpgid getsid setsid set_tid_address set_robust_list get_robust_list futex "
    "futex_waitv rseq arch_prctl prctl ptrace kcmp pidfd_open pidfd_send_signal pidfd_getfd "
    "kill tkill tgkill set_thread_area get_thread_area landlock_create_ruleset "
    "landlock_add_rule landlock_restrict_self seccomp",
    /* signals */
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo "
    "rt_tgsigqueueinfo rt_sigsuspend sigaltstack pause restart_syscall",
    /* identity and limits */
    "getuid geteuid getgid getegid setuid setgid setreuid setregid setresuid getresuid "
    "setresgid getresgid setfsuid setfsgid getgroups setgroups capget capset getrlimit "
    "setrlimit prlimit64 getrusage getpriority setpriority ioprio_get ioprio_set sched_yield "
    "sched_getparam sched_setparam sched_getscheduler sched_setscheduler sched_get_priority_max "
    "sched_get_priority_min sched_rr_get_interval sched_getaffinity sched_setaffinity "
    "sched_getattr sched_setattr getcpu uname sysinfo times getrandom",
    /* time */
    "gettimeofday time clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer "
    "setitimer timer_create timer_delete timer_settime timer_gettime timer_getoverrun adjtimex "
    "clock_adjtime",
    /* sockets (socket itself is further down) and System V and POSIX ipc */
    "socketpair connect accept accept4 bind listen getsockname getpeername getsockopt "
    "setsockopt sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown shmget shmat shmctl "
    "shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink "
    "mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
};

/* Younger than the library. These numbers are the same on every architecture. */
static const int allowed_numbers[] = {
    451, /* cachestat */
    452, /* fchmodat2 */
    454, /* futex_wake */
    455, /* futex_wait */
    456, /* futex_requeue */
    462, /* mseal */
    463, /* setxattrat */
    464, /* getxattrat */
    465, /* listxattrat */
    466, /* removexattrat */
};

static const char *const refused[] = {
    /* namespaces and mounts */
    "unshare setns mount umount umount2 move_mount open_tree fsopen fsconfig fsmount fspick "
    "mount_setattr pivot_root open_by_handle_at",
    /* large and seldom needed parts of the kernel */
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key "
    "request_key keyctl fanotify_init fanotify_mark migrate_pages",
    /* the machine */
    "kexec_load kexec_file_load init_module finit_module delete_module create_module "
    "query_module get_kernel_syms swapon swapoff reboot acct quotactl quotactl_fd sethostname "
    "setdomainname settimeofday clock_settime stime syslog iopl ioperm vhangup lookup_dcookie "
    "nfsservctl uselib _sysctl",
};

static const uint64_t personalities[] = {
    0x0,                /* Linux */
    0x8,                /* PER_LINUX32 */
    0x20000,            /* UNAME26 */
    0x20008,            /* both */
    0xffffffff,         /* only asks */
    0xffffffffffffffff, /* only asks, with the sign extended */
};

static const uint64_t namespace_flags[] = {
    CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
    CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET,
};

static int add_names(scmp_filter_ctx ctx, uint32_t action, const char *const *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO_FREE char *names = mem_dup(groups[i]);
        char *save = NULL;
        for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
            int number = seccomp_syscall_resolve_name(name);
            int r = number < 0 ? 0 : seccomp_rule_add(ctx, action, number, 0);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static struct scmp_arg_cmp compare(unsigned argument, enum scmp_compare how, uint64_t value)
{
    return (struct scmp_arg_cmp){.arg = argument, .op = how, .datum_a = value};
}

static struct scmp_arg_cmp masked(unsigned argument, uint64_t mask, uint64_t value)
{
    return (struct scmp_arg_cmp){
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

static int add_clone(scmp_filter_ctx ctx)
{
    uint64_t all = 0;
    for (size_t i = 0; i < ARRAY_LEN(namespace_flags); i++) {
        uint64_t flag = namespace_flags[i];
        all |= flag;
        int r =
            seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, masked(0, flag, flag));
        if (r < 0)
            return r;
    }
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, masked(0, all, 0));
}

static int add_socket(scmp_filter_ctx ctx)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(families) && r == 0; i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                             compare(0, SCMP_CMP_EQ, (uint64_t)families[i]));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                             compare(0, SCMP_CMP_EQ, AF_NETLINK),
                             compare(2, SCMP_CMP_EQ, NETLINK_ROUTE));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                             compare(0, SCMP_CMP_EQ, AF_NETLINK),
                             compare(2, SCMP_CMP_NE, NETLINK_ROUTE));
    /* The gaps: what programs expect of a kernel that was built without a family. */
    for (uint64_t family = 0; family < AF_NETLINK && r == 0; family++) {
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
            r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                 compare(0, SCMP_CMP_EQ, family));
    }
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                             compare(0, SCMP_CMP_GT, AF_NETLINK));
    return r;
}

static int add_rules(scmp_filter_ctx ctx)
{
    int r = add_names(ctx, SCMP_ACT_ALLOW, allowed, ARRAY_LEN(allowed));
    for (size_t i = 0; i < ARRAY_LEN(allowed_numbers) && r == 0; i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed_numbers[i], 0);
    if (r == 0)
        r = add_names(ctx, SCMP_ACT_ERRNO(EPERM), refused, ARRAY_LEN(refused));
    if (r == 0)
        r = add_clone(ctx);
    if (r == 0)
        r = add_socket(ctx);
    for (size_t i = 0; i < ARRAY_LEN(personalities) && r == 0; i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                             compare(0, SCMP_CMP_EQ, personalities[i]));
    return r;
}

/* Typing into somebody's terminal. The kernel looks at the low 32 bits of the request only, which
 * an allow-list of the library cannot express ("all but these two, whatever the high bits"), so
 * these instructions stand before its program; jumps are relative, so the two just join. */
static const struct sock_filter terminal_guard[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 0, 6),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
    /* little endian: the low half comes first */
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
};

/* The library writes a program only to a file. */
static int export_program(scmp_filter_ctx ctx, struct sock_fprog *ret)
{
    AUTO_CLOSE int fd = memfd_create("seccomp", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = seccomp_export_bpf(ctx, fd);
    if (r < 0)
        return r;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    size_t exported = (size_t)st.st_size / sizeof(struct sock_filter);
    size_t guard = ARRAY_LEN(terminal_guard);
    if (exported == 0 || exported + guard > BPF_MAXINSNS)
        return -E2BIG;
    AUTO_FREE struct sock_filter *code = mem_alloc_array(guard + exported, sizeof(*code));
    memcpy(code, terminal_guard, sizeof(terminal_guard));
    if (pread(fd, code + guard, (size_t)st.st_size, 0) != st.st_size)
        return -EIO;
    ret->len = (unsigned short)(guard + exported);
    ret->filter = TAKE_PTR(code);
    return 0;
}

int seccomp_filter_build(struct seccomp_filter *filter, struct error *err)
{
    *filter = (struct seccomp_filter){0};
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (ctx == NULL)
        return error_set(err, ERR_INTERNAL, "cannot make a system call filter");
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0)
        r = add_rules(ctx);
    if (r == 0)
        r = export_program(ctx, &filter->program);
    seccomp_release(ctx);
    if (r < 0)
        return error_set_errno(err, -r, "cannot build the system call filter");
    return 0;
}

void seccomp_filter_done(struct seccomp_filter *filter)
{
    free(TAKE_PTR(filter->program.filter));
    filter->program.len = 0;
}

int seccomp_filter_load(const struct seccomp_filter *filter)
{
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter->program) < 0)
        return -errno;
    return 0;
}
