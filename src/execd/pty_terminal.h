/* What the kernel does for a terminal: opening one, its size, and signals to those who use it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "execd/credentials.h"

/* A new pseudo-terminal: the non-blocking master, and the slave, which belongs to the user it is
 * for (NULL: to us) and is nobody's controlling terminal yet. */
int execd_pty_terminal_open(const struct execd_credentials *credentials, int *ret_master,
                            int *ret_slave, struct error *err);

/* The foreground job is told by SIGWINCH. */
void execd_pty_terminal_resize(int master, unsigned short cols, unsigned short rows);

/* Signal the foreground job of the terminal whose session has this leader. Negative when there is
 * none. */
int execd_pty_terminal_signal(int master, pid_t leader, int signal);

/* Signal every process of the session. False when they cannot be found, for lack of a /proc. */
bool execd_pty_terminal_kill_session(pid_t leader, int signal);
