/* Waiting in a pool: an execd that was started before anybody asked for a sandbox.
 *
 * It says on an inherited socket that it serves (one byte), and goes on as if nothing were special.
 * When that socket ends it is somebody's sandbox or nobody will ever want it, and it ends, too.
 * Which of the two is a fact that both sides read: a sandbox has been made of it once the file of
 * its listening socket has a second name. A word on the socket could not tell, since whoever gives
 * it may be killed between the word and what it stands for. */
#pragma once

#include "base/error.h"
#include "execd/execd.h"

/* Call when the listening sockets are served. Takes the descriptors; name_fd is of the listening
 * socket's file (O_PATH will do), -1 of one that can never become a sandbox. */
int execd_hold_start(struct execd *execd, int fd, int name_fd, struct error *err);
