#include "execd/execd.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "execd/command.h"
#include "execd/entrypoint.h"
#include "execd/pty.h"
#include "execd/session.h"
#include "execd/spool.h"

#define ENDING_MS    2000
#define ENV_FILE_MAX (1024 * 1024)

/* Our own environment is the base of the commands' until /internal/start brings another. The token
 * must not be in it: what runs in the sandbox has no business with it. */
static void take_environment(struct execd_env *env)
{
    for (char **pair = environ; pair != NULL && *pair != NULL; pair++) {
        if (!str_starts_with(*pair, "EXECD_ACCESS_TOKEN="))
            execd_env_set_pair(env, *pair); /* what is malformed is left out */
    }
}

void execd_init(struct execd *execd, uv_loop_t *loop)
{
    char cwd[PATH_MAX];
    *execd = (struct execd){
        .loop = loop,
        .idle_fd = -1,
        .users = execd_users_system,
        .spool_bytes = EXECD_SPOOL_BYTES_DEFAULT,
        .keep_finished_ms = EXECD_COMMANDS_KEEP_MS,
    };
    execd_env_init(&execd->env);
    take_environment(&execd->env);
    execd->cwd = mem_dup(getcwd(cwd, sizeof(cwd)) != NULL ? cwd : "/");
    uv_timer_init(loop, &execd->deadline);
    uv_timer_init(loop, &execd->rest);
}

void execd_environment(const struct execd *execd, struct execd_env *ret)
{
    execd_env_copy(ret, &execd->env);
    const char *path = execd_env_find(ret, "EXECD_ENVS");
    struct stat st;
    if (path == NULL || *path == '\0' || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    struct buf text;
    buf_init(&text, ENV_FILE_MAX);
    if (file_read_at(AT_FDCWD, path, &text, NULL) == 0)
        execd_env_add_file(ret, text.data, text.length);
    buf_done(&text);
}

static void on_deadline(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void execd_end(struct execd *execd, int exit_code)
{
    if (execd->ending)
        return;
    execd->ending = true;
    execd->exit_code = exit_code;
    execd_commands_kill(execd);
    execd_sessions_end(execd);
    execd_ptys_end(execd);
    uv_timer_start(&execd->deadline, on_deadline, ENDING_MS, 0);
    execd_end_check(execd);
}

void execd_end_check(struct execd *execd)
{
    if (execd->ending && execd_commands_are_over(execd) && execd_sessions_are_over(execd) &&
        execd_ptys_are_over(execd) && !execd_entrypoint_is_answering(execd))
        uv_stop(execd->loop);
}
