/* As in process.c, FIONREAD says at the end of a run and at the exit how much the pipes hold, and
 * exactly that is still read.
 *
 * bash can lose its pipes: `exec program` closes them, and so does a user who tries hard. When the
 * frames end before the process does, the other pipe is closed as well: a bash that is still one
 * then reads the end of its input and exits; a program that took its place runs to its end. */
#include "execd/session_bash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "execd/execd.h"
#include "execd/session_frames.h"
#include "execd/session_processes.h"
#include "execd/session_request.h"
#include "execd/session_script.h"

#define READ_BYTES (32 * 1024)
/* Lines for bash: a state and a command, escaped, with room for the functions. */
#define LINES_MAX                                                               \
    (5 * ((size_t)EXECD_SESSION_STATE_MAX + (size_t)EXECD_SESSION_COMMAND_MAX + \
          (size_t)EXECD_STRING_MAX) +                                           \
     64 * 1024)
#define ARGUMENTS_MAX 16
/* A child of bash forgets a signal that comes right after the fork, and a tick is 10 ms long. */
#define YOUNG_TICKS 5

enum run_phase { RUN_NONE, RUN_SENT, RUN_BEGUN, RUN_ENDED /* but its output is not all out */ };

/* One end of a pipe that is ours. */
struct link {
    struct execd_session_bash *bash;
    uv_poll_t poll;
    int fd;      /* -1 after its end */
    size_t left; /* of output, when the run has ended or bash has exited: still to be handed on */
};

struct execd_session_bash {
    struct execd_session_bash_events events;
    void *ctx;
    struct execd_child child;
    pid_t pid; /* also after the exit */
    int report;
    uint64_t start_ns;
    struct link lines;
    struct link frames;
    struct link outputs[2]; /* by enum execd_output */
    struct buf unsent;
    struct execd_session_frames parser;
    struct execd_session_moment moment; /* when the run started */
    uint64_t stop_ticks;                /* who is younger may have missed the signal to stop */
    char nonce[ID_HEX_LEN + 1];
    enum run_phase phase;
    int status; /* with RUN_ENDED */
    char *cwd;
    bool paused;
    bool exited;
    bool broken;    /* it said what it may not say, and was killed for it */
    bool settled;   /* it has told its state since the last run */
    bool unwrapped; /* it has an EXIT trap that does not save the state */
    struct execd_exit exit;
    int holders; /* open handles, and the process */
};

/* --- the end ---------------------------------------------------------------------------------- */

static void release(struct execd_session_bash *bash)
{
    if (--bash->holders > 0)
        return;
    execd_session_frames_done(&bash->parser);
    buf_done(&bash->unsent);
    free(bash->cwd);
    free(bash);
}

static void on_handle_closed(uv_handle_t *handle)
{
    release(handle->data);
}

/* The handle goes before the fd: libuv takes a closing handle's number out of its epoll set. */
static void close_link(struct link *link)
{
    if (link->fd < 0)
        return;
    if (link->poll.type == UV_POLL)
        uv_close((uv_handle_t *)&link->poll, on_handle_closed);
    link->fd = fd_close(link->fd);
    link->left = 0;
}

static void close_all(struct execd_session_bash *bash)
{
    close_link(&bash->lines);
    close_link(&bash->frames);
    close_link(&bash->outputs[EXECD_STDOUT]);
    close_link(&bash->outputs[EXECD_STDERR]);
    bash->report = fd_close(bash->report);
}

static void finish(struct execd_session_bash *bash)
{
    struct execd_process_result result = {
        .exit = bash->exit,
        .duration_ms = (clock_monotonic_ns() - bash->start_ns) / 1000000,
    };
    result.started = execd_spawn_check(bash->report, &result.error) >= 0;
    if (bash->broken) {
        result.started = false;
        error_set(&result.error, ERR_INTERNAL,
                  "the shell of this session wrote to a file that is not its own and was killed; "
                  "the next run continues with the state before this one");
    }
    struct execd_session_bash_events events = bash->events;
    void *ctx = bash->ctx;
    close_all(bash);
    release(bash);
    events.on_exit(ctx, &result);
}

