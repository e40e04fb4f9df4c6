/* We hold the terminal's slave open ourselves as long as the leader lives. Otherwise the master
 * would report a hang-up whenever no process has the slave open for a moment, and go on reporting
 * it, although the leader may open its terminal again.
 *
 * After the exit a terminal is read until it has nothing more: the kernel moves output to the
 * master in a work item of its own, which FIONREAD does not wait for but read() does. A background
 * process that goes on writing ends that by DRAIN_MAX, which is more than a terminal or a pipe can
 * hold. This happens at once, even when paused: it is little, and the owner's queue is bounded. */
#include "execd/pty_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execd/execd.h"
#include "execd/pty_shell.h"
#include "execd/pty_terminal.h"

#define DRAIN_MAX  (1024 * 1024)
#define HANG_UP_MS 500

/* An open file of ours and its watcher. */
struct channel {
    struct execd_pty_process *process;
    uv_poll_t poll;
    int fd; /* -1: closed */
};

struct execd_pty_process {
    struct execd_pty_process_events events;
    void *ctx;
    struct execd_child child;
    pid_t session; /* the leader's pid, kept when it is reaped */
    uint64_t start_ns;
    bool pipes;
    struct channel outputs[2]; /* by enum execd_output; a terminal has only the first, its master */
    struct channel input;      /* a terminal's master again, under another number */
    struct channel report;     /* of the spawn */
    int slave;                 /* -1 with pipes, and after the exit */
    bool started;
    struct error error; /* why not */
    bool paused;
    bool hung_up;
    bool was_full;
    bool end_input;   /* close the input when the queue is written */
    struct buf queue; /* input not yet taken; the first queue_at bytes are */
    size_t queue_at;
    uv_timer_t timer; /* of a hang-up */
    int open_handles;
};

/* --- channels --------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct execd_pty_process *process = handle->data;
    if (--process->open_handles > 0)
        return;
    buf_done(&process->queue);
    free(process);
}

/* Takes the fd in any case. */
static int open_channel(struct channel *channel, struct execd_pty_process *process, uv_loop_t *loop,
                        int fd, struct error *err)
{
    int r = uv_poll_init(loop, &channel->poll, fd); /* makes it non-blocking */
    if (r < 0) {
        fd_close(fd);
        return error_set_errno(err, -r, "cannot watch a terminal or pipe");
    }
    channel->process = process;
    channel->poll.data = process;
    channel->fd = fd;
    process->open_handles++;
    return 0;
}

/* The handle goes before the fd: libuv takes a closing handle's number out of its epoll set, and by
 * then the number must not belong to somebody else. */
static void close_channel(struct channel *channel)
{
    if (channel->fd < 0)
        return;
    uv_close((uv_handle_t *)&channel->poll, on_handle_closed);
    channel->fd = fd_close(channel->fd);
}

static void close_all(struct execd_pty_process *process)
{
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++)
        close_channel(&process->outputs[i]);
    close_channel(&process->input);
    close_channel(&process->report);
    process->slave = fd_close(process->slave);
    uv_close((uv_handle_t *)&process->timer, on_handle_closed);
}

/* --- output ----------------------------------------------------------------------------------- */

/* Reads until there is nothing more now, or `max` bytes are there: a terminal gives little at a
 * time. Closes the channel at its end. */
static size_t read_output(struct channel *output, char *bytes, size_t max)
{
    size_t length = 0;
    while (length < max) {
        ssize_t n = read(output->fd, bytes + length, max - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || (n < 0 && errno != EAGAIN))
            close_channel(output);
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    return length;
}

static void hand_on(struct channel *output, const char *bytes, size_t length)
{
    struct execd_pty_process *process = output->process;
    enum execd_output which = output == &process->outputs[1] ? EXECD_STDERR : EXECD_STDOUT;
    if (length > 0)
        process->events.on_output(process->ctx, which, bytes, length);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* an error shows up in the read as well */
    (void)events;
    struct channel *output = CONTAINER_OF(poll, struct channel, poll);
    char bytes[EXECD_PTY_OUTPUT_MAX];
    size_t length = read_output(output, bytes, sizeof(bytes));
    hand_on(output, bytes, length);
}

static void update_reading(struct execd_pty_process *process)
{
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++) {
        struct channel *output = &process->outputs[i];
        if (output->fd < 0)
            continue;
        if (process->started && !process->paused)
            uv_poll_start(&output->poll, UV_READABLE, on_readable);
        else
            uv_poll_stop(&output->poll);
    }
}

