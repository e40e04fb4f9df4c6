/* The API key when the operator has set none: made at the first start, kept in a file only the
 * server's user can read, shown once. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Read the key below state_dir, or make it. *ret_is_new tells that it was made just now: then
 * somebody should be told. A file that others can read is refused. Caller frees *ret. */
int server_key_load(const char *state_dir, char **ret, bool *ret_is_new, struct error *err);
