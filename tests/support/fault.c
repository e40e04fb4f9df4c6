/* Stops or fails a launcher, or a process it forks, at its n-th system call.
 *
 *   fault PID          traces that launcher and obeys lines on stdin, one answer on stdout for each
 *
 *   never NAME [ARGUMENT VALUE]   such calls are left alone and not counted
 *   arm ROLE N HOW                what happens at call number N from now on; answered when it holds
 *   disarm                        "hit N CALL", or "counted K": the most calls one process made
 *
 * ROLE: launcher (itself), slot (each slot it forks from now on), ready (each slot that waits),
 * worker (any other process it forks). Each process is counted by itself; the first to reach N gets
 * it, once. HOW: before or after (SIGKILL at that side of the call), or the number of the error
 * with which the call fails without being made. close() is made and then fails, as the kernel has
 * it.
 *
 * ptrace, since a seccomp filter would be inherited by sandboxes and cannot be taken off again.
 * What is not counted runs untraced, but for the launcher, which then stops at fork and at its end
 * only. A slot is let go at execveat: no sandbox is ever traced. A process that ends is let go
 * before it does, since as long as it has a tracer its parent cannot wait for it. */
#include <elf.h>
#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEES_MAX 256
#define NEVER_MAX   64
#define LINE_LENGTH 512
#define WORD_LENGTH 64
#define OPTIONS                                                                               \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
     PTRACE_O_TRACEEXIT)

enum role { ROLE_UNKNOWN, ROLE_LAUNCHER, ROLE_SLOT, ROLE_READY, ROLE_WORKER };

enum how { HOW_BEFORE = -1, HOW_AFTER = -2, HOW_NONE = 0 }; /* or an errno */

struct tracee {
    pid_t pid; /* 0: unused */
    enum role role;
    bool stopped;  /* waits for us to learn what it is */
    bool counting; /* stops at system calls */
    bool chosen;   /* in the call that was hit */
    unsigned count;
};

static struct {
    pid_t launcher;
    struct tracee tracees[TRACEES_MAX];
    struct {
        int call, argument;
        uint64_t value;
    } never[NEVER_MAX];
    unsigned never_count;
    enum role role;
    unsigned number;
    int how;
    unsigned most;
    char hit[LINE_LENGTH];
} fault;

/* The two registers that differ between machines. */

static bool get_registers(pid_t pid, struct user_regs_struct *ret)
{
    struct iovec bytes = {ret, sizeof(*ret)};
    return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &bytes) == 0;
}

static void set_registers(pid_t pid, struct user_regs_struct *registers)
{
    struct iovec bytes = {registers, sizeof(*registers)};
    ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &bytes);
}

static void replace_call(pid_t pid, int call)
{
#if defined(__x86_64__)
    struct user_regs_struct registers = {0};
    if (get_registers(pid, &registers)) {
        registers.orig_rax = (unsigned long long)call;
        set_registers(pid, &registers);
    }
#elif defined(__aarch64__)
    struct iovec bytes = {&call, sizeof(call)};
    ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &bytes);
#endif
}

static void replace_result(pid_t pid, long result)
{
    struct user_regs_struct registers = {0};
    if (!get_registers(pid, &registers))
        return;
#if defined(__x86_64__)
    registers.rax = (unsigned long long)result;
#elif defined(__aarch64__)
    registers.regs[0] = (unsigned long long)result;
#endif
    set_registers(pid, &registers);
}

static uint64_t clone_flags(pid_t pid)
{
    struct user_regs_struct registers = {0};
    if (!get_registers(pid, &registers))
        return 0;
#if defined(__x86_64__)
    uint64_t call = registers.orig_rax, first = registers.rdi;
#elif defined(__aarch64__)
    uint64_t call = registers.regs[8], first = registers.regs[0];
#endif
    if (call != SYS_clone3)
        return call == SYS_clone ? first : 0;
    return (uint64_t)ptrace(PTRACE_PEEKDATA, pid, first,
                            0); /* struct clone_args begins with them */
}

