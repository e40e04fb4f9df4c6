/* Ways around the filter: other entries into the kernel, and supervisors of one's own. What each
 * tries to get past it is unshare(CLONE_NEWUSER). */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escapes.h"

static int load(struct sock_filter *code, unsigned short length, unsigned flags)
{
    struct sock_fprog program = {.len = length, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return r < 0 ? -errno : (int)r;
}

/* A filter that allows everything, later than ours. */
static int own_filter(char **arguments)
{
    (void)arguments;
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    int r = load(all, 1, 0);
    return r < 0 ? r : escapes_result(unshare(CLONE_NEWUSER));
}

static int notified_unshare(int listener)
{
    struct seccomp_notif asked = {0};
    struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
        return -errno;
    answer.id = asked.id;
    return escapes_result(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer));
}

/* A supervisor that says of a refused call: go on. The filter is inherited, so it is the parent
 * that is supervised, by a child that leaves unshare alone. */
static int own_supervisor(char **arguments)
{
    (void)arguments;
    struct sock_filter notify[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    int listener = load(notify, 4, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (listener < 0)
        return listener;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        _exit(notified_unshare(listener) == 0 ? 0 : 1);
    close(listener);
    int r = escapes_result(unshare(CLONE_NEWUSER));
    kill(pid, SIGKILL); /* where our filter answered it was never asked */
    waitpid(pid, NULL, 0);
    return r;
}

#ifdef __x86_64__

/* As a 32-bit program would; unshare has another number there. */
static int int80(char **arguments)
{
    (void)arguments;
    long answer = 310;
    __asm__ volatile("int $0x80"
                     : "+a"(answer)
                     : "b"((long)CLONE_NEWUSER)
                     : "memory", "r8", "r9", "r10", "r11");
    answer = (int)answer;
    return answer < 0 ? (int)answer : 0;
}

static int x32(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER));
}

static int wait_stop(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFSTOPPED(status) ? 0 : TO_NO_AVAIL;
}

/* Make a traced child's harmless call another one after the filter has seen it. */
static int swap_call(pid_t pid)
{
    struct user_regs_struct regs;
    int r = wait_stop(pid);
    if (r == 0 && ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0)
        r = wait_stop(pid);
    if (r < 0 || ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
        return r < 0 ? r : -errno;
    regs.orig_rax = SYS_unshare;
    regs.rdi = CLONE_NEWUSER;
    if (ptrace(PTRACE_SETREGS, pid, 0, &regs) < 0 || ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0)
        return -errno;
    r = wait_stop(pid);
    if (r < 0 || ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
        return r < 0 ? r : -errno;
    return (long)regs.rax < 0 ? (int)regs.rax : 0;
}

static int own_tracer(char **arguments)
{
    (void)arguments;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 && kill(getpid(), SIGSTOP) == 0)
            syscall(SYS_getppid);
        _exit(0);
    }
    int r = swap_call(pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return r;
}

#else

#define int80      escapes_not_here
#define x32        escapes_not_here
#define own_tracer escapes_not_here

#endif

const struct escape escapes_of_entries[] = {
    {"own_filter", 0, own_filter},
    {"own_supervisor", 0, own_supervisor},
    {"own_tracer", 0, own_tracer},
    {"int80", 0, int80},
    {"x32", 0, x32},
    {NULL, 0, NULL},
};
