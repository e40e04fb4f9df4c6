#include "execd/command_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/paths.h"
#include "http/json.h"

void execd_command_request_done(struct execd_command_request *request)
{
    free(TAKE_PTR(request->command));
    execd_argv_done(&request->argv);
    free(TAKE_PTR(request->cwd));
    execd_env_done(&request->env);
}

static int read_command(const json_t *body, struct execd_command_request *request,
                        struct error *err)
{
    const char *command = NULL;
    if (http_json_string(body, "command", EXECD_COMMAND_BODY_MAX, &command, err) < 0 ||
        execd_argv_read(body, "argv", &request->argv, err) < 0)
        return -1;
    if (command != NULL && *command != '\0' && request->argv.count > 0)
        return error_set(err, ERR_INVALID, "`command` and `argv` exclude each other");
    if (request->argv.count > 0) {
        request->command = execd_argv_join(&request->argv);
        return 0;
    }
    if (command == NULL || *command == '\0')
        return error_set(err, ERR_INVALID,
                         "`command` must be a non-empty string, or `argv` an array of strings");
    if (strlen(command) > EXECD_COMMAND_MAX)
        return error_set(err, ERR_INVALID,
                         "`command` is %zu bytes, at most %d are allowed; upload longer scripts as "
                         "a file and run that",
                         strlen(command), EXECD_COMMAND_MAX);
    request->command = mem_dup(command);
    return 0;
}

static int read_envs(const json_t *body, struct execd_env *env, struct error *err)
{
    json_t *envs = NULL;
    if (http_json_object(body, "envs", &envs, err) < 0)
        return -1;
    if (json_object_size(envs) > EXECD_COMMAND_ENVS_MAX)
        return error_set(err, ERR_INVALID, "`envs` has %zu entries, at most %d are allowed",
                         json_object_size(envs), EXECD_COMMAND_ENVS_MAX);
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

static int read_cwd(const json_t *body, const struct execd *execd,
                    struct execd_command_request *request, struct error *err)
{
    const char *cwd = NULL;
    if (http_json_string(body, "cwd", EXECD_STRING_MAX, &cwd, err) < 0)
        return -1;
    if (cwd == NULL || *cwd == '\0') {
        request->cwd = mem_dup(execd->cwd);
        return 0;
    }
    if (execd_path_expand(cwd, &request->env, execd->cwd, &request->cwd, err) < 0)
        return error_wrap(err, "`cwd`");
    struct stat st;
    if (stat(request->cwd, &st) < 0)
        return error_set(err, ERR_INVALID, "`cwd` %.300s: %s", request->cwd, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID, "`cwd` %.300s is not a directory", request->cwd);
    return 0;
}

static int read_credentials(const json_t *body, const struct execd *execd,
                            struct execd_command_request *request, struct error *err)
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
        execd_credentials_from_uid(&request->credentials, &execd->users, (uid_t)uid,
                                   gid >= 0 ? &group : NULL);
        request->has_credentials = true;
    } else if (execd->has_user) {
        request->credentials = execd->user;
        request->has_credentials = true;
    }
    return 0;
}

static int read_all(const json_t *body, const struct execd *execd,
                    struct execd_command_request *request, struct error *err)
{
    if (!json_is_object(body))
        return error_set(err, ERR_INVALID, "the body must be a JSON object");
    int64_t timeout_ms = 0;
    if (read_command(body, request, err) < 0 ||
        http_json_bool(body, "background", &request->background, err) < 0 ||
        http_json_bool(body, "stdin", &request->input, err) < 0 ||
        http_json_bool(body, "offsets", &request->offsets, err) < 0 ||
        http_json_int(body, "timeout", 0, INT64_MAX, &timeout_ms, err) < 0)
        return -1;
    request->timeout_ms = (uint64_t)timeout_ms;
    execd_environment(execd, &request->env);
    if (read_envs(body, &request->env, err) < 0 || read_cwd(body, execd, request, err) < 0)
        return -1;
    return read_credentials(body, execd, request, err);
}

int execd_command_request_parse(const struct execd *execd, const char *body, size_t length,
                                struct execd_command_request *ret, struct error *err)
{
    json_t *json = http_json_parse(body, length, err);
    if (json == NULL)
        return -1;
    struct execd_command_request request = {0};
    int r = read_all(json, execd, &request, err);
    json_decref(json);
    if (r < 0) {
        execd_command_request_done(&request);
        return r;
    }
    *ret = request;
    return 0;
}
