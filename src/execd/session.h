/* Sessions: one living bash each, whose variables, functions, aliases, directory, umask and jobs
 * stay from one run to the next. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_SESSIONS_MAX 64

void execd_session_handle_create(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_session_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd);
void execd_session_handle_delete(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_session_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);

/* For execd_end(): kill every session; their streams end as for any killed run. */
void execd_sessions_end(struct execd *execd);
bool execd_sessions_are_over(const struct execd *execd);
