/* Terminals over WebSocket: a shell on a pseudo-terminal (or on pipes) that outlives its clients.
 */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_PTYS_MAX 64

void execd_pty_handle_create(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);
void execd_pty_handle_status(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);
void execd_pty_handle_delete(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);
void execd_pty_handle_socket(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);

/* For execd_end(): kill every terminal's processes and tell the clients. */
void execd_ptys_end(struct execd *execd);
bool execd_ptys_are_over(const struct execd *execd);
