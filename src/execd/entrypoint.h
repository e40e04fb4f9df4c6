/* The entrypoint: the process a sandbox exists for. POST /internal/start, which only the runtime
 * can reach, brings it with the environment, directory and user that everything else then uses.
 *
 * Body: {"entrypoint": [...], "env": ["A=b", ...], "cwd": "/", "user": "name or uid[:group]"}; all
 * but the first may be absent. `workdir` instead of `cwd` is made, for the user, where it is not
 * there. Answered when the program really runs: 200 {"pid": N}; 400 when the
 * request or the program is wrong; 409 when there is an entrypoint already. After a failed start
 * another may be tried.
 *
 * With --pid1 execd ends when the entrypoint does, with its exit code (128 + n for signal n). */
#pragma once

#include "execd/execd.h"
#include "execd/spawn.h"
#include "http/router.h"

#define EXECD_START_BODY_MAX (4 * 1024 * 1024)

void execd_entrypoint_handle_start(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *execd);

/* Is the answer to /internal/start still on its way? */
bool execd_entrypoint_is_answering(const struct execd *execd);

/* Signal the entrypoint's process group. False when there is none running. */
bool execd_entrypoint_kill(struct execd *execd, int signal);

/* Start the entrypoint that came with the command line, with our own input, output, environment and
 * directory. `argv` and `programs` are not used after the call. When the program cannot be executed
 * execd ends with 127 (there is none) or 126; after a SIGTERM that was passed on, with 0. */
int execd_entrypoint_start(struct execd *execd, const struct execd_programs *programs, char **argv,
                           struct error *err);
