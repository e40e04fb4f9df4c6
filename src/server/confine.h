/* The server gives up what it does not need besides privileges: files, listening, signals
 * (landlock.h) and system calls (syscalls.h). docs/security.md tells what is left. */
#pragma once

#include "server/config.h"

/* Right after privileges are dropped, while there is one thread and before anything is read that
 * others wrote. Logs what is in force: kernels that cannot do it are no reason not to serve. */
int server_confine(const struct server_config *config, struct error *err);
