/* Paths as clients write them: "$HOME/x", "${DIR}/y", "~/z", relative ones. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "execd/env.h"

/* Replace $NAME and ${NAME} from env, appending to `out`. A '$' that starts neither stays as it is.
 * With `missing`, names that are not set are appended to it, separated by ", "; without it they
 * become nothing. 0, -EINVAL for an unclosed or empty "${", -EMSGSIZE when a buffer is full. */
int execd_path_replace_variables(const char *text, const struct execd_env *env, struct buf *out,
                                 struct buf *missing);

/* Variables, then a leading "~" or "~/" as HOME of env, then relative to `cwd`; "//", "/./" and
 * slashes at the end are removed (".." stays: what it means depends on symbolic links). ERR_INVALID
 * names the variables that are not set, or the limit of PATH_MAX. Caller frees *ret. */
int execd_path_expand(const char *path, const struct execd_env *env, const char *cwd, char **ret,
                      struct error *err);
