/* opensandbox-execd: the daemon inside a sandbox. This file: signals, the loop, the order of
 * things.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "execd/bootstrap.h"
#include "execd/entrypoint.h"
#include "execd/execd.h"
#include "execd/guard.h"
#include "execd/hold.h"
#include "execd/metrics.h"
#include "execd/options.h"
#include "execd/proxy.h"
#include "execd/routes.h"
#include "execd/workgroup.h"
#include "http/server.h"

#define WORK_GRACE_MS 300

/* Numbers 0 to 2 must never be given to a socket or pipe of ours: children have their stdio there.
 */
static void ensure_stdio(void)
{
    int fd = open("/dev/null", O_RDWR);
    int ends[2];
    if (fd < 0 && pipe(ends) == 0)
        fd = MAX(ends[0], ends[1]); /* an empty root: anything will do */
    while (fd >= 0 && fd <= 2)
        fd = dup(fd);
    if (fd > 2)
        close(fd);
}

/* --- signals ---------------------------------------------------------------------------------- */

/* Signals are blocked and read from an fd: PID 1 gets none that it does not take care of, nothing
 * is ever interrupted, and threads of the work queue inherit the mask. Children get an empty one.
 */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* As init we pass signals to the entrypoint and end when it does; otherwise they end us. */
static void on_ending_signal(struct execd *execd, int signal)
{
    if (execd->pid1 && execd_entrypoint_kill(execd, signal))
        return;
    if (signal != SIGHUP)
        execd_end(execd, execd->pid1 ? 128 + signal : 0);
}

static void on_signals(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct execd *execd = poll->data;
    int fd;
    struct signalfd_siginfo info;
    if (uv_fileno((uv_handle_t *)poll, &fd) < 0)
        return;
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            execd_reaper_run(&execd->reaper);
        else
            on_ending_signal(execd, (int)info.ssi_signo);
    }
}

/* --- serving ---------------------------------------------------------------------------------- */

static struct http_server *new_server(struct execd_listener *listener,
                                      const struct execd_options *options)
{
    struct http_server_config config = {
        .loop = listener->execd->loop,
        .on_request = execd_routes_handle,
        .ctx = listener,
        .limits.head_timeout_ms = (uint64_t)options->head_timeout_ms,
    };
    return http_server_new(&config);
}

static int listen_tcp(struct http_server *server, struct execd *execd, int port, struct error *err)
{
    if (http_server_listen_tcp(server, "0.0.0.0", port, &execd->port, err) < 0)
        return -1;
    log_info("listening on port %d", execd->port);
    return 0;
}

static int listen_inherited(struct http_server *server, int fd, struct error *err)
{
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return error_set_errno(err, errno, "--listen-fd %d", fd);
    return http_server_listen_fd(server, fd, err);
}

static int serve(struct execd *execd, const struct execd_options *options, struct error *err)
{
    struct execd_listener public = {.execd = execd};
    struct execd_listener internal = {.execd = execd, .internal = true};
    struct http_server *tcp = NULL;
    struct http_server *inherited = NULL;
    int r = 0;
    if (options->port >= 0) {
        tcp = new_server(&public, options);
        r = listen_tcp(tcp, execd, (int)options->port, err);
    }
    if (r == 0 && options->listen_fd >= 0) {
        inherited = new_server(&internal, options);
        r = listen_inherited(inherited, (int)options->listen_fd, err);
    }
    if (r == 0 && options->bootstrap)
        r = execd_bootstrap_start(execd, options->entrypoint, err);
    if (r == 0 && options->hold_fd >= 0)
        r = execd_hold_start(execd, (int)options->hold_fd, (int)options->name_fd, err);
    if (r == 0)
        uv_run(execd->loop, UV_RUN_DEFAULT);
    /* Open exchanges are told and clean up, half-written uploads among them. */
    http_server_free(tcp);
    http_server_free(inherited);
    execd_proxy_done(execd);
    execd_metrics_done(execd);
    return r;
}

