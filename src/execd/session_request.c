#include "execd/session_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/paths.h"
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

static json_t *parse_object(const char *body, size_t length, struct error *err)
{
    json_t *json = http_json_parse(body, length, err);
    if (json != NULL && !json_is_object(json)) {
        json_decref(json);
        error_set(err, ERR_INVALID, "the body must be a JSON object");
        return NULL;
    }
    return json;
}

static int read_envs(const json_t *body, struct execd_env *env, struct error *err)
{
    json_t *envs = NULL;
    if (http_json_object(body, "envs", &envs, err) < 0)
        return -1;
    if (json_object_size(envs) > EXECD_SESSION_ENVS_MAX)
        return error_set(err, ERR_INVALID, "`envs` has %zu entries, at most %d are allowed",
                         json_object_size(envs), EXECD_SESSION_ENVS_MAX);
    const char *name;
    json_t *value;
    json_object_foreach(envs, name, value)
    {
        if (json_is_null(value))
            continue;
        if (!json_is_string(value))
            return error_set(err, ERR_INVALID, "`envs.%.100s` must be a string", name);
        int r = execd_env_set(env, name, json_string_value(value));
        if (r == -EINVAL)
            return error_set(err, ERR_INVALID,
                             "`envs` has the name \"%.100s\": names are not empty and hold no '='",
                             name);
        if (r < 0)
            return error_set(err, ERR_INVALID,
                             "`envs.%.100s` does not fit: name and value together take at most %d "
                             "bytes, an environment at most %d variables",
                             name, EXECD_STRING_MAX, EXECD_ENV_MAX);
    }
    return 0;
}

static int read_credentials(const json_t *body, const struct execd *execd,
                            struct execd_session_create *create, struct error *err)
{
    int64_t uid = -1;
    int64_t gid = -1;
    if (http_json_int(body, "uid", 0, UINT32_MAX - 1, &uid, err) < 0 ||
        http_json_int(body, "gid", 0, UINT32_MAX - 1, &gid, err) < 0)
        return -1;
    if (uid < 0 && gid >= 0)
        return error_set(err, ERR_INVALID, "`gid` needs `uid`");
    if (uid >= 0) {
        gid_t group = (gid_t)gid;
        execd_credentials_from_uid(&create->credentials, &execd->users, (uid_t)uid,
                                   gid >= 0 ? &group : NULL);
        create->has_credentials = true;
    }
    return 0;
}

static int read_create(const json_t *body, const struct execd *execd,
                       struct execd_session_create *create, struct error *err)
{
    const char *cwd = NULL;
    if (http_json_string(body, "cwd", EXECD_STRING_MAX, &cwd, err) < 0 ||
        read_envs(body, &create->env, err) < 0 || read_credentials(body, execd, create, err) < 0)
        return -1;
    if (cwd == NULL || *cwd == '\0')
        return 0;
    if (execd_path_expand(cwd, &create->env, execd->cwd, &create->cwd, err) < 0)
        return error_wrap(err, "`cwd`");
    return 0;
}

int execd_session_create_parse(const struct execd *execd, const char *body, size_t length,
                               struct execd_session_create *ret, struct error *err)
{
    struct execd_session_create create = {0};
    execd_environment(execd, &create.env);
    if (execd->has_user) {
        create.credentials = execd->user;
        create.has_credentials = true;
    }
    if (length > 0) {
        json_t *json = parse_object(body, length, err);
        int r = json != NULL ? read_create(json, execd, &create, err) : -1;
        json_decref(json);
        if (r < 0) {
            execd_session_create_done(&create);
            return r;
        }
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

static int read_cwd(const json_t *body, const struct execd_env *env, const char *shell_cwd,
                    struct execd_session_run *run, struct error *err)
{
    const char *cwd = NULL;
    if (http_json_string(body, "cwd", EXECD_STRING_MAX, &cwd, err) < 0)
        return -1;
    if (cwd == NULL || *cwd == '\0')
        return 0;
    if (execd_path_expand(cwd, env, shell_cwd, &run->cwd, err) < 0)
        return error_wrap(err, "`cwd`");
    struct stat st;
    if (stat(run->cwd, &st) < 0)
        return error_set(err, ERR_INVALID, "`cwd` %.300s: %s", run->cwd, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID, "`cwd` %.300s is not a directory", run->cwd);
    return 0;
}

int execd_session_run_parse(const struct execd_env *env, const char *shell_cwd, const char *body,
                            size_t length, struct execd_session_run *ret, struct error *err)
{
    json_t *json = parse_object(body, length, err);
    if (json == NULL)
        return -1;
    struct execd_session_run run = {0};
    int64_t timeout_ms = 0;
    int r = read_command(json, &run, err);
    if (r == 0)
        r = http_json_int(json, "timeout", 0, INT64_MAX, &timeout_ms, err);
    if (r == 0)
        r = read_cwd(json, env, shell_cwd, &run, err);
    json_decref(json);
    if (r < 0) {
        execd_session_run_done(&run);
        return r;
    }
    run.timeout_ms = (uint64_t)timeout_ms;
    *ret = run;
    return 0;
}