/* --- output ----------------------------------------------------------------------------------- */

/* One read of at most `max` bytes; false when there is nothing to read now or ever. */
static bool read_output(struct link *link, size_t max)
{
    struct execd_session_bash *bash = link->bash;
    char bytes[READ_BYTES];
    ssize_t n = read(link->fd, bytes, MIN(max, sizeof(bytes)));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close_link(link);
        return false;
    }
    if (bash->exited || bash->phase == RUN_ENDED)
        link->left -= MIN((size_t)n, link->left);
    enum execd_output which = link == &bash->outputs[1] ? EXECD_STDERR : EXECD_STDOUT;
    bash->events.on_output(bash->ctx, which, bytes, (size_t)n);
    return true;
}

static void measure_outputs(struct execd_session_bash *bash)
{
    for (size_t i = 0; i < ARRAY_LEN(bash->outputs); i++) {
        int bytes = 0;
        if (bash->outputs[i].fd >= 0 && ioctl(bash->outputs[i].fd, FIONREAD, &bytes) == 0)
            bash->outputs[i].left = (size_t)bytes;
    }
}

/* The run has ended or bash has exited: hand on what is left, as far as the owner takes it, and
 * tell it when all is out. */
static void drain(struct execd_session_bash *bash)
{
    for (size_t i = 0; i < ARRAY_LEN(bash->outputs); i++) {
        struct link *link = &bash->outputs[i];
        while (!bash->paused && link->left > 0) {
            if (!read_output(link, link->left))
                link->left = 0;
        }
        if (link->left > 0)
            return; /* paused; resume() brings us back */
    }
    if (bash->phase == RUN_ENDED) {
        bash->phase = RUN_NONE;
        execd_session_bash_resume(bash); /* who wanted the pause has everything now */
        bash->events.on_end(bash->ctx, bash->status, bash->cwd);
    }
    if (bash->exited)
        finish(bash);
}

static void on_output_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* an error shows up as a readable end as well */
    (void)events;
    struct link *link = CONTAINER_OF(poll, struct link, poll);
    if (link->bash->exited || link->bash->phase == RUN_ENDED)
        drain(link->bash);
    else
        read_output(link, READ_BYTES);
}

/* What is there before the run belongs to nobody. */
static void drop_outputs(struct execd_session_bash *bash)
{
    measure_outputs(bash);
    for (size_t i = 0; i < ARRAY_LEN(bash->outputs); i++) {
        struct link *link = &bash->outputs[i];
        char bytes[READ_BYTES];
        while (link->left > 0) {
            ssize_t n = read(link->fd, bytes, MIN(link->left, sizeof(bytes)));
            link->left = n > 0 ? link->left - (size_t)n : 0;
        }
    }
}

void execd_session_bash_pause(struct execd_session_bash *bash)
{
    if (bash->paused)
        return;
    bash->paused = true;
    for (size_t i = 0; i < ARRAY_LEN(bash->outputs); i++) {
        if (bash->outputs[i].fd >= 0)
            uv_poll_stop(&bash->outputs[i].poll);
    }
}

