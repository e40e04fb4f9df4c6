/* The bodies of POST /session and POST /session/{id}/run: checked, with everything that is needed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "execd/credentials.h"
#include "execd/env.h"

#define EXECD_SESSION_BODY_MAX    (4 * 1024 * 1024)
#define EXECD_SESSION_COMMAND_MAX (2 * 1024 * 1024)

struct execd;

struct execd_session_create {
    char *cwd;                            /* expanded; need not exist */
    struct execd_env env;                 /* base, environment file, `envs` */
    struct execd_credentials credentials; /* with has_credentials */
    bool has_credentials;
};

struct execd_session_run {
    char *command;
    char *cwd;           /* expanded, a directory when it was checked; NULL: where the shell is */
    uint64_t timeout_ms; /* 0: none */
};

/* ERR_INVALID for the client's mistakes. *ret is filled on success and then released with _done().
 * No body at all (length 0) asks for the defaults. */
int execd_session_create_parse(const struct execd *execd, const char *body, size_t length,
                               struct execd_session_create *ret, struct error *err);
void execd_session_create_done(struct execd_session_create *create);

/* Variables in `cwd` come from the session's environment, a relative one starts where its shell is.
 */
int execd_session_run_parse(const struct execd_env *env, const char *shell_cwd, const char *body,
                            size_t length, struct execd_session_run *ret, struct error *err);
void execd_session_run_done(struct execd_session_run *run);
