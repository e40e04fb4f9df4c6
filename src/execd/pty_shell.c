#include "execd/pty_shell.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "execd/execd.h"

static void add_everywhere(struct execd_programs *programs, const char *name, const char *search)
{
    if (search != NULL)
        execd_programs_add(programs, name, search);
    execd_programs_add(programs, name, EXECD_PATH_DEFAULT);
}

static bool any_exists(const struct execd_programs *programs)
{
    for (size_t i = 0; i < programs->count; i++) {
        struct stat st;
        const char *path = programs->items[i].path;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static void build_environment(struct execd_env *env, const struct execd *execd,
                              const struct execd_pty_request *request, bool pipes)
{
    execd_env_init(env);
    execd_environment(execd, env);
    for (size_t i = 0; i < request->envs.count; i++)
        execd_env_set_pair(env, request->envs.items[i]); /* what does not fit is left out */
    if (!pipes && execd_env_find(env, "TERM") == NULL)
        execd_env_set(env, "TERM", EXECD_PTY_TERM);
}

/* The two shells take different options, so the choice is made here and not by the exec. */
void execd_pty_shell_init(struct execd_pty_shell *shell, const struct execd *execd,
                          const struct execd_pty_request *request, bool pipes)
{
    static char norc[] = "--norc";
    static char noprofile[] = "--noprofile";
    static char command_option[] = "-c";
    build_environment(&shell->env, execd, request, pipes);
    const char *search = execd_env_find(&shell->env, "PATH");
    execd_programs_init(&shell->programs);
    add_everywhere(&shell->programs, "bash", search);
    size_t count = 0;
    shell->argv[count++] = NULL; /* the program's name, by the spawn */
    if (any_exists(&shell->programs)) {
        shell->argv[count++] = norc;
        shell->argv[count++] = noprofile;
    } else {
        execd_programs_done(&shell->programs);
        add_everywhere(&shell->programs, "sh", search);
    }
    if (request->command != NULL) {
        shell->argv[count++] = command_option;
        shell->argv[count++] = request->command;
    }
    shell->argv[count] = NULL;
}

void execd_pty_shell_done(struct execd_pty_shell *shell)
{
    execd_programs_done(&shell->programs);
    execd_env_done(&shell->env);
}
