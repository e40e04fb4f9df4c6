#include "launcher/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "launcher/process.h"

#define DYING_MS 1000

static int64_t now_ms(void)
{
    return (int64_t)(clock_monotonic_ns() / 1000000);
}

char *program_find(const char *name)
{
    static const char *const places[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin",
                                         "/usr/local/sbin"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        AUTO_FREE char *path = mem_printf("%s/%s", places[i], name);
        if (access(path, X_OK) == 0)
            return TAKE_PTR(path);
    }
    return NULL;
}

/* A file, not a pipe: nobody has to write while we read. */
static int input_file(const char *text)
{
    AUTO_CLOSE int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = file_write_all(fd, text, strlen(text));
    if (r < 0)
        return r;
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : TAKE_FD(fd);
}

static NORETURN void execute(const char *path, const char *const *argv, int input, int out, int err)
{
    static char *const nothing[] = {NULL};
    /* First out of the way of 0 to 2, where they may be if the launcher was started without. */
    const int keep[] = {input, out, err};
    if (process_settle(keep, 3) == 0 && dup2(3, STDIN_FILENO) >= 0 && dup2(4, STDOUT_FILENO) >= 0 &&
        dup2(5, STDERR_FILENO) >= 0)
        execve(path, (char *const *)argv, nothing);
    _exit(127);
}

static void take(int *fd, struct buf *text)
{
    char bytes[4096];
    ssize_t n = read(*fd, bytes, sizeof(bytes));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        *fd = fd_close(*fd);
    else
        (void)buf_add(text, bytes, MIN((size_t)n, text->max - text->length));
}

/* Until both are at their end. */
static int collect(int *out_fd, int *err_fd, struct buf *out, struct buf *err, int64_t deadline_ms)
{
    while (*out_fd >= 0 || *err_fd >= 0) {
        struct pollfd ready[] = {{.fd = *out_fd, .events = POLLIN},
                                 {.fd = *err_fd, .events = POLLIN}};
        int64_t left = deadline_ms - now_ms();
        int n = poll(ready, 2, left > 0 ? (int)left : 0);
        if (n == 0)
            return -ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0 && ready[0].revents != 0)
            take(out_fd, out);
        if (n > 0 && ready[1].revents != 0)
            take(err_fd, err);
    }
    return 0;
}

static int status_of(int pidfd, int64_t deadline_ms)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int64_t left = deadline_ms - now_ms();
    siginfo_t info = {0};
    if (poll(&end, 1, left > 0 ? (int)left : 0) != 1 ||
        waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
        return -ETIMEDOUT;
    return info.si_code == CLD_EXITED ? info.si_status : -EPIPE;
}

int program_run(const char *path, const char *const *argv, const char *input, int timeout_ms,
                struct buf *out, struct buf *err)
{
    int out_ends[2], err_ends[2], pidfd_number;
    AUTO_CLOSE int file = input_file(input);
    if (file < 0)
        return file;
    if (pipe2(out_ends, O_CLOEXEC) < 0)
        return -errno;
    AUTO_CLOSE int out_reader = out_ends[0];
    AUTO_CLOSE int out_writer = out_ends[1];
    if (pipe2(err_ends, O_CLOEXEC) < 0)
        return -errno;
    AUTO_CLOSE int err_reader = err_ends[0];
    AUTO_CLOSE int err_writer = err_ends[1];
    int64_t deadline_ms = now_ms() + timeout_ms;
    pid_t pid = process_clone(0, -1, &pidfd_number);
    if (pid < 0)
        return (int)pid;
    if (pid == 0)
        execute(path, argv, file, out_writer, err_writer);
    AUTO_CLOSE int pidfd = pidfd_number;
    fd_close(TAKE_FD(out_writer));
    fd_close(TAKE_FD(err_writer));
    int r = collect(&out_reader, &err_reader, out, err, deadline_ms);
    if (r == 0)
        r = status_of(pidfd, deadline_ms);
    if (r == -ETIMEDOUT)
        (void)process_end_within(pidfd, DYING_MS);
    return r;
}
