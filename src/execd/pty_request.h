/* The body of POST /pty: checked, with everything a terminal needs each time its shell starts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "execd/credentials.h"
#include "execd/env.h"

struct execd;

#define EXECD_PTY_COLS 80
#define EXECD_PTY_ROWS 24

struct execd_pty_request {
    char *command;                        /* NULL: an interactive shell */
    char *cwd;                            /* a directory, made if it was not there */
    struct execd_env envs;                /* laid over the environment of the moment of the start */
    struct execd_credentials credentials; /* with has_credentials */
    bool has_credentials;
    unsigned short cols;
    unsigned short rows;
};

/* An empty body stands for {}. ERR_INVALID for the client's mistakes. *ret is filled on success and
 * then released with execd_pty_request_done(). */
int execd_pty_request_parse(const struct execd *execd, const char *body, size_t length,
                            struct execd_pty_request *ret, struct error *err);
void execd_pty_request_done(struct execd_pty_request *request);
