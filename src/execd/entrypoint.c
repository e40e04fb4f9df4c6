/* States: no entrypoint at all (execd->entrypoint is NULL), starting (forked, exec not seen yet),
 * running, over. While starting, the report pipe is watched: its end says that the program runs.
 * The exit of the process can be seen before that end, so both paths settle the start first. */
#include "execd/entrypoint.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "execd/argv.h"
#include "execd/make_dirs.h"
#include "execd/reply.h"
#include "execd/workgroup.h"
#include "http/json.h"

enum state { STARTING, RUNNING, OVER };

/* What the body asks for. */
struct settings {
    struct execd_argv argv;
    struct execd_env env;
    char *cwd;
    struct execd_credentials user;
    bool has_user;
};

struct execd_entrypoint {
    struct execd *execd;
    enum state state;
    struct settings settings; /* moved to execd when the start succeeded */
    pid_t pid;
    struct execd_child child;
    int report;
    uv_poll_t report_poll;
    bool watching;                  /* report_poll is open */
    struct http_exchange *exchange; /* of /internal/start, until it is closed */
    bool failed;                    /* the start failed and was answered */
    bool bootstrap;                 /* came with the command line: nobody waits for an answer */
    bool terminated;                /* SIGTERM was passed to it */
};

/* --- the request ------------------------------------------------------------------------------ */

static void settings_done(struct settings *settings)
{
    execd_argv_done(&settings->argv);
    execd_env_done(&settings->env);
    free(TAKE_PTR(settings->cwd));
}

static int read_argv(const json_t *body, struct settings *settings, struct error *err)
{
    if (execd_argv_read(body, "entrypoint", &settings->argv, err) < 0)
        return -1;
    if (settings->argv.count == 0)
        return error_set(err, ERR_INVALID, "`entrypoint` must be an array of strings");
    return 0;
}

static int read_env(const json_t *body, struct settings *settings, struct error *err)
{
    json_t *array = NULL;
    if (http_json_array(body, "env", &array, err) < 0)
        return -1;
    size_t index;
    json_t *item;
    json_array_foreach(array, index, item)
    {
        const char *pair = json_string_value(item);
        if (pair == NULL || execd_env_set_pair(&settings->env, pair) < 0)
            return error_set(err, ERR_INVALID,
                             "`env[%zu]` must be \"NAME=value\" of at most %d bytes, with at most "
                             "%d variables in all",
                             index, EXECD_STRING_MAX, EXECD_ENV_MAX);
    }
    return 0;
}

static int read_user(const json_t *body, const struct execd *execd, struct settings *settings,
                     struct error *err)
{
    const char *user = NULL;
    if (http_json_string(body, "user", 256, &user, err) < 0)
        return -1;
    if (user == NULL || *user == '\0')
        return 0;
    settings->has_user = true;
    return execd_credentials_from_user(&settings->user, &execd->users, user, err);
}

/* As images have it: made for the user, who has been read, where it is not there. */
static int make_workdir(const char *workdir, struct settings *settings, struct error *err)
{
    if (*workdir != '/' || strlen(workdir) >= PATH_MAX)
        return error_set(err, ERR_INVALID, "`workdir` %.300s is not an absolute path", workdir);
    struct execd_owner owner = EXECD_OWNER_LEAVE;
    size_t made_from;
    if (settings->has_user && !execd_credentials_are_own(&settings->user))
        owner = (struct execd_owner){.uid = settings->user.uid, .gid = settings->user.gid};
    if (execd_make_dirs(workdir, &owner, &made_from, err) < 0) {
        err->code = ERR_INVALID; /* of the image, whatever it is */
        return error_wrap(err, "`workdir`");
    }
    settings->cwd = mem_dup(workdir);
    return 0;
}

