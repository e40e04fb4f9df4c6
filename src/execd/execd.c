#include "execd/execd.h"

#include <limits.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/command.h"
#include "execd/entrypoint.h"

#define ENDING_MS 2000

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
    *execd = (struct execd){.loop = loop, .users = execd_users_system};
    execd_env_init(&execd->env);
    take_environment(&execd->env);
    execd->cwd = mem_dup(getcwd(cwd, sizeof(cwd)) != NULL ? cwd : "/");
    uv_timer_init(loop, &execd->deadline);
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
    uv_timer_start(&execd->deadline, on_deadline, ENDING_MS, 0);
    execd_end_check(execd);
}

void execd_end_check(struct execd *execd)
{
    if (execd->ending && execd->commands == NULL && !execd_entrypoint_is_answering(execd))
        uv_stop(execd->loop);
}
