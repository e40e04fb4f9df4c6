/* Two reads can tell us of the same exit: the reaper's SIGCHLD and the end of file on both pipes,
 * in any order. Only the reaper's counts. When it comes, FIONREAD says how much the pipes hold, and
 * exactly that is still read: a background child that goes on writing cannot keep the process from
 * ending, and nothing that the leader wrote is lost. */
#include "execd/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execd/execd.h"

#define READ_BYTES (32 * 1024)

struct output {
    struct execd_process *process;
    uv_poll_t poll;
    int fd;      /* -1 after its end */
    size_t left; /* after the exit: bytes still to be handed on */
};

struct execd_process {
    struct execd_process_events events;
    void *ctx;
    struct execd_child child;
    int report; /* -1 once it is known whether the program was started */
    uv_poll_t report_poll;
    uint64_t start_ns;
    struct output outputs[2]; /* by enum execd_output */
    uv_timer_t timeout;
    bool paused;
    bool exited;
    struct execd_process_result result;
    int open_handles;
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct execd_process *process = handle->data;
    if (--process->open_handles == 0)
        free(process);
}

/* The handle goes before the fd: libuv takes a closing handle's number out of its epoll set, and by
 * then the number must not belong to somebody else. */
static void close_output(struct output *output)
{
    if (output->fd < 0)
        return;
    if (output->poll.type == UV_POLL)
        uv_close((uv_handle_t *)&output->poll, on_handle_closed);
    output->fd = fd_close(output->fd);
    output->left = 0;
}

static void close_report(struct execd_process *process)
{
    if (process->report < 0)
        return;
    if (process->report_poll.type == UV_POLL)
        uv_close((uv_handle_t *)&process->report_poll, on_handle_closed);
    process->report = fd_close(process->report);
}

static void close_all(struct execd_process *process)
{
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++)
        close_output(&process->outputs[i]);
    close_report(process);
    uv_close((uv_handle_t *)&process->timeout, on_handle_closed);
}

/* Has the program been started? Does nothing when that is known, or cannot be known yet. */
static void learn_start(struct execd_process *process)
{
    if (process->report < 0)
        return;
    int r = execd_spawn_check(process->report, &process->result.error);
    if (r == 0 && !process->exited)
        return;
    close_report(process);
    process->result.started = r >= 0;
    if (r >= 0 && process->events.on_start != NULL)
        process->events.on_start(process->ctx);
}

static void finish(struct execd_process *process)
{
    close_all(process); /* the memory goes later, from the loop */
    process->events.on_end(process->ctx, &process->result);
}

/* One read of at most `max` bytes; false when there is nothing to read now or ever. */
static bool read_once(struct output *output, size_t max)
{
    struct execd_process *process = output->process;
    char bytes[READ_BYTES];
    ssize_t n = read(output->fd, bytes, MIN(max, sizeof(bytes)));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close_output(output);
        return false;
    }
    if (process->exited)
        output->left -= (size_t)n;
    enum execd_output which = output == &process->outputs[1] ? EXECD_STDERR : EXECD_STDOUT;
    process->events.on_output(process->ctx, which, bytes, (size_t)n);
    return true;
}

/* After the exit: hand on what is left, as far as the owner takes it, and end when all is out. */
static void drain(struct execd_process *process)
{
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++) {
        struct output *output = &process->outputs[i];
        while (!process->paused && output->left > 0) {
            if (!read_once(output, output->left))
                output->left = 0;
        }
        if (output->left > 0)
            return; /* paused; resume() brings us back */
    }
    finish(process);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* an error shows up as a readable end as well */
    (void)events;
    struct output *output = CONTAINER_OF(poll, struct output, poll);
    if (output->process->exited)
        drain(output->process);
    else
        read_once(output, READ_BYTES);
}

static void on_child_exit(void *ctx, struct execd_exit exit)
{
    struct execd_process *process = ctx;
    process->exited = true;
    learn_start(process);
    process->result.exit = exit;
    process->result.duration_ms = (clock_monotonic_ns() - process->start_ns) / 1000000;
    if (process->events.on_exit != NULL)
        process->events.on_exit(process->ctx, &process->result);
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++) {
        struct output *output = &process->outputs[i];
        int bytes = 0;
        if (output->fd >= 0 && ioctl(output->fd, FIONREAD, &bytes) == 0)
            output->left = (size_t)bytes;
    }
    drain(process);
}

static void on_report(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    learn_start(poll->data);
}

