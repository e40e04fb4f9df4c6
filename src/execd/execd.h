/* What the parts of execd share: one per process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "execd/credentials.h"
#include "execd/env.h"
#include "execd/reaper.h"

#define EXECD_VERSION "0.1.0"

struct execd_commands;
struct execd_entrypoint;
struct execd_metrics;
struct execd_ptys;
struct execd_sessions;
struct http_client;

struct execd {
    uv_loop_t *loop;
    const char *token; /* every request must carry it; NULL: none needed */
    bool pid1;         /* ends with its entrypoint */
    int port;          /* of TCP; 0: none */
    int idle_fd;       /* a program that only waits, for `tail -f /dev/null`; -1: none */

    struct execd_users users;
    struct execd_env env;          /* what everything started here begins with */
    char *cwd;                     /* of commands without one, and of relative paths */
    struct execd_credentials user; /* as whom things run that name nobody ... */
    bool has_user;                 /* ... when set; else as execd itself */
    mode_t umask;

    struct execd_reaper reaper;
    struct execd_entrypoint *entrypoint; /* NULL until there is one */
    uint64_t spool_bytes;                /* recorded of each command's output, at most */
    uint64_t keep_finished_ms;           /* how long finished commands are known */
    /* Made when first needed, so that an idle execd stays small. */
    struct execd_commands *commands;
    struct execd_sessions *sessions;
    struct execd_ptys *ptys;
    struct execd_metrics *metrics;
    struct http_client *client; /* of /proxy/ */

    bool ending;
    int exit_code;
    uv_timer_t rest;     /* see rest.h */
    uv_timer_t deadline; /* of the ending: a stopped reader must not keep us alive */
};

void execd_init(struct execd *execd, uv_loop_t *loop);

/* The environment that a new process begins with: ours, overlaid by the file that its EXECD_ENVS
 * names. That file is read anew each time: programs in the sandbox add to it. An absent or
 * unreadable one adds nothing. *ret is empty before. */
void execd_environment(const struct execd *execd, struct execd_env *ret);

/* End the process with this exit code: kill what runs, let every open stream tell its end, and stop
 * the loop when all of them have, or after two seconds. Later calls change nothing. */
void execd_end(struct execd *execd, int exit_code);
/* For those that execd_end() waits for, when they are gone: stop the loop if they were the last. */
void execd_end_check(struct execd *execd);
