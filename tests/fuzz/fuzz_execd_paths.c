/* Any text as a path, a range and an environment file: answers are within their limits. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/files_range.h"
#include "execd/paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_path(const char *text, const struct execd_env *env)
{
    struct error err = ERROR_INIT;
    char *path = NULL;
    if (execd_path_expand(text, env, "/cwd", &path, &err) < 0) {
        require(path == NULL && err.code == ERR_INVALID && err.message[0] != '\0');
        return;
    }
    size_t length = strlen(path);
    require(path[0] == '/' && length < PATH_MAX && strstr(path, "//") == NULL);
    require(length == 1 || path[length - 1] != '/');
    free(path);
}

static void check_range(const char *text, uint64_t size)
{
    uint64_t first = 0;
    uint64_t last = 0;
    if (execd_range_parse(text, size, &first, &last) == 0)
        require(first <= last && last < size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = mem_dup_n((const char *)data, size);
    struct execd_env env;
    execd_env_init(&env);
    execd_env_set(&env, "HOME", "/home/me");
    execd_env_set(&env, "A", "a//b/./");
    check_path(text, &env);
    check_range(text, size);
    execd_env_add_file(&env, (const char *)data, size);
    for (size_t i = 0; i < env.count; i++)
        require(strchr(env.items[i], '=') > env.items[i]);
    require(execd_env_array(&env)[env.count] == NULL);
    check_path(text, &env);
    execd_env_done(&env);
    return 0;
}
