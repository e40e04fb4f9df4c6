/* After the fork the child may only make system calls: another thread of ours may have held a lock
 * of libc in that moment. Everything that needs memory is therefore prepared before, and user and
 * group are changed by bare system calls, since libc's versions talk to threads that are not there.
 */
#include "execd/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "execd/guard.h"
#include "execd/workgroup.h"

enum step {
    STEP_WORK = 1,
    STEP_GROUP,
    STEP_STDIO,
    STEP_TERMINAL,
    STEP_FDS,
    STEP_GUARD,
    STEP_USER,
    STEP_CWD,
    STEP_EXEC
};

/* Passed files have lower numbers than this. */
#define REPORT_FD_MIN 128

/* What a child that failed tells us. Smaller than PIPE_BUF: it arrives whole or not at all. */
struct report {
    int step;
    int error;
    char program[64];
};

void execd_programs_init(struct execd_programs *programs)
{
    programs->count = 0;
}

void execd_programs_done(struct execd_programs *programs)
{
    for (size_t i = 0; i < programs->count; i++)
        free(TAKE_PTR(programs->items[i].path));
    programs->count = 0;
}

static void add_program(struct execd_programs *programs, const char *name, char *path)
{
    if (programs->count == EXECD_PROGRAMS_MAX) {
        free(path);
        return;
    }
    programs->items[programs->count++] = (struct execd_program){.path = path, .name = name};
}

void execd_programs_add(struct execd_programs *programs, const char *name, const char *search)
{
    if (strchr(name, '/') != NULL) {
        add_program(programs, name, mem_dup(name));
        return;
    }
    for (;;) {
        size_t length = strcspn(search, ":");
        if (length == 0) /* an empty entry is the current directory */
            add_program(programs, name, mem_printf("./%s", name));
        else if (length < PATH_MAX)
            add_program(programs, name, mem_printf("%.*s/%s", (int)length, search, name));
        if (search[length] == '\0' || programs->count == EXECD_PROGRAMS_MAX)
            return;
        search += length + 1;
    }
}

/* --- in the child ----------------------------------------------------------------------------- */

/* By bare system call: libc refuses to touch the two signals it keeps for itself, and whoever
 * started execd may have left those ignored (GNU make does). All zero is SIG_DFL without flags or
 * mask on every architecture, whatever the kernel's struct is called there. */
