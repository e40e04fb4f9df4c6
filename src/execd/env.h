/* An environment: "NAME=value" strings, each name once, in the shape execve wants. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where the variable EXECD_ENVS points unless somebody sets it, see execd_environment(). */
#define EXECD_ENVS_DEFAULT "/opt/opensandbox/.env"

#define EXECD_ENV_MAX 4096 /* variables in one environment */
/* Linux takes no argument or environment string longer than this (MAX_ARG_STRLEN with its NUL). */
#define EXECD_STRING_MAX (128 * 1024 - 1)

struct execd_env {
    char **items; /* NULL-terminated; NULL itself when nothing was ever set */
    size_t count;
};

void execd_env_init(struct execd_env *env);
void execd_env_done(struct execd_env *env); /* frees; empty and usable again */
void execd_env_copy(struct execd_env *env, const struct execd_env *from); /* env is empty */

/* Non-empty, no '='. (NUL cannot occur in a C string.) */
bool execd_env_name_is_valid(const char *name);

/* Set or replace. 0, -EINVAL for a bad name, -E2BIG when name and value pass EXECD_STRING_MAX or
 * the environment would pass EXECD_ENV_MAX. */
int execd_env_set(struct execd_env *env, const char *name, const char *value);
/* The same from "NAME=value"; -EINVAL when there is no '='. */
int execd_env_set_pair(struct execd_env *env, const char *pair);
void execd_env_unset(struct execd_env *env, const char *name);

const char *execd_env_find(const struct execd_env *env, const char *name); /* value or NULL */

/* For execve: never NULL. */
char *const *execd_env_array(const struct execd_env *env);

/* Overlay the entries of an environment file (env_file.c): one NAME=value per line, later ones win;
 * '#' comments, blank and malformed lines are skipped. A value may be
 * - in single quotes, as it stands, line ends included;
 * - in double quotes, with \\ \" \n \r \t and $NAME or ${NAME};
 * - without quotes, to the end of the line, with $NAME or ${NAME}.
 * Names are replaced from `env` as it was before, by nothing when unset. Quotes count only when
 * nothing but white space or a comment follows the closing one on its line. */
void execd_env_add_file(struct execd_env *env, const char *text, size_t length);
