#include "execd/command_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/request.h"
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

static int read_all(const json_t *body, const struct execd *execd,
                    struct execd_command_request *request, struct error *err)
{
    int64_t timeout_ms = 0;
    if (read_command(body, request, err) < 0 ||
        http_json_bool(body, "background", &request->background, err) < 0 ||
        http_json_bool(body, "stdin", &request->input, err) < 0 ||
        http_json_bool(body, "offsets", &request->offsets, err) < 0 ||
        http_json_int(body, "timeout", 0, INT64_MAX, &timeout_ms, err) < 0)
        return -1;
    request->timeout_ms = (uint64_t)timeout_ms;
    execd_environment(execd, &request->env);
    if (execd_request_read_envs(body, &request->env, err) < 0 ||
        execd_request_read_cwd(body, &request->env, execd->cwd, &request->cwd, err) < 0 ||
        (request->cwd != NULL && execd_request_check_cwd(request->cwd, err) < 0))
        return -1;
    if (request->cwd == NULL)
        request->cwd = mem_dup(execd->cwd);
    return execd_request_read_user(body, execd, &request->credentials, &request->has_credentials,
                                   err);
}

int execd_command_request_parse(const struct execd *execd, const char *body, size_t length,
                                struct execd_command_request *ret, struct error *err)
{
    json_t *json = execd_request_parse(body, length, err);
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