/* Tracees. */

static struct tracee *find(pid_t pid)
{
    for (unsigned i = 0; i < TRACEES_MAX; i++) {
        if (fault.tracees[i].pid == pid)
            return &fault.tracees[i];
    }
    return NULL;
}

static struct tracee *find_or_add(pid_t pid)
{
    struct tracee *tracee = find(pid);
    if (tracee == NULL) {
        tracee = find(0);
        if (tracee == NULL)
            exit(3);
        *tracee = (struct tracee){.pid = pid};
    }
    return tracee;
}

static void let_go(struct tracee *tracee)
{
    ptrace(PTRACE_DETACH, tracee->pid, 0, 0);
    tracee->pid = 0;
}

static bool is_wanted(const struct tracee *tracee)
{
    return fault.how != HOW_NONE && fault.hit[0] == '\0' && tracee->role == fault.role;
}

/* From a stop in which nothing but its going on is to be decided. */
static void go_on(struct tracee *tracee, int signal_number)
{
    bool finishing = tracee->chosen; /* its result is still to be replaced */
    tracee->counting = is_wanted(tracee) || finishing;
    tracee->stopped = false;
    if (!tracee->counting && tracee->role != ROLE_LAUNCHER)
        ptrace(PTRACE_DETACH, tracee->pid, 0, signal_number);
    else
        ptrace(tracee->counting ? PTRACE_SYSCALL : PTRACE_CONT, tracee->pid, 0, signal_number);
    if (!tracee->counting && tracee->role != ROLE_LAUNCHER)
        tracee->pid = 0;
}

/* A fork: the child stops by itself, before or after we hear of it here. */
static void forked(struct tracee *parent)
{
    unsigned long pid = 0;
    ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid);
    struct tracee *child = find_or_add((pid_t)pid);
    if (parent->role != ROLE_LAUNCHER)
        child->role = ROLE_WORKER + 1; /* a helper of a slot: nobody's business */
    else
        child->role = clone_flags(parent->pid) & CLONE_NEWPID ? ROLE_SLOT : ROLE_WORKER;
    if (child->stopped)
        go_on(child, 0);
    go_on(parent, 0);
}

/* System calls. */

static bool is_left_alone(const struct __ptrace_syscall_info *info)
{
    for (unsigned i = 0; i < fault.never_count; i++) {
        if (fault.never[i].call == (int)info->entry.nr &&
            (fault.never[i].argument < 0 ||
             info->entry.args[fault.never[i].argument] == fault.never[i].value))
            return true;
    }
    return false;
}

static bool counts(const struct __ptrace_syscall_info *info)
{
    uint64_t call = info->entry.nr;
    if (call == SYS_exit || call == SYS_exit_group || call == SYS_rt_sigreturn ||
        call == SYS_restart_syscall)
        return false;
    return !is_left_alone(info);
}

/* The word a call is made with, mostly a path, or nothing: it tells more than its address. */
static void read_word(pid_t pid, const struct __ptrace_syscall_info *info, char ret[WORD_LENGTH])
{
    static const struct {
        int call, argument;
    } words[] = {{SYS_openat, 1},    {SYS_mkdirat, 1}, {SYS_unlinkat, 1}, {SYS_newfstatat, 1},
                 {SYS_symlinkat, 0}, {SYS_fsopen, 0},  {SYS_fsconfig, 2}, {SYS_move_mount, 3}};
    struct iovec to = {ret, WORD_LENGTH - 1};
    ssize_t n = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if ((int)info->entry.nr != words[i].call)
            continue;
        struct iovec from = {(void *)(uintptr_t)info->entry.args[words[i].argument],
                             WORD_LENGTH - 1};
        n = process_vm_readv(pid, &to, 1, &from, 1, 0);
    }
    ret[n > 0 ? n : 0] = '\0';
}