void execd_pty_process_pause(struct execd_pty_process *process)
{
    process->paused = true;
    update_reading(process);
}

void execd_pty_process_resume(struct execd_pty_process *process)
{
    process->paused = false;
    update_reading(process);
}

/* After the exit: what is there now. */
static void drain(struct channel *output)
{
    if (output->fd < 0)
        return;
    size_t left = DRAIN_MAX;
    int pending = 0;
    if (output->process->pipes && ioctl(output->fd, FIONREAD, &pending) == 0)
        left = (size_t)pending;
    char bytes[EXECD_PTY_OUTPUT_MAX];
    while (output->fd >= 0 && left > 0) {
        size_t length = read_output(output, bytes, MIN(left, sizeof(bytes)));
        if (length == 0)
            return;
        left -= length;
        hand_on(output, bytes, length);
    }
}

/* --- input ------------------------------------------------------------------------------------ */

static size_t queued(const struct execd_pty_process *process)
{
    return process->queue.length - process->queue_at;
}

static void on_writable(uv_poll_t *poll, int status, int events);

/* Write what the program's side takes. Negative when it never will again. */
static int write_queue(struct execd_pty_process *process)
{
    struct buf *queue = &process->queue;
    while (queued(process) > 0) {
        ssize_t n = write(process->input.fd, queue->data + process->queue_at, queued(process));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return -errno;
        if (n <= 0) {
            uv_poll_start(&process->input.poll, UV_WRITABLE, on_writable);
            return 0;
        }
        process->queue_at += (size_t)n;
    }
    uv_poll_stop(&process->input.poll);
    buf_done(queue);
    process->queue_at = 0;
    if (process->end_input)
        close_channel(&process->input);
    return 0;
}

static void lose_input(struct execd_pty_process *process)
{
    close_channel(&process->input);
    buf_done(&process->queue);
    process->queue_at = 0;
    process->was_full = false;
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct execd_pty_process *process = CONTAINER_OF(poll, struct channel, poll)->process;
    bool was_full = process->was_full;
    if (status < 0 || write_queue(process) < 0) { /* a pipe without a reader is an error event */
        lose_input(process);
        process->events.on_input_lost(process->ctx);
    }
    if (was_full && queued(process) <= EXECD_PTY_INPUT_LOW) {
        process->was_full = false;
        process->events.on_input_room(process->ctx);
    }
}

static int check_input(const struct execd_pty_process *process, size_t length, struct error *err)
{
    if (process->input.fd < 0 || process->end_input)
        return error_set(err, ERR_CONFLICT, "the input is closed");
    if (length > EXECD_PTY_INPUT_MAX - queued(process))
        return error_set(err, ERR_LIMIT,
                         "%zu bytes of input wait for the program already; at most %d may",
                         queued(process), EXECD_PTY_INPUT_MAX);
    return 0;
}

int execd_pty_process_write(struct execd_pty_process *process, const char *bytes, size_t length,
                            struct error *err)
{
    int r = check_input(process, length, err);
    if (r < 0)
        return r;
    buf_consume(&process->queue, process->queue_at);
    process->queue_at = 0;
    bool idle = process->queue.length == 0;
    buf_add(&process->queue, bytes, length);
    r = idle ? write_queue(process) : 0;
    if (r < 0) {
        lose_input(process);
        return error_set(err, ERR_CONFLICT, "the program has closed its input: %s", strerror(-r));
    }
    if (execd_pty_process_is_full(process))
        process->was_full = true;
    return 0;
}

bool execd_pty_process_is_full(const struct execd_pty_process *process)
{
    return queued(process) > EXECD_PTY_INPUT_HIGH;
}

