/* Commands: what a shell runs for a client, in the foreground (the answer is its output as events)
 * or in the background, and everything that can be asked about it by its id.
 *
 * A command does not depend on its client: when the connection breaks it runs on to its end or
 * timeout. Its output is recorded (execd/spool.h), so clients can come back to it. A foreground
 * command waits while a client that reads its events is slow; a background command never does.
 *
 * Finished commands stay known for a while: at most EXECD_COMMANDS_KEEP_MS (or what the command
 * line says), and no more of them than the limits below allow. The oldest go first. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_COMMANDS_MAX 1024 /* running at once */

#define EXECD_COMMANDS_KEEP_MS        (10 * 60 * 1000)
#define EXECD_FINISHED_MAX            1024
#define EXECD_FINISHED_FILES_MAX      64 /* those whose output is in a file */
#define EXECD_FINISHED_FILE_BYTES_MAX (256ULL * 1024 * 1024)
#define EXECD_FINISHED_MEMORY_MAX     (8ULL * 1024 * 1024)
#define EXECD_COMMAND_STREAMS_MAX     16 /* clients that read one command's events at once */

/* POST /command */
void execd_command_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd);
/* DELETE /command?id=ID: SIGTERM to its process group, SIGKILL three seconds later; answered when
 * it has exited. */
void execd_command_handle_interrupt(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *execd);
/* GET /command/status/{id} */
void execd_command_handle_status(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
/* GET /commands: all that are known, the newest first. */
void execd_command_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);
/* GET /command/{id}/logs?cursor=OFFSET: recorded output as it is. */
void execd_command_handle_logs(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);
/* GET /command/{id}/stream?offset=OFFSET: its events, of lines that end behind that offset. */
void execd_command_handle_stream(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
/* POST /command/{id}/stdin[?close=true]: the body goes to its standard input. */
void execd_command_handle_stdin(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd);
/* DELETE /command/{id}/stdin: its standard input ends. */
void execd_command_handle_stdin_close(struct http_exchange *exchange,
                                      const struct http_route_match *match, void *execd);

/* For execd_end(): SIGKILL to the group of every running command; their streams end as for any
 * killed command. */
void execd_commands_kill(struct execd *execd);
/* No command runs, and nobody reads events of one. */
bool execd_commands_are_over(const struct execd *execd);