static void reset_signals(void)
{
    static const char default_action[64];
    for (int signal = 1; signal < NSIG; signal++)
        syscall(SYS_rt_sigaction, signal, default_action, NULL, NSIG / 8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* An empty root has no /dev/null: a pipe whose other end is closed reads as empty just as well. */
static int open_nothing(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int ends[2];
    if (fd >= 0 || pipe2(ends, O_CLOEXEC) < 0)
        return fd;
    close(ends[1]);
    return ends[0];
}

static int connect_stdio(const struct execd_spawn *spawn)
{
    int nothing = open_nothing();
    if (nothing < 0)
        return -1;
    /* dup2 onto another number clears CLOEXEC; all of ours are above 2, see main(). */
    int in = spawn->in_fd >= 0 ? spawn->in_fd : nothing;
    int out = spawn->out_fd >= 0 ? spawn->out_fd : nothing;
    int err = spawn->err_fd >= 0 ? spawn->err_fd : nothing;
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        return -1;
    return 0;
}

/* Every fd of ours is hidden from the program already, so what it shall see is duplicated. In two
 * steps, since the number wanted for one may be where another one is now. */
static int pass_fds(const struct execd_spawn *spawn)
{
    int above[EXECD_PASS_MAX];
    int floor = 3;
    for (size_t i = 0; i < spawn->pass_count; i++)
        floor = MAX(floor, spawn->pass[i].number + 1);
    for (size_t i = 0; i < spawn->pass_count; i++) {
        above[i] = fcntl(spawn->pass[i].fd, F_DUPFD_CLOEXEC, floor);
        if (above[i] < 0)
            return -1;
    }
    for (size_t i = 0; i < spawn->pass_count; i++) {
        if (dup2(above[i], spawn->pass[i].number) < 0)
            return -1;
    }
    return 0;
}

/* Every fd of ours is CLOEXEC from birth; this covers those that execd itself inherited. */
static int hide_fds(void)
{
    if (syscall(SYS_close_range, 3U, ~0U, 1U << 2 /* CLOSE_RANGE_CLOEXEC */) == 0)
        return 0;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -1;
    rlim_t last = limit.rlim_cur < 65536 ? limit.rlim_cur : 65536;
    for (rlim_t fd = 3; fd < last; fd++)
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    return 0;
}

static int change_user(const struct execd_credentials *credentials)
{
    if (credentials == NULL || execd_credentials_are_own(credentials))
        return 0;
    if (syscall(SYS_setgroups, credentials->group_count, credentials->groups) < 0 ||
        syscall(SYS_setresgid, credentials->gid, credentials->gid, credentials->gid) < 0 ||
        syscall(SYS_setresuid, credentials->uid, credentials->uid, credentials->uid) < 0)
        return -1;
    return 0;
}

/* Like execvp: a candidate that may not be executed counts for the message, one that does not exist
 * does not, anything else ends the search. */
static int execute(const struct execd_spawn *spawn)
{
    int error = ENOENT;
    for (size_t i = 0; i < spawn->programs->count; i++) {
        const struct execd_program *program = &spawn->programs->items[i];
        spawn->argv[0] = (char *)(uintptr_t)program->name;
        execve(program->path, spawn->argv, spawn->envp);
        if (errno == EACCES)
            error = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG)
            return -1;
    }
    errno = error;
    return -1;
}

static enum step run_steps(const struct execd_spawn *spawn)
{
    /* Before anything else: the rest counts there, and the numbers of these files may be wanted. */
    if (execd_workgroup_join_in_child() < 0)
        return STEP_WORK;
    if (spawn->new_session ? setsid() < 0 : setpgid(0, 0) < 0)
        return STEP_GROUP;
    if (connect_stdio(spawn) < 0)
        return STEP_STDIO;
    if (spawn->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        return STEP_TERMINAL;
    if (hide_fds() < 0 || pass_fds(spawn) < 0)
        return STEP_FDS;
    reset_signals();
    if (execd_guard_undo_in_child() < 0)
        return STEP_GUARD;
    /* The user comes before the directory: what it may not enter it shall not start in. */
    if (change_user(spawn->credentials) < 0)
        return STEP_USER;
    if (chdir(spawn->cwd) < 0)
        return STEP_CWD;
    execute(spawn);
    return STEP_EXEC;
}

NORETURN static void run_child(const struct execd_spawn *spawn, int report_fd,
                               struct report *report)
{
    /* Out of the way of the numbers that the program wants. */
    int moved = fcntl(report_fd, F_DUPFD_CLOEXEC, REPORT_FD_MIN);
    if (moved >= 0)
        report_fd = moved;
    report->step = (int)run_steps(spawn);
    report->error = errno;
    (void)!write(report_fd, report, sizeof(*report));
    _exit(127);
}

/* --- in execd --------------------------------------------------------------------------------- */

/* "sh", or "bash or sh" when there is a choice. */
static void name_programs(const struct execd_programs *programs, struct report *report)
{
    const char *first = programs->count > 0 ? programs->items[0].name : "nothing";
    const char *last = programs->count > 0 ? programs->items[programs->count - 1].name : first;
    if (strcmp(first, last) == 0)
        snprintf(report->program, sizeof(report->program), "%s", first);
    else
        snprintf(report->program, sizeof(report->program), "%s or %s", first, last);
}

int execd_spawn_start(const struct execd_spawn *spawn, pid_t *ret_pid, int *ret_report,
                      struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set_errno(err, errno, "cannot make a pipe for a new process");
    AUTO_CLOSE int read_end = ends[0];
    AUTO_CLOSE int write_end = ends[1];
    struct report report = {0};
    name_programs(spawn->programs, &report);

    pid_t pid = _Fork();
    if (pid < 0)
        return error_set_errno(err, errno, "cannot make a process");
    if (pid == 0)
        run_child(spawn, write_end, &report);
    /* Also here, so that the group exists before anybody can ask to kill it; EACCES says that the
     * child was first. Not for a session: setsid() refuses a process that leads a group already. */
    if (!spawn->new_session)
        setpgid(pid, pid);
    *ret_pid = pid;
    *ret_report = TAKE_FD(read_end);
    return 0;
}

static const char *step_text(int step)
{
    switch (step) {
    case STEP_WORK:
        return "join the control group of the sandbox's processes";
    case STEP_GROUP:
        return "make a process group";
    case STEP_STDIO:
        return "connect input and output";
    case STEP_TERMINAL:
        return "take the terminal";
    case STEP_FDS:
        return "pass and close open files";
    case STEP_GUARD:
        return "have an OOM score of its own";
    case STEP_USER:
        return "change to the user and groups asked for";
    case STEP_CWD:
        return "enter the working directory";
    default:
        return "start";
    }
}

int execd_spawn_check(int report_fd, struct error *err)
{
    struct report report;
    ssize_t n = read(report_fd, &report, sizeof(report));
    if (n < 0)
        return 0; /* EAGAIN: the child has neither executed nor failed */
    if (n != (ssize_t)sizeof(report))
        return 1;
    if (report.step == STEP_WORK && report.error == EAGAIN)
        return error_set(err, ERR_LIMIT,
                         "cannot start a process: the sandbox has as many as its limit allows");
    if (report.step == STEP_EXEC)
        return error_set_errno(err, report.error, "cannot execute %s", report.program);
    return error_set_errno(err, report.error, "cannot %s", step_text(report.step));
}
