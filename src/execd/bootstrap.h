/* --bootstrap: what runs as the entrypoint when nobody posts one. In this order: the text of
 * BOOTSTRAP_CMD in a shell; the program and arguments of the command line; with "-c" in place of
 * the program, a shell with all of them; else a shell without arguments. The shell is
 * BOOTSTRAP_SHELL, else bash, else sh. A program needs no shell. */
#pragma once

#include "execd/execd.h"

/* `words` is what the command line holds after the options, NULL-terminated. The start is told by
 * the log and the exit code, see execd_entrypoint_start(). */
int execd_bootstrap_start(struct execd *execd, char **words, struct error *err);
