#include "execd/pty_terminal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

/* Where the sandbox's devpts may have its multiplexer; the first is often a link to the second. */
static int open_master(struct error *err)
{
    const char *const paths[] = {"/dev/ptmx", "/dev/pts/ptmx"};
    int first_error = 0;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        int fd = open(paths[i], O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        if (first_error == 0)
            first_error = errno;
    }
    return error_set_errno(err, first_error,
                           "cannot open a terminal: /dev/ptmx (use pty=0 for pipes)");
}

static int open_slave(int master)
{
    int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    int slave = ioctl(master, TIOCGPTPEER, flags); /* needs no path: /dev/pts may be another one */
    if (slave >= 0)
        return slave;
    unsigned number;
    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -1;
    char path[32];
    snprintf(path, sizeof(path), "/dev/pts/%u", number);
    return open(path, flags);
}

int execd_pty_terminal_open(const struct execd_credentials *credentials, int *ret_master,
                            int *ret_slave, struct error *err)
{
    AUTO_CLOSE int master = open_master(err);
    if (master < 0)
        return -1;
    int locked = 0;
    if (ioctl(master, TIOCSPTLCK, &locked) < 0)
        return error_set_errno(err, errno, "cannot unlock a terminal");
    int slave = open_slave(master);
    if (slave < 0)
        return error_set_errno(err, errno, "cannot open the other side of a terminal");
    /* Where we may not, the user works through open files all the same. */
    if (credentials != NULL && fchown(slave, credentials->uid, (gid_t)-1) < 0)
        errno = 0;
    *ret_master = TAKE_FD(master);
    *ret_slave = slave;
    return 0;
}

void execd_pty_terminal_resize(int master, unsigned short cols, unsigned short rows)
{
    struct winsize size = {.ws_col = cols, .ws_row = rows};
    ioctl(master, TIOCSWINSZ, &size);
}

int execd_pty_terminal_signal(int master, pid_t leader, int signal)
{
    /* The kernel finds the job itself, but only for what a key can send: INT, QUIT and TSTP. */
    if (ioctl(master, TIOCSIG, signal) == 0)
        return 0;
    pid_t group = tcgetpgrp(master);
    if (group <= 1)
        return -ESRCH;
    /* A job that ended leaves its number behind until the shell takes the terminal back; whoever
     * has that number now is in another session. A job whose first process has ended is still one.
     */
    pid_t session = getsid(group);
    if (session >= 0 && session != leader)
        return -ESRCH;
    return kill(-group, signal) < 0 ? -errno : 0;
}

/* By pidfd where there are any, so that a number that changes hands meanwhile harms nobody: it is
 * opened first and asked for its session then. */
static void kill_member(pid_t pid, pid_t leader, int signal)
{
    AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (getsid(pid) != leader)
        return;
    if (pidfd < 0 || (syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) < 0 && errno != ESRCH))
        kill(pid, signal);
}

bool execd_pty_terminal_kill_session(pid_t leader, int signal)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return false;
    size_t seen = 0;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        uint64_t pid;
        if (str_to_u64(entry->d_name, 2, INT32_MAX, &pid) < 0)
            continue;
        seen++;
        kill_member((pid_t)pid, leader, signal);
    }
    closedir(proc);
    return seen > 0; /* an empty directory is no /proc */
}
