#include "execd/session_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/request.h"
#include "http/json.h"

void execd_session_create_done(struct execd_session_create *create)
{
    free(TAKE_PTR(create->cwd));
    execd_env_done(&create->env);
}

void execd_session_run_done(struct execd_session_run *run)
{
    free(TAKE_PTR(run->command));
    free(TAKE_PTR(run->cwd));
}

static int read_create(const json_t *body, const struct execd *execd,
                       struct execd_session_create *create, struct error *err)
{
    if (execd_request_read_envs(body, &create->env, err) < 0 ||
        execd_request_read_user(body, execd, &create->credentials, &create->has_credentials, err) <
            0)
        return -1;
    return execd_request_read_cwd(body, &create->env, execd->cwd, &create->cwd, err);
}

int execd_session_create_parse(const struct execd *execd, const char *body, size_t length,
                               struct execd_session_create *ret, struct error *err)
{
    json_t *json = length > 0 ? execd_request_parse(body, length, err) : json_object();
    if (json == NULL)
        return -1;
    struct execd_session_create create = {0};
    execd_environment(execd, &create.env);
    int r = read_create(json, execd, &create, err);
    json_decref(json);
    if (r < 0) {
        execd_session_create_done(&create);
        return r;
    }
    if (create.cwd == NULL)
        create.cwd = mem_dup(execd->cwd);
    *ret = create;
    return 0;
}

static int read_command(const json_t *body, struct execd_session_run *run, struct error *err)
{
    const char *command = NULL;
    if (http_json_string(body, "command", EXECD_SESSION_BODY_MAX, &command, err) < 0)
        return -1;
    if (command == NULL || *command == '\0')
        return error_set(err, ERR_INVALID, "`command` must be a non-empty string");
    if (strlen(command) > EXECD_SESSION_COMMAND_MAX)
        return error_set(err, ERR_INVALID,
                         "`command` is %zu bytes, at most %d are allowed; upload longer scripts as "
                         "a file and run that",
                         strlen(command), EXECD_SESSION_COMMAND_MAX);
    run->command = mem_dup(command);
    return 0;
}

int execd_session_run_parse(const struct execd_env *env, const char *shell_cwd, const char *body,
                            size_t length, struct execd_session_run *ret, struct error *err)
{
    json_t *json = execd_request_parse(body, length, err);
    if (json == NULL)
        return -1;
    struct execd_session_run run = {0};
    int64_t timeout_ms = 0;
    int r = read_command(json, &run, err);
    if (r == 0)
        r = http_json_int(json, "timeout", 0, INT64_MAX, &timeout_ms, err);
    if (r == 0)
        r = execd_request_read_cwd(json, env, shell_cwd, &run.cwd, err);
    if (r == 0 && run.cwd != NULL)
        r = execd_request_check_cwd(run.cwd, err);
    json_decref(json);
    if (r < 0) {
        execd_session_run_done(&run);
        return r;
    }
    run.timeout_ms = (uint64_t)timeout_ms;
    *ret = run;
    return 0;
}