static int read_cwd(const json_t *body, struct settings *settings, struct error *err)
{
    const char *cwd = NULL;
    const char *workdir = NULL;
    struct stat st;
    if (http_json_string(body, "cwd", EXECD_STRING_MAX, &cwd, err) < 0 ||
        http_json_string(body, "workdir", EXECD_STRING_MAX, &workdir, err) < 0)
        return -1;
    if (cwd != NULL && workdir != NULL)
        return error_set(err, ERR_INVALID, "`cwd` and `workdir` exclude each other");
    if (workdir != NULL)
        return make_workdir(workdir, settings, err);
    if (cwd == NULL)
        cwd = "/";
    if (*cwd != '/' || stat(cwd, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID, "`cwd` %.300s is not an absolute path of a directory",
                         cwd);
    settings->cwd = mem_dup(cwd);
    return 0;
}

/* From /etc/passwd; where that does not say, / as elsewhere, but for a root that has its own. */
static void add_home(const struct execd *execd, uid_t uid, struct execd_env *env)
{
    struct stat st;
    AUTO_FREE char *home = execd_users_find_home(&execd->users, uid);
    bool is_root = uid == 0 && stat("/root", &st) == 0 && S_ISDIR(st.st_mode);
    if (home == NULL || home[0] != '/' || execd_env_set(env, "HOME", home) < 0)
        execd_env_set(env, "HOME", is_root ? "/root" : "/");
}

/* Programs expect PATH and HOME even when the image does not set them, and clients add variables to
 * the file of EXECD_ENVS. */
static void add_defaults(const struct execd *execd, struct settings *settings)
{
    if (execd_env_find(&settings->env, "PATH") == NULL)
        execd_env_set(&settings->env, "PATH", EXECD_PATH_DEFAULT);
    if (execd_env_find(&settings->env, "EXECD_ENVS") == NULL)
        execd_env_set(&settings->env, "EXECD_ENVS", EXECD_ENVS_DEFAULT);
    uid_t uid = settings->has_user ? settings->user.uid : geteuid();
    AUTO_FREE char *name = execd_users_find_name(&execd->users, uid);
    if (settings->has_user && name != NULL && execd_env_find(&settings->env, "USER") == NULL)
        execd_env_set(&settings->env, "USER", name);
    if (execd_env_find(&settings->env, "HOME") == NULL)
        add_home(execd, uid, &settings->env);
}

static int read_settings(const struct execd *execd, const json_t *body, struct settings *settings,
                         struct error *err)
{
    if (!json_is_object(body))
        return error_set(err, ERR_INVALID, "the body must be a JSON object");
    if (read_argv(body, settings, err) < 0 || read_env(body, settings, err) < 0 ||
        read_user(body, execd, settings, err) < 0 || read_cwd(body, settings, err) < 0)
        return -1;
    add_defaults(execd, settings);
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

/* A failed start is forgotten once its process is reaped and its answer is out. */
static void release_if_failed(struct execd_entrypoint *entrypoint)
{
    if (!entrypoint->failed || entrypoint->watching || entrypoint->child.pid != 0 ||
        entrypoint->exchange != NULL)
        return;
    free(entrypoint);
}

static void on_report_closed(uv_handle_t *handle)
{
    struct execd_entrypoint *entrypoint = handle->data;
    entrypoint->watching = false;
    release_if_failed(entrypoint);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct execd_entrypoint *entrypoint = ctx;
    struct execd *execd = entrypoint->execd;
    entrypoint->exchange = NULL;
    release_if_failed(entrypoint);
    execd_end_check(execd);
}

/* From now on everything runs as the entrypoint does. */
static void adopt_settings(struct execd *execd, struct settings *settings)
{
    execd_env_done(&execd->env);
    execd->env = settings->env;
    execd_env_init(&settings->env);
    free(TAKE_PTR(execd->cwd));
    execd->cwd = TAKE_PTR(settings->cwd);
    execd->user = settings->user;
    execd->has_user = settings->has_user;
}

/* Who started us shall see why there is no sandbox: exit codes as those of a shell. */
static void end_without_entrypoint(struct execd *execd, const struct error *err)
{
    log_error("%s", err->message);
    execd_end(execd, err->sys == ENOENT ? 127 : 126);
}

/* Has the exec happened or failed? Then answer and leave the state STARTING. */
static void settle_start(struct execd_entrypoint *entrypoint)
{
    struct error err = ERROR_INIT;
    int r = execd_spawn_check(entrypoint->report, &err);
    if (r == 0)
        return;
    uv_close((uv_handle_t *)&entrypoint->report_poll, on_report_closed);
    entrypoint->report = fd_close(entrypoint->report);
    if (r > 0) {
        entrypoint->state = RUNNING;
        execd_workgroup_spare(entrypoint->pid);
        adopt_settings(entrypoint->execd, &entrypoint->settings);
        settings_done(&entrypoint->settings);
        if (entrypoint->exchange != NULL)
            http_exchange_reply_json(entrypoint->exchange, 200,
                                     json_pack("{s:I}", "pid", (json_int_t)entrypoint->pid));
        return;
    }
    entrypoint->state = OVER;
    entrypoint->failed = true;
    entrypoint->execd->entrypoint = NULL; /* another may be tried as soon as this is answered */
    settings_done(&entrypoint->settings);
    if (entrypoint->exchange != NULL)
        http_exchange_reply_error(entrypoint->exchange, 400, "INVALID_REQUEST_BODY", "%s",
                                  err.message);
    if (entrypoint->bootstrap)
        end_without_entrypoint(entrypoint->execd, &err);
}

static void on_report(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    settle_start(poll->data);
}

static void on_child_exit(void *ctx, struct execd_exit exit)
{
    struct execd_entrypoint *entrypoint = ctx;
    struct execd *execd = entrypoint->execd;
    if (entrypoint->state == STARTING)
        settle_start(entrypoint);
    if (entrypoint->failed) {
        release_if_failed(entrypoint);
        return;
    }
    entrypoint->state = OVER;
    if (entrypoint->bootstrap && entrypoint->terminated)
        execd_end(execd, 0); /* it was asked to end, and did */
    else if (execd->pid1)
        execd_end(execd, exit.signal != 0 ? 128 + exit.signal : exit.code);
}

static int spawn_entrypoint(struct execd_entrypoint *entrypoint, struct execd_spawn *spawn,
                            struct error *err)
{
    struct execd *execd = entrypoint->execd;
    struct settings *settings = &entrypoint->settings;
    spawn->envp = execd_env_array(&settings->env);
    spawn->cwd = settings->cwd;
    spawn->credentials = settings->has_user ? &settings->user : NULL;
    int r = execd_spawn_start(spawn, &entrypoint->pid, &entrypoint->report, err);
    if (r < 0) {
        err->code = ERR_INTERNAL; /* the kernel's refusal is not the caller's mistake */
        return r;
    }
    execd_reaper_add(&execd->reaper, &entrypoint->child, entrypoint->pid, on_child_exit,
                     entrypoint);
    entrypoint->report_poll.data = entrypoint;
    uv_poll_init(execd->loop, &entrypoint->report_poll, entrypoint->report);
    uv_poll_start(&entrypoint->report_poll, UV_READABLE, on_report);
    entrypoint->watching = true;
    execd->entrypoint = entrypoint;
    return 0;
}

/* --- /internal/start -------------------------------------------------------------------------- */

/* The entrypoint clients send when a sandbox shall only stay. */
static bool only_waits(const struct execd_argv *argv)
{
    return argv->count == 3 && str_equal(argv->items[0], "tail") &&
           str_equal(argv->items[1], "-f") && str_equal(argv->items[2], "/dev/null");
}

static int spawn_requested(struct execd_entrypoint *entrypoint, struct error *err)
{
    struct settings *settings = &entrypoint->settings;
    struct execd_programs programs;
    execd_programs_init(&programs);
    execd_programs_add(&programs, settings->argv.items[0], execd_env_find(&settings->env, "PATH"));
    struct execd_spawn spawn = {
        .programs = &programs,
        .program_fd = only_waits(&settings->argv) ? entrypoint->execd->idle_fd : -1,
        .argv = settings->argv.items,
        .in_fd = -1,
        .out_fd = -1,
        .err_fd = -1,
        .new_session = true,
    };
    int r = spawn_entrypoint(entrypoint, &spawn, err);
    execd_programs_done(&programs);
    return r;
}

static void on_body(struct http_exchange *exchange, const char *body, size_t length, void *ctx)
{
    struct execd *execd = ctx;
    if (execd->entrypoint != NULL) {
        http_exchange_reply_error(exchange, 409, "RUNTIME_ERROR",
                                  "the sandbox has been started already");
        return;
    }
    struct error err = ERROR_INIT;
    struct execd_entrypoint *entrypoint = mem_alloc(sizeof(*entrypoint));
    entrypoint->execd = execd;
    json_t *json = http_json_parse(body, length, &err);
    if (json == NULL || read_settings(execd, json, &entrypoint->settings, &err) < 0 ||
        spawn_requested(entrypoint, &err) < 0) {
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
        settings_done(&entrypoint->settings);
        free(entrypoint);
    } else {
        entrypoint->exchange = exchange;
        http_exchange_on_close(exchange, on_close, entrypoint);
    }
    json_decref(json);
}

void execd_entrypoint_handle_start(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *ctx)
{
    (void)match;
    http_exchange_collect(exchange, EXECD_START_BODY_MAX, on_body, ctx);
}

/* --- --bootstrap ------------------------------------------------------------------------------ */

/* With a terminal of ours the entrypoint stays in our session and takes the foreground, so that
 * keys reach it and a shell there has job control. */
static void give_terminal(const struct execd_entrypoint *entrypoint)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTTOU, &ignore, NULL);
    tcsetpgrp(STDIN_FILENO, entrypoint->pid);
    kill(-entrypoint->pid, SIGCONT); /* it may have tried to read before this */
}

