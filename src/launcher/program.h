/* Running one of the machine's own programs and waiting for it, but not for ever. For starts, ends
 * and `check`: a launcher that serves does not wait for anybody. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* The first of the usual directories for administrators' programs that has it: NULL or a path to
 * free. Nobody's PATH is asked, since we are root. */
char *program_find(const char *name);

/* Runs `path` with an empty environment and `input` on its standard input. What it says goes to
 * `out` and `err` as far as it fits, the rest is read and dropped. Returns its exit status, or
 * -errno: -ETIMEDOUT when it took longer and was killed, -EPIPE when a signal ended it. */
int program_run(const char *path, const char *const *argv, const char *input, int timeout_ms,
                struct buf *out, struct buf *err);