int execd_pty_process_end_input(struct execd_pty_process *process, struct error *err)
{
    struct termios terminal;
    if (!process->pipes && tcgetattr(process->outputs[0].fd, &terminal) == 0)
        return execd_pty_process_write(process, (const char *)&terminal.c_cc[VEOF], 1, err);
    int r = check_input(process, 0, err);
    if (r < 0)
        return r;
    process->end_input = true;
    if (queued(process) == 0)
        close_channel(&process->input);
    return 0;
}

/* --- control ---------------------------------------------------------------------------------- */

void execd_pty_process_resize(struct execd_pty_process *process, unsigned short cols,
                              unsigned short rows)
{
    if (!process->pipes)
        execd_pty_terminal_resize(process->outputs[0].fd, cols, rows);
}

void execd_pty_process_signal(struct execd_pty_process *process, int signal)
{
    if (process->pipes ||
        execd_pty_terminal_signal(process->outputs[0].fd, process->session, signal) < 0)
        execd_child_kill_group(&process->child, signal);
}

/* Where /proc does not tell us who is in the session we know at least two groups of it. */
static void kill_all(const struct execd_pty_process *process, int signal)
{
    pid_t leader = process->child.pid; /* 0 once reaped */
    if (leader > 0 && getsid(leader) != leader)
        kill(leader, signal); /* has not come to its setsid() */
    if (execd_pty_terminal_kill_session(process->session, signal) || leader == 0)
        return;
    execd_child_kill_group(&process->child, signal);
    if (!process->pipes)
        execd_pty_terminal_signal(process->outputs[0].fd, leader, signal);
}

static void on_timer(uv_timer_t *timer)
{
    execd_pty_process_kill(timer->data);
}

void execd_pty_process_hang_up(struct execd_pty_process *process)
{
    process->hung_up = true;
    kill_all(process, SIGHUP);
    kill_all(process, SIGCONT); /* what is stopped cannot hear it */
    uv_timer_start(&process->timer, on_timer, HANG_UP_MS, 0);
}

void execd_pty_process_kill(struct execd_pty_process *process)
{
    process->hung_up = true;
    kill_all(process, SIGKILL);
}

/* --- start and end ---------------------------------------------------------------------------- */

bool execd_pty_process_is_started(const struct execd_pty_process *process)
{
    return process->started;
}

static void check_report(struct execd_pty_process *process)
{
    int r = execd_spawn_check(process->report.fd, &process->error);
    if (r == 0)
        return;
    close_channel(&process->report);
    process->started = r > 0;
    if (process->started)
        process->events.on_start(process->ctx);
    update_reading(process);
}

static void on_report(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    check_report(CONTAINER_OF(poll, struct channel, poll)->process);
}

static void on_child_exit(void *ctx, struct execd_exit exit)
{
    struct execd_pty_process *process = ctx;
    if (process->report.fd >= 0)
        check_report(process);
    process->slave = fd_close(process->slave);
    for (size_t i = 0; i < ARRAY_LEN(process->outputs) && process->started; i++)
        drain(&process->outputs[i]);
    if (process->hung_up)
        kill_all(process, SIGKILL);
    struct execd_process_result result = {
        .started = process->started,
        .error = process->error,
        .exit = exit,
        .duration_ms = (clock_monotonic_ns() - process->start_ns) / 1000000,
    };
    close_all(process);
    process->events.on_end(process->ctx, &result);
}

/* What the program gets as its three files. */
struct stdio {
    int in;
    int out;
    int err;
};

/* A pipe of which we watch one end; the other is for the program. */
static int open_pipe(struct channel *channel, struct execd_pty_process *process, uv_loop_t *loop,
                     bool we_write, int *ret_other, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot make a pipe");
    *ret_other = ends[we_write ? 0 : 1];
    return open_channel(channel, process, loop, ends[we_write ? 1 : 0], err);
}

static int open_pipes(struct execd_pty_process *process, uv_loop_t *loop, struct stdio *stdio,
                      struct error *err)
{
    int r = open_pipe(&process->input, process, loop, true, &stdio->in, err);
    if (r == 0)
        r = open_pipe(&process->outputs[EXECD_STDOUT], process, loop, false, &stdio->out, err);
    if (r == 0)
        r = open_pipe(&process->outputs[EXECD_STDERR], process, loop, false, &stdio->err, err);
    return r;
}

