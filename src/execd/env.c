#include "execd/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void execd_env_init(struct execd_env *env)
{
    *env = (struct execd_env){0};
}

void execd_env_done(struct execd_env *env)
{
    for (size_t i = 0; i < env->count; i++)
        free(TAKE_PTR(env->items[i]));
    free(TAKE_PTR(env->items));
    env->count = 0;
}

void execd_env_copy(struct execd_env *env, const struct execd_env *from)
{
    env->items = mem_alloc_array(from->count + 1, sizeof(*env->items));
    for (size_t i = 0; i < from->count; i++)
        env->items[i] = mem_dup(from->items[i]);
    env->count = from->count;
}

bool execd_env_name_is_valid(const char *name)
{
    return *name != '\0' && strchr(name, '=') == NULL;
}

static bool find_index(const struct execd_env *env, const char *name, size_t length, size_t *ret)
{
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], name, length) == 0 && env->items[i][length] == '=') {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Takes `pair`, whose name is its first `length` bytes. */
static int put(struct execd_env *env, char *pair, size_t length)
{
    size_t index;
    if (find_index(env, pair, length, &index)) {
        free(TAKE_PTR(env->items[index]));
        env->items[index] = pair;
        return 0;
    }
    if (env->count == EXECD_ENV_MAX) {
        free(pair);
        return -E2BIG;
    }
    env->items = mem_resize_array(env->items, env->count + 2, sizeof(*env->items));
    env->items[env->count++] = pair;
    env->items[env->count] = NULL;
    return 0;
}

int execd_env_set(struct execd_env *env, const char *name, const char *value)
{
    if (!execd_env_name_is_valid(name))
        return -EINVAL;
    size_t length = strlen(name);
    if (length + 1 + strlen(value) > EXECD_STRING_MAX)
        return -E2BIG;
    return put(env, mem_printf("%s=%s", name, value), length);
}

int execd_env_set_pair(struct execd_env *env, const char *pair)
{
    const char *equals = strchr(pair, '=');
    if (equals == NULL || equals == pair)
        return -EINVAL;
    if (strlen(pair) > EXECD_STRING_MAX)
        return -E2BIG;
    return put(env, mem_dup(pair), (size_t)(equals - pair));
}

void execd_env_unset(struct execd_env *env, const char *name)
{
    size_t index;
    if (!find_index(env, name, strlen(name), &index))
        return;
    free(TAKE_PTR(env->items[index]));
    memmove(&env->items[index], &env->items[index + 1],
            (env->count - index) * sizeof(*env->items)); /* the final NULL moves along */
    env->count--;
}

const char *execd_env_find(const struct execd_env *env, const char *name)
{
    size_t length = strlen(name);
    size_t index;
    return find_index(env, name, length, &index) ? env->items[index] + length + 1 : NULL;
}

char *const *execd_env_array(const struct execd_env *env)
{
    static char *const none[] = {NULL};
    return env->items != NULL ? env->items : none;
}
