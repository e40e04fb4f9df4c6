#include "execd/pty_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/paths.h"
#include "execd/pty_message.h"
#include "http/json.h"

#define ENVS_MAX 1024

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

static int read_envs(const json_t *body, struct execd_env *envs, struct error *err)
{
    json_t *object = NULL;
    if (http_json_object(body, "envs", &object, err) < 0)
        return -1;
    if (json_object_size(object) > ENVS_MAX)
        return error_set(err, ERR_INVALID, "`envs` has %zu entries, at most %d are allowed",
                         json_object_size(object), ENVS_MAX);
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (json_is_null(value))
            continue;
        if (!json_is_string(value))
            return error_set(err, ERR_INVALID, "`envs.%.100s` must be a string", name);
        int r = execd_env_set(envs, name, json_string_value(value));
        if (r == -EINVAL)
            return error_set(err, ERR_INVALID,
                             "`envs` has the name \"%.100s\": names are not empty and hold no '='",
                             name);
        if (r < 0)
            return error_set(err, ERR_INVALID,
                             "`envs.%.100s` does not fit: name and value together take at most %d "
                             "bytes",
                             name, EXECD_STRING_MAX);
    }
    return 0;
}

static int read_credentials(const json_t *body, const struct execd *execd,
                            struct execd_pty_request *request, struct error *err)
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

/* One step of mkdir -p: the directory `name` in *fd, which is replaced by it. What is new belongs
 * to the user who will work there; it is held while its owner changes, since others may move it. */
static int enter_directory(int *fd, const char *name, const struct execd_pty_request *request)
{
    bool made = mkdirat(*fd, name, 0777) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | (made ? O_NOFOLLOW : 0);
    int next = openat(*fd, name, flags);
    if (next < 0)
        return -errno;
    fd_close(*fd);
    *fd = next;
    const struct execd_credentials *credentials = &request->credentials;
    if (made && request->has_credentials && !execd_credentials_are_own(credentials) &&
        fchownat(next, "", credentials->uid, credentials->gid, AT_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static int make_directories(const struct execd_pty_request *request, struct error *err)
{
    AUTO_FREE char *path = mem_dup(request->cwd);
    AUTO_CLOSE int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : 0;
    char *rest = NULL;
    for (char *name = strtok_r(path, "/", &rest); name != NULL && r == 0;
         name = strtok_r(NULL, "/", &rest))
        r = enter_directory(&fd, name, request);
    if (r < 0)
        return error_set(err, ERR_INVALID, "cannot make `cwd` %.300s: %s", request->cwd,
                         strerror(-r));
    return 0;
}

static int read_cwd(const json_t *body, const struct execd *execd,
                    struct execd_pty_request *request, struct error *err)
{
    const char *cwd = NULL;
    if (http_json_string(body, "cwd", EXECD_STRING_MAX, &cwd, err) < 0)
        return -1;
    if (cwd == NULL || *cwd == '\0') {
        request->cwd = mem_dup(execd->cwd);
        return 0;
    }
    struct execd_env env;
    execd_env_init(&env);
    execd_environment(execd, &env);
    int r = execd_path_expand(cwd, &env, execd->cwd, &request->cwd, err);
    execd_env_done(&env);
    if (r < 0)
        return error_wrap(err, "`cwd`");
    struct stat st;
    if (stat(request->cwd, &st) < 0) {
        if (make_directories(request, err) < 0)
            return -1;
    } else if (!S_ISDIR(st.st_mode)) {
        return error_set(err, ERR_INVALID, "`cwd` %.300s is not a directory", request->cwd);
    }
    return 0;
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
    if (!json_is_object(body))
        return error_set(err, ERR_INVALID, "the body must be a JSON object");
    if (read_command(body, request, err) < 0 || read_size(body, request, err) < 0 ||
        read_envs(body, &request->envs, err) < 0 || read_credentials(body, execd, request, err) < 0)
        return -1;
    return read_cwd(body, execd, request, err);
}

int execd_pty_request_parse(const struct execd *execd, const char *body, size_t length,
                            struct execd_pty_request *ret, struct error *err)
{
    json_t *json = length == 0 ? json_object() : http_json_parse(body, length, err);
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