/* libuv watches a file once: reading and writing take a number each. */
static int open_terminal(struct execd_pty_process *process, uv_loop_t *loop,
                         const struct execd_pty_request *request, struct error *err)
{
    const struct execd_credentials *credentials =
        request->has_credentials ? &request->credentials : NULL;
    AUTO_CLOSE int master = -1;
    int r = execd_pty_terminal_open(credentials, &master, &process->slave, err);
    if (r < 0)
        return r;
    execd_pty_terminal_resize(master, request->cols, request->rows);
    int second = fcntl(master, F_DUPFD_CLOEXEC, 3);
    if (second < 0)
        return error_set_errno(err, errno, "cannot open a terminal");
    r = open_channel(&process->input, process, loop, second, err);
    if (r < 0)
        return r;
    return open_channel(&process->outputs[EXECD_STDOUT], process, loop, TAKE_FD(master), err);
}

/* From here on the process exists, and what goes wrong is told by its end. */
static void watch_child(struct execd_pty_process *process, struct execd *execd, pid_t pid,
                        int report)
{
    process->session = pid;
    execd_reaper_add(&execd->reaper, &process->child, pid, on_child_exit, process);
    if (open_channel(&process->report, process, execd->loop, report, &process->error) < 0)
        execd_pty_process_kill(process);
    else
        uv_poll_start(&process->report.poll, UV_READABLE, on_report);
}

static int spawn_shell(struct execd_pty_process *process, struct execd *execd,
                       const struct execd_pty_request *request, const struct stdio *stdio,
                       struct error *err)
{
    struct execd_pty_shell shell;
    execd_pty_shell_init(&shell, execd, request, process->pipes);
    struct execd_spawn spawn = {
        .programs = &shell.programs,
        .argv = shell.argv,
        .envp = execd_env_array(&shell.env),
        .cwd = request->cwd,
        .credentials = request->has_credentials ? &request->credentials : NULL,
        .in_fd = stdio->in,
        .out_fd = stdio->out,
        .err_fd = stdio->err,
        .new_session = true,
        .terminal = !process->pipes,
    };
    pid_t pid;
    int report;
    int r = execd_spawn_start(&spawn, &pid, &report, err);
    execd_pty_shell_done(&shell);
    if (r == 0)
        watch_child(process, execd, pid, report);
    return r;
}

static int start(struct execd_pty_process *process, struct execd *execd,
                 const struct execd_pty_request *request, struct error *err)
{
    if (!process->pipes) {
        int r = open_terminal(process, execd->loop, request, err);
        const struct stdio all = {process->slave, process->slave, process->slave};
        return r < 0 ? r : spawn_shell(process, execd, request, &all, err);
    }
    struct stdio stdio = {-1, -1, -1};
    int r = open_pipes(process, execd->loop, &stdio, err);
    if (r == 0)
        r = spawn_shell(process, execd, request, &stdio, err);
    fd_close(stdio.in);
    fd_close(stdio.out);
    fd_close(stdio.err);
    return r;
}

struct execd_pty_process *execd_pty_process_start(struct execd *execd,
                                                  const struct execd_pty_request *request,
                                                  bool pipes,
                                                  const struct execd_pty_process_events *events,
                                                  void *ctx, struct error *err)
{
    struct execd_pty_process *process = mem_alloc(sizeof(*process));
    process->events = *events;
    process->ctx = ctx;
    process->pipes = pipes;
    process->start_ns = clock_monotonic_ns();
    process->outputs[EXECD_STDOUT].fd = -1;
    process->outputs[EXECD_STDERR].fd = -1;
    process->input.fd = -1;
    process->report.fd = -1;
    process->slave = -1;
    buf_init(&process->queue, EXECD_PTY_INPUT_MAX);
    uv_timer_init(execd->loop, &process->timer);
    process->timer.data = process;
    process->open_handles = 1;
    if (start(process, execd, request, err) == 0)
        return process;
    close_all(process); /* nobody is told but the caller */
    return NULL;
}
