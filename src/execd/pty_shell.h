/* Which program a terminal runs, with which arguments and environment: bash where the terminal's
 * own PATH or the usual places have it, else sh. */
#pragma once

#include <stdbool.h>

#include "execd/env.h"
#include "execd/pty_request.h"
#include "execd/spawn.h"

struct execd;

#define EXECD_PTY_TERM "xterm-256color" /* unless the environment says otherwise */

struct execd_pty_shell {
    struct execd_programs programs;
    struct execd_env env;
    char *argv[6]; /* borrows the command of the request */
};

void execd_pty_shell_init(struct execd_pty_shell *shell, const struct execd *execd,
                          const struct execd_pty_request *request, bool pipes);
void execd_pty_shell_done(struct execd_pty_shell *shell);
