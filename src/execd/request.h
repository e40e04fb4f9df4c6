/* What several requests have in common: the query, and of those that start a process `envs`, `cwd`,
 * `uid` and `gid`. Absent members and null leave everything as it is. ERR_INVALID for the client's
 * mistakes. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "execd/credentials.h"
#include "execd/env.h"
#include "http/json.h"
#include "http/server.h"
#include "http/url.h"

struct execd;

#define EXECD_REQUEST_ENVS_MAX 1024

/* The query of a request; false when it is malformed, which was then answered. Release with
 * url_query_done(). */
bool execd_request_query(struct http_exchange *exchange, struct url_query *ret);

/* A whole body that is an object. Release with json_decref(). */
json_t *execd_request_parse(const char *body, size_t length, struct error *err);

/* `envs`, over what `env` holds. */
int execd_request_read_envs(const json_t *body, struct execd_env *env, struct error *err);

/* `uid` and `gid`, else the sandbox's user. *ret_has tells whether there are any. */
int execd_request_read_user(const json_t *body, const struct execd *execd,
                            struct execd_credentials *ret, bool *ret_has, struct error *err);

/* `cwd`, expanded with `env` and relative to `base`; *ret stays NULL when there is none. Caller
 * frees. Nothing is looked up: see the next two. */
int execd_request_read_cwd(const json_t *body, const struct execd_env *env, const char *base,
                           char **ret, struct error *err);
/* It must be a directory. */
int execd_request_check_cwd(const char *cwd, struct error *err);
/* It is made where it is not there, for the user who will work in it (NULL: us). */
int execd_request_make_cwd(const char *cwd, const struct execd_credentials *user,
                           struct error *err);
