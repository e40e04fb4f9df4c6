/* POST /command: a shell command whose output is streamed back as events, one per line.
 *
 * The command does not depend on its client: when the connection breaks it runs on to its end or
 * timeout, and its output is read and dropped. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_COMMANDS_MAX 1024 /* at once, disconnected ones included */

void execd_command_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd);
void execd_command_handle_interrupt(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *execd);
void execd_command_handle_status(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_command_handle_logs(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);
void execd_command_handle_stream(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_command_handle_stdin(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd);
void execd_command_handle_stdin_close(struct http_exchange *exchange,
                                      const struct http_route_match *match, void *execd);
void execd_command_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);

/* SIGKILL to the group of every running command; their streams end as for any killed command. */
void execd_commands_kill(struct execd *execd);
