#include "execd/request.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "execd/execd.h"
#include "execd/make_dirs.h"
#include "execd/paths.h"

bool execd_request_query(struct http_exchange *exchange, struct url_query *ret)
{
    if (url_query_parse(http_exchange_query(exchange), ret) == 0)
        return true;
    http_exchange_reply_error(exchange, 400, "INVALID_REQUEST_BODY",
                              "the query string is malformed or has over %d items", URL_QUERY_MAX);
    return false;
}

json_t *execd_request_parse(const char *body, size_t length, struct error *err)
{
    json_t *json = http_json_parse(body, length, err);
    if (json != NULL && !json_is_object(json)) {
        json_decref(json);
        error_set(err, ERR_INVALID, "the body must be a JSON object");
        return NULL;
    }
    return json;
}

int execd_request_read_envs(const json_t *body, struct execd_env *env, struct error *err)
{
    json_t *envs = NULL;
    if (http_json_object(body, "envs", &envs, err) < 0)
        return -1;
    if (json_object_size(envs) > EXECD_REQUEST_ENVS_MAX)
        return error_set(err, ERR_INVALID, "`envs` has %zu entries, at most %d are allowed",
                         json_object_size(envs), EXECD_REQUEST_ENVS_MAX);
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

int execd_request_read_user(const json_t *body, const struct execd *execd,
                            struct execd_credentials *ret, bool *ret_has, struct error *err)
{
    int64_t uid = -1;
    int64_t gid = -1;
    if (http_json_int(body, "uid", 0, UINT32_MAX - 1, &uid, err) < 0 ||
        http_json_int(body, "gid", 0, UINT32_MAX - 1, &gid, err) < 0)
        return -1;
    if (uid < 0 && gid >= 0)
        return error_set(err, ERR_INVALID, "`gid` needs `uid`");
    *ret_has = uid >= 0 || execd->has_user;
    if (uid >= 0) {
        gid_t group = (gid_t)gid;
        execd_credentials_from_uid(ret, &execd->users, (uid_t)uid, gid >= 0 ? &group : NULL);
    } else if (execd->has_user) {
        *ret = execd->user;
    }
    return 0;
}

int execd_request_read_cwd(const json_t *body, const struct execd_env *env, const char *base,
                           char **ret, struct error *err)
{
    const char *cwd = NULL;
    if (http_json_string(body, "cwd", EXECD_STRING_MAX, &cwd, err) < 0)
        return -1;
    if (cwd == NULL || *cwd == '\0')
        return 0;
    if (execd_path_expand(cwd, env, base, ret, err) < 0)
        return error_wrap(err, "`cwd`");
    return 0;
}

int execd_request_check_cwd(const char *cwd, struct error *err)
{
    struct stat st;
    if (stat(cwd, &st) < 0)
        return error_set(err, ERR_INVALID, "`cwd` %.300s: %s", cwd, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID, "`cwd` %.300s is not a directory", cwd);
    return 0;
}

int execd_request_make_cwd(const char *cwd, const struct execd_credentials *user, struct error *err)
{
    struct execd_owner owner = EXECD_OWNER_LEAVE;
    size_t made_from;
    if (user != NULL && !execd_credentials_are_own(user))
        owner = (struct execd_owner){.uid = user->uid, .gid = user->gid};
    if (execd_make_dirs(cwd, &owner, &made_from, err) == 0)
        return 0;
    if (err->code == ERR_CONFLICT)
        err->code = ERR_INVALID; /* something else is there: the client's mistake */
    return error_wrap(err, "`cwd`");
}
