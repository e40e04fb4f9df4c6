/* Terminals over WebSocket: a shell on a pseudo-terminal (or on pipes) that outlives its clients.
 *
 * POST /pty describes a terminal; its shell starts when the first client attaches, and runs on when
 * that one leaves. Output of any time, up to EXECD_PTY_RING_MAX, is kept for clients that come
 * back. A client that attaches after the shell has exited starts it anew, in the same terminal: the
 * output goes on at the offset where it stopped. How the last one ended is in GET /pty/{id}, and a
 * client that wants only that and the output says start=0.
 *
 * A terminal without a running shell goes away after EXECD_PTY_IDLE_MS, or earlier when its shell
 * has exited and the room is needed for a new one. */
#pragma once

#include "execd/execd.h"
#include "http/router.h"

#define EXECD_PTYS_MAX    64
#define EXECD_PTY_IDLE_MS (10 * 60 * 1000)

void execd_pty_handle_create(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);
void execd_pty_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
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
