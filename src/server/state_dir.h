/* The folder that holds everything the platform keeps, and the lock that makes this server its only
 * one. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Names below state_dir. */
#define SERVER_STATE_OWN      "server" /* database and keys: the server's user only */
#define SERVER_STATE_RUN      "run"    /* sockets */
#define SERVER_STATE_DATABASE SERVER_STATE_OWN "/server.db"
#define SERVER_STATE_SOCKET   SERVER_STATE_RUN "/launcher.sock"

/* As root, or as uid itself: make the folders, give `server` to uid:gid, take the lock. The
 * returned fd holds the lock until the process ends. ERR_CONFLICT when another server has it. */
int server_state_dir_prepare(const char *state_dir, uid_t uid, gid_t gid, struct error *err);
