/* A program and its arguments, as requests write them: a JSON array of strings. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "http/json.h"

#define EXECD_ARGV_MAX 1024

struct execd_argv {
    char **items; /* NULL-terminated; NULL itself when there is none */
    size_t count;
};

/* The member `key`, a non-empty array whose first string is not empty. ERR_INVALID otherwise; an
 * absent one leaves `argv` as it is: empty. */
int execd_argv_read(const json_t *object, const char *key, struct execd_argv *argv,
                    struct error *err);
void execd_argv_done(struct execd_argv *argv);

/* For people: the words with spaces between them. Caller frees. */
char *execd_argv_join(const struct execd_argv *argv);