void execd_session_bash_resume(struct execd_session_bash *bash)
{
    if (!bash->paused)
        return;
    bash->paused = false;
    for (size_t i = 0; i < ARRAY_LEN(bash->outputs); i++) {
        if (bash->outputs[i].fd >= 0)
            uv_poll_start(&bash->outputs[i].poll, UV_READABLE, on_output_readable);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

static void kill_broken(struct execd_session_bash *bash)
{
    bash->broken = true;
    execd_session_bash_kill(bash, false);
    close_link(&bash->frames);
    close_link(&bash->lines);
}

static void on_frame(void *ctx, const struct execd_session_frame *frame)
{
    struct execd_session_bash *bash = ctx;
    if (bash->broken)
        return;
    bool known = strcmp(frame->nonce, bash->nonce) == 0;
    if (known && frame->kind == EXECD_SESSION_BEGIN && bash->phase == RUN_SENT) {
        bash->phase = RUN_BEGUN;
        bash->events.on_begin(bash->ctx);
    } else if (known && frame->kind == EXECD_SESSION_END && bash->phase == RUN_BEGUN) {
        bash->phase = RUN_ENDED;
        bash->settled = false;
        bash->status = frame->status;
        free(bash->cwd);
        bash->cwd = mem_dup(frame->text);
    } else if (known && frame->kind == EXECD_SESSION_END && bash->phase != RUN_SENT) {
        return; /* once more, since something has interrupted it */
    } else if (known && frame->kind == EXECD_SESSION_STATE) {
        bash->settled = true;
        bash->unwrapped = frame->text != NULL && !execd_session_script_is_wrapped(frame->text);
        bash->events.on_state(bash->ctx, frame->text, frame->length);
    } else {
        kill_broken(bash);
    }
}

/* Everything that bash has said until now; false when it will say no more. */
static bool read_frames(struct execd_session_bash *bash)
{
    char bytes[READ_BYTES];
    while (bash->frames.fd >= 0) {
        ssize_t n = read(bash->frames.fd, bytes, sizeof(bytes));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        enum run_phase before = bash->phase;
        if (execd_session_frames_feed(&bash->parser, bytes, (size_t)n, on_frame, bash) < 0)
            kill_broken(bash);
        if (bash->phase == RUN_ENDED && before != RUN_ENDED)
            return true; /* what the client waits for comes before the rest */
    }
    return true;
}

static void on_frames_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct execd_session_bash *bash = CONTAINER_OF(poll, struct link, poll)->bash;
    enum run_phase before = bash->phase;
    if (!read_frames(bash)) {
        close_link(&bash->frames);
        close_link(&bash->lines);
    }
    if (bash->phase == RUN_ENDED && before != RUN_ENDED) {
        measure_outputs(bash);
        drain(bash);
    }
}

static void on_child_exit(void *ctx, struct execd_exit exit)
{
    struct execd_session_bash *bash = ctx;
    /* Its last words may still be in the pipe: an end, and mostly a state. */
    while (bash->frames.fd >= 0) {
        enum run_phase before = bash->phase;
        if (!read_frames(bash) || bash->phase == before)
            break;
    }
    bash->exited = true;
    bash->exit = exit;
    measure_outputs(bash);
    drain(bash);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void on_lines_writable(uv_poll_t *poll, int status, int events);

static void send_lines(struct execd_session_bash *bash)
{
    struct buf *unsent = &bash->unsent;
    size_t sent = 0;
    while (bash->lines.fd >= 0 && sent < unsent->length) {
        ssize_t n = write(bash->lines.fd, unsent->data + sent, unsent->length - sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            buf_consume(unsent, sent);
            uv_poll_start(&bash->lines.poll, UV_WRITABLE, on_lines_writable);
            return;
        }
        if (n < 0)
            break; /* nobody reads any more: its exit will be told */
        sent += (size_t)n;
    }
    buf_done(unsent);
    if (bash->lines.fd >= 0)
        uv_poll_stop(&bash->lines.poll);
}

static void on_lines_writable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    send_lines(CONTAINER_OF(poll, struct link, poll)->bash);
}

void execd_session_bash_run(struct execd_session_bash *bash, const char *code, const char *cwd)
{
    drop_outputs(bash);
    id_new_hex(bash->nonce);
    bash->phase = RUN_SENT;
    execd_session_moment_take(&bash->moment, bash->pid);
    if (execd_session_script_run(&bash->unsent, bash->nonce, code, cwd, bash->unwrapped) < 0)
        kill_broken(bash); /* cannot be: commands are smaller than that */
    send_lines(bash);
}

/* --- signals ---------------------------------------------------------------------------------- */

/* Signal what the run has started since then, or everything where that cannot be told. */
static void signal_run(struct execd_session_bash *bash, uint64_t min_ticks, int signal)
{
    if (execd_session_processes_signal(bash->pid, &bash->moment, min_ticks, signal) < 0)
        execd_child_kill_group(&bash->child, signal);
    if (bash->frames.fd < 0)
        kill(bash->child.pid, signal); /* another program has taken the place of bash */
}

static void ask_for_end(struct execd_session_bash *bash)
{
    if (execd_session_script_end(&bash->unsent) == 0)
        send_lines(bash);
}

/* bash hears of it before its program ends, and so takes the trap before anything else. */
void execd_session_bash_stop(struct execd_session_bash *bash, int signal)
{
    if (bash->child.pid <= 0)
        return;
    if (bash->frames.fd >= 0)
        kill(bash->child.pid, EXECD_SESSION_STOP_SIGNAL);
    uint64_t now = execd_session_ticks_now();
    bash->stop_ticks = now - MIN(now, (uint64_t)YOUNG_TICKS);
    signal_run(bash, 0, signal);
    ask_for_end(bash);
}

void execd_session_bash_stop_late(struct execd_session_bash *bash, int signal)
{
    if (bash->child.pid > 0)
        signal_run(bash, bash->stop_ticks, signal);
}

/* Nothing to bash after the programs: it goes on when they are gone, and a SIGINT while it saves
 * its state would keep that, and so the next run, from ever coming. */
void execd_session_bash_stop_again(struct execd_session_bash *bash)
{
    if (bash->child.pid <= 0)
        return;
    if (bash->frames.fd >= 0) {
        kill(bash->child.pid, EXECD_SESSION_STOP_SIGNAL);
        kill(bash->child.pid, SIGINT);
    }
    signal_run(bash, 0, SIGKILL);
    ask_for_end(bash);
}

bool execd_session_bash_signal_others(struct execd_session_bash *bash, int signal)
{
    return bash->child.pid > 0 && execd_session_processes_signal(bash->pid, NULL, 0, signal) > 0;
}

void execd_session_bash_kill(struct execd_session_bash *bash, bool others)
{
    if (bash->child.pid <= 0)
        return;
    if (others)
        execd_session_processes_signal(bash->pid, NULL, 0, SIGKILL);
    execd_child_kill_group(&bash->child, SIGKILL);
    kill(bash->child.pid, SIGKILL); /* it may not lead its group yet */
}

pid_t execd_session_bash_pid(const struct execd_session_bash *bash)
{
    return bash->pid;
}

bool execd_session_bash_is_alive(const struct execd_session_bash *bash)
{
    return bash->child.pid > 0;
}

bool execd_session_bash_is_ready(const struct execd_session_bash *bash)
{
    return execd_session_bash_is_alive(bash) && bash->phase == RUN_NONE && bash->settled;
}

/* --- the start -------------------------------------------------------------------------------- */

static void add_programs(struct execd_programs *programs, const struct execd_env *env)
{
    const char *search = execd_env_find(env, "PATH");
    execd_programs_init(programs);
    if (search != NULL)
        execd_programs_add(programs, "bash", search);
    execd_programs_add(programs, "bash", EXECD_PATH_DEFAULT);
}

bool execd_session_bash_exists(const struct execd_env *env)
{
    struct execd_programs programs;
    add_programs(&programs, env);
    bool found = false;
    for (size_t i = 0; i < programs.count && !found; i++) {
        struct stat st;
        found = stat(programs.items[i].path, &st) == 0 && S_ISREG(st.st_mode) &&
                (st.st_mode & 0111) != 0;
    }
    execd_programs_done(&programs);
    return found;
}

/* A pipe whose one end is ours, watched by the loop, and the other for bash. */
static int open_link(struct execd_session_bash *bash, struct link *link, uv_loop_t *loop, bool ours,
                     int *ret_other, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot make a pipe for a session");
    link->fd = ends[ours];
    *ret_other = ends[!ours];
    link->bash = bash;
    link->poll.data = bash;
    int r = uv_poll_init(loop, &link->poll, link->fd); /* makes our end non-blocking */
    if (r < 0)
        return error_set_errno(err, -r, "cannot watch a pipe");
    bash->holders++;
    return 0;
}

/* Nothing to read, for ever. */
static int open_nothing(struct error *err)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int ends[2];
    if (fd >= 0)
        return fd;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot make a pipe for a session");
    close(ends[1]);
    return ends[0];
}

