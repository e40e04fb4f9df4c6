/* Waiting in a pool: an execd that was started before anybody asked for a sandbox.
 *
 * It says on an inherited socket that it serves (one byte), and goes on as if nothing were special.
 * Whoever started it sends one byte when a sandbox has been made of it; from then on the socket is
 * closed and its life is its own. The socket's end before that byte means that nobody will ever
 * want it: it ends. */
#pragma once

#include "base/error.h"
#include "execd/execd.h"

/* Call when the listening sockets are served. Takes the descriptor. */
int execd_hold_start(struct execd *execd, int fd, struct error *err);
