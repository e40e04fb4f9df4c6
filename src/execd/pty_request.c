#include "execd/pty_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/pty_message.h"
#include "execd/request.h"
#include "http/json.h"

void execd_pty_request_done(struct execd_pty_request *request)
{
    free(TAKE_PTR(request->command));
    free(TAKE_PTR(request->cwd));
    execd_env_done(&request->envs);
}

static int read_command(const json_t *body, struct execd_pty_request *request, struct error *err)
{
    const char *command = NULL;
    if (http_json_string(body, "command", SIZE_MAX, &command, err) < 0)
        return -1;
    if (command == NULL || *command == '\0')
        return 0;
    if (strlen(command) > EXECD_STRING_MAX)
        return error_set(err, ERR_INVALID,
                         "`command` is %zu bytes, at most %d are allowed; upload longer scripts as "
                         "a file and run that",
                         strlen(command), EXECD_STRING_MAX);
    request->command = mem_dup(command);
    return 0;
}

static int read_cwd(const json_t *body, const struct execd *execd,
                    struct execd_pty_request *request, struct error *err)
{
    struct execd_env env;
    execd_env_init(&env);
    execd_environment(execd, &env);
    int r = execd_request_read_cwd(body, &env, execd->cwd, &request->cwd, err);
    execd_env_done(&env);
    if (r < 0)
        return r;
    if (request->cwd == NULL) {
        request->cwd = mem_dup(execd->cwd);
        return 0;
    }
    return execd_request_make_cwd(request->cwd,
                                  request->has_credentials ? &request->credentials : NULL, err);
}

static int read_size(const json_t *body, struct execd_pty_request *request, struct error *err)
{
    int64_t cols = EXECD_PTY_COLS;
    int64_t rows = EXECD_PTY_ROWS;
    if (http_json_int(body, "cols", 1, EXECD_PTY_SIDE_MAX, &cols, err) < 0 ||
        http_json_int(body, "rows", 1, EXECD_PTY_SIDE_MAX, &rows, err) < 0)
        return -1;
    request->cols = (unsigned short)cols;
    request->rows = (unsigned short)rows;
    return 0;
}

/* The directory comes last: nothing is made for a request that is wrong elsewhere. */
static int read_all(const json_t *body, const struct execd *execd,
                    struct execd_pty_request *request, struct error *err)
{
    if (read_command(body, request, err) < 0 || read_size(body, request, err) < 0 ||
        execd_request_read_envs(body, &request->envs, err) < 0 ||
        execd_request_read_user(body, execd, &request->credentials, &request->has_credentials,
                                err) < 0)
        return -1;
    return read_cwd(body, execd, request, err);
}

int execd_pty_request_parse(const struct execd *execd, const char *body, size_t length,
                            struct execd_pty_request *ret, struct error *err)
{
    json_t *json = length == 0 ? json_object() : execd_request_parse(body, length, err);
    if (json == NULL)
        return -1;
    struct execd_pty_request request = {0};
    int r = read_all(json, execd, &request, err);
    json_decref(json);
    if (r < 0) {
        execd_pty_request_done(&request);
        return r;
    }
    *ret = request;
    return 0;
}