static int spawn_bash(struct execd_session_bash *bash, struct execd *execd,
                      const struct execd_session_bash_options *options, struct error *err)
{
    AUTO_CLOSE int lines = -1;
    AUTO_CLOSE int frames = -1;
    AUTO_CLOSE int out = -1;
    AUTO_CLOSE int error = -1;
    AUTO_CLOSE int nothing = open_nothing(err);
    uv_loop_t *loop = execd->loop;
    if (nothing < 0 || open_link(bash, &bash->lines, loop, true, &lines, err) < 0 ||
        open_link(bash, &bash->frames, loop, false, &frames, err) < 0 ||
        open_link(bash, &bash->outputs[EXECD_STDOUT], loop, false, &out, err) < 0 ||
        open_link(bash, &bash->outputs[EXECD_STDERR], loop, false, &error, err) < 0)
        return -1;
    char *argv[ARGUMENTS_MAX] = {NULL}; /* the first is replaced by the program's name */
    for (size_t i = 0; execd_session_script_arguments[i] != NULL && i + 2 < ARRAY_LEN(argv); i++)
        argv[i + 1] = (char *)(uintptr_t)execd_session_script_arguments[i];
    struct execd_programs programs;
    static const struct execd_env empty;
    add_programs(&programs, options->env);
    struct execd_spawn spawn = {
        .programs = &programs,
        .argv = argv,
        .envp = execd_env_array(options->empty ? &empty : options->env),
        .cwd = options->cwd,
        .credentials = options->credentials,
        .in_fd = lines,
        .out_fd = -1,
        .err_fd = -1,
        .pass = {{frames, EXECD_SESSION_FD_CONTROL},
                 {out, EXECD_SESSION_FD_STDOUT},
                 {error, EXECD_SESSION_FD_STDERR},
                 {nothing, EXECD_SESSION_FD_NOTHING}},
        .pass_count = 4,
        .new_session = true,
    };
    int r = execd_spawn_start(&spawn, &bash->pid, &bash->report, err);
    execd_programs_done(&programs);
    if (r == 0)
        execd_reaper_add(&execd->reaper, &bash->child, bash->pid, on_child_exit, bash);
    return r;
}

