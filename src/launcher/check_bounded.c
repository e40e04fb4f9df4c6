/* A child whose answer is waited for only so long.
 *
 * The pipe is the only thing waited on: its bytes are the answer, its end without bytes is a child
 * that died. A pidfd would say the same, but may be what this machine lacks. A child in an endless
 * system call that no signal ends is left behind: nothing else can be done about it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "launcher/check_probe.h"

#define DYING_MS 1000 /* for what was killed to be gone */

static int64_t now_ms(void)
{
    return (int64_t)(clock_monotonic_ns() / 1000000);
}

/* The child leads a process group, so that its own children can be ended with it. */
static void run_child(void (*work)(void *argument, void *answer), void *argument, void *answer,
                      size_t size, int fd)
{
    struct rlimit none = {0, 0};
    setpgid(0, 0);
    setrlimit(RLIMIT_CORE, &none);
    work(argument, answer);
    _exit(file_write_all(fd, answer, size) < 0 ? 1 : 0);
}

/* Until `size` bytes are there, the end of the pipe, or the deadline. Returns the bytes read. */
static size_t receive(int fd, char *bytes, size_t size, int64_t deadline_ms, bool *ret_timeout)
{
    size_t got = 0;
    *ret_timeout = false;
    while (got < size) {
        int64_t left = deadline_ms - now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, left > 0 ? (int)left : 0);
        if (ready == 0) {
            *ret_timeout = true;
            break;
        }
        ssize_t n = ready < 0 ? -1 : read(fd, bytes + got, size - got);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

/* The end of the pipe means that all who had it are gone or going: the wait is then a short one. */
static int reap(pid_t pid, int fd)
{
    char rest;
    bool timeout;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* in case it had not come to lead its group */
    while (receive(fd, &rest, 1, now_ms() + DYING_MS, &timeout) == 1)
        ;
    int status = 0;
    if (waitpid(pid, &status, timeout ? WNOHANG : 0) != pid || !WIFSIGNALED(status))
        return 0;
    return WTERMSIG(status);
}

int check_bounded(void (*work)(void *argument, void *answer), void *argument, void *answer,
                  size_t size, int timeout_ms, int *ret_signal)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    AUTO_CLOSE int reader = ends[0];
    AUTO_CLOSE int writer = ends[1];
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        run_child(work, argument, answer, size, writer);
    fd_close(TAKE_FD(writer));
    AUTO_FREE char *bytes = mem_alloc(size);
    bool timeout;
    size_t got = receive(reader, bytes, size, now_ms() + timeout_ms, &timeout);
    int signal_number = reap(pid, reader);
    if (got == size)
        memcpy(answer, bytes, size);
    else if (!timeout)
        *ret_signal = signal_number;
    return got == size ? 0 : timeout ? -ETIMEDOUT : -EPIPE;
}
