/* Sessions: one living bash each, whose variables, functions, aliases, directory, umask and jobs
 * stay from one run to the next; see execd/session_shell.h for what a shell keeps.
 *
 * A session runs one text at a time; further ones wait in the order they came, their streams open.
 * A run does not depend on its client: when the connection breaks it runs on to its end or timeout,
 * and its output is read and dropped. Nothing but DELETE and the end of execd ends a session. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_SESSIONS_MAX      64
#define EXECD_SESSION_QUEUE_MAX 16 /* runs waiting in one session */

void execd_session_handle_create(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_session_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd);
void execd_session_handle_delete(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_session_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);

/* Interrupt what the session runs now, as Ctrl-C would; the session and the runs that wait stay. 0,
 * -ENOENT when there is no such session, -ESRCH when it runs nothing. */
int execd_session_interrupt(struct execd *execd, const char *id);

/* For execd_end(): kill every session; their streams end as for any killed run. */
void execd_sessions_end(struct execd *execd);
bool execd_sessions_are_over(const struct execd *execd);