static void note_hit(const struct tracee *tracee, const struct __ptrace_syscall_info *info)
{
    char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)info->entry.nr);
    const uint64_t *arguments = info->entry.args;
    char word[WORD_LENGTH];
    read_word(tracee->pid, info, word);
    snprintf(fault.hit, sizeof(fault.hit), "%u %s(%#llx, %#llx, %#llx, %#llx) '%s' of %d",
             tracee->count, name != NULL ? name : "?", (unsigned long long)arguments[0],
             (unsigned long long)arguments[1], (unsigned long long)arguments[2],
             (unsigned long long)arguments[3], word, (int)tracee->pid);
    free(name);
}

/* This makes it go on by itself. To tell it to, too, could be what takes it past the stop at its
 * end, in which we let go of it. */
static void end(struct tracee *tracee)
{
    tracee->counting = false;
    kill(tracee->pid, SIGKILL);
}

static void entered(struct tracee *tracee, const struct __ptrace_syscall_info *info)
{
    if (is_wanted(tracee) && counts(info)) {
        tracee->count++;
        if (tracee->count > fault.most)
            fault.most = tracee->count;
        if (tracee->count == fault.number) {
            note_hit(tracee, info);
            if (fault.how == HOW_BEFORE) {
                end(tracee);
                return;
            }
            tracee->chosen = true;
            if (fault.how > 0 && info->entry.nr != SYS_close)
                replace_call(tracee->pid, SYS_getppid);
        }
    }
    if (info->entry.nr == SYS_execveat && !tracee->chosen)
        let_go(tracee);
    else
        go_on(tracee, 0);
}

static void left(struct tracee *tracee)
{
    if (tracee->chosen) {
        tracee->chosen = false;
        if (fault.how == HOW_AFTER) {
            end(tracee);
            return;
        }
        if (fault.how > 0)
            replace_result(tracee->pid, -fault.how);
    }
    go_on(tracee, 0);
}

static void stopped(struct tracee *tracee, int status)
{
    int event = status >> 16;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
        struct __ptrace_syscall_info info;
        memset(&info, 0, sizeof(info));
        ptrace(PTRACE_GET_SYSCALL_INFO, tracee->pid, sizeof(info), &info);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
            entered(tracee, &info);
        else
            left(tracee);
    } else if (event == PTRACE_EVENT_EXIT) {
        let_go(tracee);
    } else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
               event == PTRACE_EVENT_CLONE) {
        forked(tracee);
    } else if (tracee->role == ROLE_UNKNOWN) {
        tracee->stopped = true; /* a child whose parent has not told us yet */
    } else {
        go_on(tracee, event != 0 ? 0 : WSTOPSIG(status));
    }
}

/* Handle what there is; waits up to timeout_ms for something to come. */
static void pump(int signal_fd, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    if (poll(&poll_fd, 1, timeout_ms) == 1 && read(signal_fd, &info, sizeof(info)) < 0)
        exit(3);
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        struct tracee *tracee = find_or_add(pid);
        if (WIFSTOPPED(status))
            stopped(tracee, status);
        else
            tracee->pid = 0;
    }
}

/* Stop them, so that they go on in the way that is right now. */
static void interrupt_all(int signal_fd)
{
    for (unsigned i = 0; i < TRACEES_MAX; i++) {
        struct tracee *tracee = &fault.tracees[i];
        if (tracee->pid != 0 && ptrace(PTRACE_INTERRUPT, tracee->pid, 0, 0) < 0)
            tracee->pid = 0;
    }
    bool waiting = true;
    for (int tries = 0; waiting && tries < 1000; tries++) {
        waiting = false;
        for (unsigned i = 0; i < TRACEES_MAX; i++) {
            const struct tracee *tracee = &fault.tracees[i];
            waiting |= tracee->pid != 0 && tracee->counting != is_wanted(tracee);
        }
        if (waiting)
            pump(signal_fd, 10);
    }
}

