/* The body of POST /command: checked, with everything the process needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "execd/argv.h"
#include "execd/credentials.h"
#include "execd/env.h"

#define EXECD_COMMAND_BODY_MAX (4 * 1024 * 1024)
/* A command is one argument of the shell, and Linux takes none longer than this. Longer scripts go
 * into a file first, which the message says. */
#define EXECD_COMMAND_MAX EXECD_STRING_MAX

struct execd;

struct execd_command_request {
    char *command;          /* for the shell; with `argv` only what the status shows */
    struct execd_argv argv; /* without a shell, when not empty */
    char *cwd;              /* expanded; a directory when it was checked */
    struct execd_env env;   /* base, environment file, `envs` */
    struct execd_credentials credentials; /* with has_credentials */
    bool has_credentials;
    uint64_t timeout_ms; /* 0: none */
    bool background;     /* the answer does not wait for its end */
    bool input;          /* `stdin`: a pipe that requests write to, instead of /dev/null */
    bool offsets;        /* output events carry offsets */
};

/* ERR_INVALID for the client's mistakes. *ret is filled on success and then released with
 * execd_command_request_done(). */
int execd_command_request_parse(const struct execd *execd, const char *body, size_t length,
                                struct execd_command_request *ret, struct error *err);
void execd_command_request_done(struct execd_command_request *request);