struct execd_session_bash *execd_session_bash_start(
    struct execd *execd, const struct execd_session_bash_options *options,
    const struct execd_session_bash_events *events, void *ctx, struct error *err)
{
    struct execd_session_bash *bash = mem_alloc(sizeof(*bash));
    bash->events = *events;
    bash->ctx = ctx;
    bash->holders = 1;
    bash->settled = true;
    bash->report = -1;
    bash->start_ns = clock_monotonic_ns();
    bash->lines.fd = bash->frames.fd = -1;
    bash->outputs[EXECD_STDOUT].fd = bash->outputs[EXECD_STDERR].fd = -1;
    buf_init(&bash->unsent, LINES_MAX);
    execd_session_frames_init(&bash->parser);
    id_new_hex(bash->nonce);
    if (spawn_bash(bash, execd, options, err) < 0) {
        close_all(bash); /* nobody is told but the caller */
        release(bash);
        return NULL;
    }
    uv_poll_start(&bash->frames.poll, UV_READABLE, on_frames_readable);
    uv_poll_start(&bash->outputs[EXECD_STDOUT].poll, UV_READABLE, on_output_readable);
    uv_poll_start(&bash->outputs[EXECD_STDERR].poll, UV_READABLE, on_output_readable);
    execd_session_script_start(&bash->unsent, bash->nonce, options->state, options->state_length);
    send_lines(bash);
    return bash;
}