static void on_waited(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Threads of the work queue that were told to stop get a moment to remove their temporary files. */
static void wait_for_work(struct execd *execd)
{
    uv_timer_start(&execd->deadline, on_waited, WORK_GRACE_MS, 0);
    uv_unref((uv_handle_t *)&execd->deadline);
    uv_run(execd->loop, UV_RUN_DEFAULT);
}

/* Small and steady: one malloc arena for all threads, large blocks returned at once, and two
 * threads at most for file system work. */
static void save_memory(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    mallopt(M_TRIM_THRESHOLD, 32 * 1024);
    mallopt(M_TOP_PAD, 4 * 1024);
    setenv("UV_THREADPOOL_SIZE", "2", 1);
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

/* The threads of the work queue are made now, before anything hostile runs here: libuv aborts when
 * it cannot make them, and a fork bomb is all it takes. Where that is kept in a group without us
 * they are made when they are needed, which for many a sandbox is never. */
static void start_threads(uv_loop_t *loop)
{
    static uv_work_t work;
    uv_queue_work(loop, &work, do_nothing, NULL);
}

/* Otherwise jansson looks for /dev/urandom, which an empty root does not have. */
static void seed_json(void)
{
    size_t seed;
    id_random(&seed, sizeof(seed));
    json_object_seed(seed);
}

/* A log that cannot be opened is no reason not to serve. */
static void open_log(const struct execd_options *options)
{
    log_init("execd", execd_options_log_level(options), LOG_PEOPLE);
    const char *file = options->log_file;
    if (file == NULL || str_equal(file, "stderr"))
        return;
    if (str_equal(file, "stdout")) {
        log_set_fd(STDOUT_FILENO);
        return;
    }
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd >= 0)
        log_set_fd(fd);
    else
        log_warn("the log goes to stderr: cannot open %.200s: %s", file, strerror(errno));
}

static const char *get_variable(const char *name)
{
    return getenv(name);
}

/* 0: go on; else exit with *ret_code. */
static int read_options(struct execd_options *options, int argc, char **argv, int *ret_code)
{
    struct error err = ERROR_INIT;
    if (execd_options_parse(options, argc, argv, get_variable, &err) < 0) {
        fprintf(stderr, "opensandbox-execd: %s\nTry 'opensandbox-execd --help'.\n", err.message);
        *ret_code = 2;
        return -1;
    }
    if (!options->show_help && !options->show_version)
        return 0;
    AUTO_FREE char *text = options->show_help ? execd_options_help()
                                              : mem_dup("opensandbox-execd " EXECD_VERSION "\n");
    fputs(text, stdout);
    *ret_code = 0;
    return -1;
}

/* Order matters: the token is taken before the environment is copied for commands, and threads are
 * made when the signals are blocked and the filter is in place, for they inherit both. */
static int set_up(struct execd *execd, const struct execd_options *options, struct error *err)
{
    if ((options->block_clone3 || execd_guard_clone3_is_refused()) &&
        execd_guard_block_clone3(err) < 0)
        return -1;
    if (execd_workgroup_init(options->work_fds.items, options->work_fds.count, err) < 0)
        return -1;
    execd_guard_from_oom();
    execd_guard_from_looks();
    AUTO_FREE char *token = execd_guard_take_token(options->token);
    save_memory();
    execd_init(execd, uv_default_loop());
    seed_json();
    execd->token = TAKE_PTR(token);
    execd->pid1 = options->pid1;
    execd->idle_fd = (int)options->idle_fd;
    execd->spool_bytes = (uint64_t)options->spool_bytes;
    execd->keep_finished_ms = (uint64_t)options->keep_finished_ms;
    execd->umask = umask(022);
    if (!options->pid1)
        umask(execd->umask); /* only an init decides; others keep what they were given */
    else
        execd->umask = 022;
    if (options->pid1 && getpid() != 1)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    return 0;
}

int main(int argc, char **argv)
{
    static struct execd execd;
    static uv_poll_t signal_poll;
    struct execd_options options;
    struct error err = ERROR_INIT;
    int code;
    ensure_stdio();
    if (read_options(&options, argc, argv, &code) < 0)
        return code;
    open_log(&options);
    if (set_up(&execd, &options, &err) < 0) {
        log_error("%s", err.message);
        return 1;
    }
    int signals = open_signals();
    if (signals < 0 || uv_poll_init(execd.loop, &signal_poll, signals) < 0) {
        log_error("cannot watch signals: %s", strerror(errno));
        return 1;
    }
    signal_poll.data = &execd;
    uv_poll_start(&signal_poll, UV_READABLE, on_signals);
    if (!execd_workgroup_exists())
        start_threads(execd.loop);

    if (serve(&execd, &options, &err) < 0) {
        log_error("%s", err.message);
        execd.exit_code = 1;
    }
    uv_close((uv_handle_t *)&signal_poll, NULL);
    uv_close((uv_handle_t *)&execd.rest, NULL);
    wait_for_work(&execd);
    uv_close((uv_handle_t *)&execd.deadline, NULL);
    for (int turn = 0; turn < 3 && uv_run(execd.loop, UV_RUN_NOWAIT) != 0; turn++)
        continue;
    if (uv_loop_alive(execd.loop))
        _exit(execd.exit_code); /* exit() would wait for the work queue, however long that takes */
    return execd.exit_code;
}