static void on_timeout(uv_timer_t *timer)
{
    struct execd_process *process = timer->data;
    execd_child_kill_group(&process->child, SIGKILL);
}

void execd_process_pause(struct execd_process *process)
{
    if (process->paused)
        return;
    process->paused = true;
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++) {
        if (process->outputs[i].fd >= 0)
            uv_poll_stop(&process->outputs[i].poll);
    }
}

void execd_process_resume(struct execd_process *process)
{
    if (!process->paused)
        return;
    process->paused = false;
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++) {
        struct output *output = &process->outputs[i];
        if (output->fd >= 0 && (!process->exited || output->left > 0))
            uv_poll_start(&output->poll, UV_READABLE, on_readable);
    }
}

void execd_process_kill(struct execd_process *process, int signal)
{
    execd_child_kill_group(&process->child, signal);
}

static int open_output(struct execd_process *process, struct output *output, uv_loop_t *loop,
                       int *ret_write_end, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot make a pipe for output");
    output->fd = ends[0];
    *ret_write_end = ends[1];
    output->process = process;
    output->poll.data = process;
    int r = uv_poll_init(loop, &output->poll, output->fd); /* makes our end non-blocking */
    if (r < 0)
        return error_set_errno(err, -r, "cannot watch a pipe");
    process->open_handles++;
    return 0;
}

/* Somebody wants to know as soon as the program runs; the others learn it from its exit. */
static void watch_report(struct execd_process *process, uv_loop_t *loop)
{
    if (process->events.on_start == NULL)
        return;
    if (uv_poll_init(loop, &process->report_poll, process->report) < 0)
        return; /* it is told with the exit, then */
    process->report_poll.data = process;
    process->open_handles++;
    uv_poll_start(&process->report_poll, UV_READABLE, on_report);
}

static int start(struct execd_process *process, struct execd *execd, struct execd_spawn *spawn,
                 bool joined, struct error *err)
{
    AUTO_CLOSE int out = -1;
    AUTO_CLOSE int error = -1;
    int r = open_output(process, &process->outputs[EXECD_STDOUT], execd->loop, &out, err);
    if (r == 0 && !joined)
        r = open_output(process, &process->outputs[EXECD_STDERR], execd->loop, &error, err);
    if (r < 0)
        return r;
    spawn->out_fd = out;
    spawn->err_fd = joined ? out : error;
    pid_t pid;
    r = execd_spawn_start(spawn, &pid, &process->report, err);
    if (r < 0)
        return r;
    execd_reaper_add(&execd->reaper, &process->child, pid, on_child_exit, process);
    for (size_t i = 0; i < ARRAY_LEN(process->outputs); i++) {
        if (process->outputs[i].fd >= 0)
            uv_poll_start(&process->outputs[i].poll, UV_READABLE, on_readable);
    }
    watch_report(process, execd->loop);
    return 0;
}

static struct execd_process *start_new(struct execd *execd, struct execd_spawn *spawn, bool joined,
                                       uint64_t timeout_ms,
                                       const struct execd_process_events *events, void *ctx,
                                       struct error *err)
{
    struct execd_process *process = mem_alloc(sizeof(*process));
    process->events = *events;
    process->ctx = ctx;
    process->report = -1;
    process->start_ns = clock_monotonic_ns();
    process->outputs[EXECD_STDOUT].fd = -1;
    process->outputs[EXECD_STDERR].fd = -1;
    uv_timer_init(execd->loop, &process->timeout);
    process->timeout.data = process;
    process->open_handles = 1;
    if (start(process, execd, spawn, joined, err) < 0) {
        close_all(process); /* nobody is told but the caller */
        return NULL;
    }
    if (timeout_ms > 0)
        uv_timer_start(&process->timeout, on_timeout, timeout_ms, 0);
    return process;
}

struct execd_process *execd_process_start(struct execd *execd, struct execd_spawn *spawn,
                                          uint64_t timeout_ms,
                                          const struct execd_process_events *events, void *ctx,
                                          struct error *err)
{
    return start_new(execd, spawn, false, timeout_ms, events, ctx, err);
}

struct execd_process *execd_process_start_joined(struct execd *execd, struct execd_spawn *spawn,
                                                 uint64_t timeout_ms,
                                                 const struct execd_process_events *events,
                                                 void *ctx, struct error *err)
{
    return start_new(execd, spawn, true, timeout_ms, events, ctx, err);
}
