/* opensandbox-execd: the daemon inside a sandbox. This file: the command line, signals, the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
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
#include "execd/entrypoint.h"
#include "execd/execd.h"
#include "execd/routes.h"
#include "http/server.h"

#define DEFAULT_PORT  44772
#define WORK_GRACE_MS 300

struct options {
    int port; /* -1: no TCP */
    int listen_fd;
    bool pid1;
    const char *token;
};

static const char help_text[] =
    "Usage: opensandbox-execd [OPTION...]\n"
    "Run commands and move files inside a sandbox, over HTTP.\n"
    "\n"
    "  --port N           listen on TCP port N, all IPv4 addresses (default 44772)\n"
    "  --listen-fd N      serve the listening socket inherited as file descriptor N,\n"
    "                     with /internal/, instead of TCP (unless --port is given too)\n"
    "  --pid1             be the init of the sandbox: reap orphans, end with the entrypoint\n"
    "  --access-token T   require the header X-EXECD-ACCESS-TOKEN: T\n"
    "                     (default: environment variable EXECD_ACCESS_TOKEN)\n"
    "  --help, --version\n";

enum { OPTION_PORT = 1, OPTION_LISTEN_FD, OPTION_PID1, OPTION_TOKEN, OPTION_HELP, OPTION_VERSION };

static const struct option long_options[] = {
    {"port", required_argument, NULL, OPTION_PORT},
    {"listen-fd", required_argument, NULL, OPTION_LISTEN_FD},
    {"pid1", no_argument, NULL, OPTION_PID1},
    {"access-token", required_argument, NULL, OPTION_TOKEN},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {0},
};

static bool parse_number(const char *option, uint64_t min, uint64_t max, int *ret)
{
    uint64_t value;
    if (str_to_u64(optarg, min, max, &value) < 0) {
        fprintf(stderr, "opensandbox-execd: %s must be a number from %llu to %llu, not \"%s\"\n",
                option, (unsigned long long)min, (unsigned long long)max, optarg);
        return false;
    }
    *ret = (int)value;
    return true;
}

/* 0: go on; else exit with *ret_code. */
static int parse_options(int argc, char **argv, struct options *options, int *ret_code)
{
    *ret_code = 2;
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case OPTION_PORT:
            if (!parse_number("--port", 0, 65535, &options->port))
                return -1;
            break;
        case OPTION_LISTEN_FD:
            if (!parse_number("--listen-fd", 3, 1 << 20, &options->listen_fd))
                return -1;
            break;
        case OPTION_PID1:
            options->pid1 = true;
            break;
        case OPTION_TOKEN:
            options->token = optarg;
            break;
        case OPTION_HELP:
            fputs(help_text, stdout);
            *ret_code = 0;
            return -1;
        case OPTION_VERSION:
            puts("opensandbox-execd " EXECD_VERSION);
            *ret_code = 0;
            return -1;
        default:
            fputs("Try 'opensandbox-execd --help'.\n", stderr);
            return -1;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "opensandbox-execd: unexpected argument \"%s\"\n", argv[optind]);
        return -1;
    }
    if (options->port < 0 && options->listen_fd < 0)
        options->port = DEFAULT_PORT;
    if (options->token != NULL && *options->token == '\0')
        options->token = NULL;
    return 0;
}

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

static struct http_server *new_server(struct execd_listener *listener)
{
    struct http_server_config config = {
        .loop = listener->execd->loop,
        .on_request = execd_routes_handle,
        .ctx = listener,
    };
    return http_server_new(&config);
}

static int listen_tcp(struct http_server *server, int port, struct error *err)
{
    int actual;
    if (http_server_listen_tcp(server, "0.0.0.0", port, &actual, err) < 0)
        return -1;
    log_info("listening on port %d", actual);
    return 0;
}

static int listen_inherited(struct http_server *server, int fd, struct error *err)
{
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return error_set_errno(err, errno, "--listen-fd %d", fd);
    return http_server_listen_fd(server, fd, err);
}

static int serve(struct execd *execd, const struct options *options, struct error *err)
{
    struct execd_listener public = {.execd = execd};
    struct execd_listener internal = {.execd = execd, .internal = true};
    struct http_server *tcp = NULL;
    struct http_server *inherited = NULL;
    int r = 0;
    if (options->port >= 0) {
        tcp = new_server(&public);
        r = listen_tcp(tcp, options->port, err);
    }
    if (r == 0 && options->listen_fd >= 0) {
        inherited = new_server(&internal);
        r = listen_inherited(inherited, options->listen_fd, err);
    }
    if (r == 0)
        uv_run(execd->loop, UV_RUN_DEFAULT);
    /* Open exchanges are told and clean up, half-written uploads among them. */
    http_server_free(tcp);
    http_server_free(inherited);
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
 * threads at most for file system work (made when first needed). */
static void save_memory(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    mallopt(M_TRIM_THRESHOLD, 32 * 1024);
    mallopt(M_TOP_PAD, 4 * 1024);
    setenv("UV_THREADPOOL_SIZE", "2", 1);
}

/* Otherwise jansson looks for /dev/urandom, which an empty root does not have. */
static void seed_json(void)
{
    size_t seed;
    id_random(&seed, sizeof(seed));
    json_object_seed(seed);
}

int main(int argc, char **argv)
{
    static struct execd execd;
    static uv_poll_t signal_poll;
    struct options options = {.port = -1, .listen_fd = -1, .token = getenv("EXECD_ACCESS_TOKEN")};
    int code;
    ensure_stdio();
    if (parse_options(argc, argv, &options, &code) < 0)
        return code;
    log_init("execd", LOG_INFO, LOG_PEOPLE);
    execd_init(&execd, uv_default_loop());
    seed_json();
    save_memory();
    execd.token = options.token;
    execd.pid1 = options.pid1;
    execd.umask = umask(022);
    if (!options.pid1)
        umask(execd.umask); /* only an init decides; others keep what they were given */
    else
        execd.umask = 022;
    if (options.pid1 && getpid() != 1)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    int signals = open_signals();
    if (signals < 0 || uv_poll_init(execd.loop, &signal_poll, signals) < 0) {
        log_error("cannot watch signals: %s", strerror(errno));
        return 1;
    }
    signal_poll.data = &execd;
    uv_poll_start(&signal_poll, UV_READABLE, on_signals);

    struct error err = ERROR_INIT;
    if (serve(&execd, &options, &err) < 0) {
        log_error("%s", err.message);
        execd.exit_code = 1;
    }
    uv_close((uv_handle_t *)&signal_poll, NULL);
    wait_for_work(&execd);
    uv_close((uv_handle_t *)&execd.deadline, NULL);
    for (int turn = 0; turn < 3 && uv_run(execd.loop, UV_RUN_NOWAIT) != 0; turn++)
        continue;
    if (uv_loop_alive(execd.loop))
        _exit(execd.exit_code); /* exit() would wait for the work queue, however long that takes */
    return execd.exit_code;
}