int execd_entrypoint_start(struct execd *execd, const struct execd_programs *programs, char **argv,
                           struct error *err)
{
    struct execd_entrypoint *entrypoint = mem_alloc(sizeof(*entrypoint));
    entrypoint->execd = execd;
    entrypoint->bootstrap = true;
    execd_env_copy(&entrypoint->settings.env, &execd->env);
    entrypoint->settings.cwd = mem_dup(execd->cwd);
    add_defaults(execd, &entrypoint->settings);
    bool terminal = tcgetpgrp(STDIN_FILENO) >= 0;
    struct execd_spawn spawn = {
        .programs = programs,
        .argv = argv,
        .in_fd = STDIN_FILENO,
        .out_fd = STDOUT_FILENO,
        .err_fd = STDERR_FILENO,
        .new_session = !terminal,
    };
    if (spawn_entrypoint(entrypoint, &spawn, err) < 0) {
        settings_done(&entrypoint->settings);
        free(entrypoint);
        return -1;
    }
    if (terminal)
        give_terminal(entrypoint);
    return 0;
}

/* --- for the others --------------------------------------------------------------------------- */

bool execd_entrypoint_is_answering(const struct execd *execd)
{
    return execd->entrypoint != NULL && execd->entrypoint->exchange != NULL;
}

/* That it has started may be news that waits behind the signal, so one that is starting is not left
 * out: without us it would run on. It may not lead its group yet. */
bool execd_entrypoint_kill(struct execd *execd, int signal)
{
    if (execd->entrypoint != NULL && execd->entrypoint->state == STARTING)
        settle_start(execd->entrypoint);
    struct execd_entrypoint *entrypoint = execd->entrypoint;
    if (entrypoint == NULL || entrypoint->state == OVER)
        return false;
    entrypoint->terminated |= signal == SIGTERM;
    execd_child_kill_group(&entrypoint->child, signal);
    if (entrypoint->state == STARTING && entrypoint->child.pid > 0)
        kill(entrypoint->child.pid, signal);
    return true;
}