/* Commands. */

static bool same_program(pid_t pid)
{
    char text[2][64] = {"", ""}, path[64];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)(i == 0 ? fault.launcher : pid));
        FILE *file = fopen(path, "re");
        if (file == NULL)
            return false;
        if (fgets(text[i], sizeof(text[i]), file) == NULL)
            text[i][0] = '\0';
        fclose(file);
    }
    return strcmp(text[0], text[1]) == 0;
}

/* Its children that did not become another program. */
static void seize_waiting(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)fault.launcher,
             (int)fault.launcher);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    int pid;
    while (fscanf(file, "%d", &pid) == 1) {
        if (same_program(pid) && ptrace(PTRACE_SEIZE, pid, 0, OPTIONS) == 0)
            find_or_add(pid)->role = ROLE_READY;
    }
    fclose(file);
}

static const char *arm(int signal_fd, const char *role, unsigned number, const char *how)
{
    static const char *const roles[] = {"", "launcher", "slot", "ready", "worker"};
    fault.role = ROLE_UNKNOWN;
    for (unsigned i = 1; i < sizeof(roles) / sizeof(*roles); i++) {
        if (strcmp(role, roles[i]) == 0)
            fault.role = (enum role)i;
    }
    fault.number = number;
    fault.how = strcmp(how, "before") == 0  ? HOW_BEFORE
                : strcmp(how, "after") == 0 ? HOW_AFTER
                                            : (int)strtol(how, NULL, 10);
    fault.most = 0;
    fault.hit[0] = '\0';
    if (fault.role == ROLE_UNKNOWN || fault.how == HOW_NONE)
        return "what?";
    for (unsigned i = 0; i < TRACEES_MAX; i++)
        fault.tracees[i].count = 0;
    if (fault.role == ROLE_READY)
        seize_waiting();
    if (fault.role == ROLE_READY || fault.role == ROLE_LAUNCHER)
        interrupt_all(signal_fd);
    return "armed";
}

static const char *never(const char *name, int argument, uint64_t value)
{
    int call = seccomp_syscall_resolve_name(name);
    if (call < 0 || argument > 5 || fault.never_count == NEVER_MAX)
        return "what?";
    fault.never[fault.never_count].call = call;
    fault.never[fault.never_count].argument = argument;
    fault.never[fault.never_count++].value = value;
    return "ok";
}

static void obey(int signal_fd, const char *line)
{
    char word[64] = "", how[64] = "";
    int argument = -1;
    unsigned number = 0;
    unsigned long long value = 0;
    if (sscanf(line, "never %63s %d %llu", word, &argument, &value) >= 1) {
        printf("%s\n", never(word, argument, value));
    } else if (sscanf(line, "arm %63s %u %63s", word, &number, how) == 3) {
        printf("%s\n", arm(signal_fd, word, number, how));
    } else if (strcmp(line, "disarm\n") == 0) {
        pump(signal_fd, 0);
        fault.how = HOW_NONE;
        interrupt_all(signal_fd);
        if (fault.hit[0] != '\0')
            printf("hit %s\n", fault.hit);
        else
            printf("counted %u\n", fault.most);
    } else {
        printf("what?\n");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    fault.launcher = argc == 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fault.launcher <= 0 || signal_fd < 0 ||
        ptrace(PTRACE_SEIZE, fault.launcher, 0, OPTIONS) < 0) {
        perror("usage: fault PID");
        return 2;
    }
    find_or_add(fault.launcher)->role = ROLE_LAUNCHER;
    setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees what fgets() has not read */
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = signal_fd, .events = POLLIN}};
    char line[LINE_LENGTH];
    while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
        pump(signal_fd, 0);
        if (fds[0].revents != 0) {
            if (fgets(line, sizeof(line), stdin) == NULL)
                break; /* our end lets everybody go */
            obey(signal_fd, line);
        }
    }
    return 0;
}
