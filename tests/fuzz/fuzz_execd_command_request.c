/* The body of POST /command. What is accepted can be run as it is: a command that one argument
 * holds, a directory that exists, an environment in the shape of execve, and nothing set that the
 * body does not say. What is refused comes with a message that can be sent. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "execd/command_request.h"
#include "execd/execd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
    if (!good)
        abort();
}

static const struct execd *get_execd(void)
{
    static char cwd[] = "/";
    static struct execd execd = {
        .users = {.passwd_path = "/nowhere/passwd", .group_path = "/nowhere/group"},
        .cwd = cwd,
    };
    if (execd.env.count == 0) {
        execd_env_init(&execd.env);
        execd_env_set(&execd.env, "HOME", "/");
        execd_env_set(&execd.env, "PATH", "/bin");
    }
    return &execd;
}

static const json_t *member(const json_t *body, const char *key)
{
    const json_t *value = json_object_get(body, key);
    return json_is_null(value) ? NULL : value;
}

static bool is_set(const json_t *body, const char *key)
{
    const json_t *value = member(body, key);
    return value != NULL && json_is_true(value);
}

static void check_words(const struct execd_command_request *request, const json_t *body)
{
    require(request->command[0] != '\0');
    const json_t *argv = member(body, "argv");
    if (argv == NULL) {
        require(request->argv.count == 0 && strlen(request->command) <= EXECD_COMMAND_MAX);
        require(str_equal(request->command, json_string_value(member(body, "command"))));
        return;
    }
    require(request->argv.count == json_array_size(argv) && request->argv.count > 0);
    require(request->argv.items[0][0] != '\0');
    for (size_t i = 0; i < request->argv.count; i++)
        require(str_equal(request->argv.items[i], json_string_value(json_array_get(argv, i))));
    require(request->argv.items[request->argv.count] == NULL);
}

static void check_flags(const struct execd_command_request *request, const json_t *body)
{
    require(request->background == is_set(body, "background"));
    require(request->input == is_set(body, "stdin"));
    require(request->offsets == is_set(body, "offsets"));
    const json_t *timeout = member(body, "timeout");
    require(request->timeout_ms == (uint64_t)json_integer_value(timeout));
    require(request->timeout_ms <= INT64_MAX);
}

static void check_user(const struct execd_command_request *request, const json_t *body)
{
    const json_t *uid = member(body, "uid");
    const json_t *gid = member(body, "gid");
    require(request->has_credentials == (uid != NULL));
    if (uid == NULL) {
        require(gid == NULL);
        return;
    }
    /* Nobody is known here: a group that is not named is the user's own number, never 0. */
    require(request->credentials.uid == (uid_t)json_integer_value(uid));
    require(request->credentials.gid == (gid_t)json_integer_value(gid != NULL ? gid : uid));
    require(request->credentials.uid != (uid_t)-1 && request->credentials.gid != (gid_t)-1);
}

static void check_environment(const struct execd_command_request *request, const json_t *body)
{
    require(request->env.count <= EXECD_ENV_MAX);
    for (size_t i = 0; i < request->env.count; i++) {
        const char *pair = request->env.items[i];
        require(strchr(pair, '=') > pair && strlen(pair) <= EXECD_STRING_MAX);
    }
    require(execd_env_array(&request->env)[request->env.count] == NULL);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)member(body, "envs"), name, value)
    {
        if (!json_is_null(value))
            require(str_equal(execd_env_find(&request->env, name), json_string_value(value)));
    }
}

__attribute__((noinline)) static void check_accepted(const struct execd_command_request *request,
                                                     const char *text, size_t length)
{
    json_t *body = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    require(json_is_object(body));
    check_words(request, body);
    struct stat st;
    require(request->cwd[0] == '/' && stat(request->cwd, &st) == 0 && S_ISDIR(st.st_mode));
    check_flags(request, body);
    check_user(request, body);
    check_environment(request, body);
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct execd_command_request request;
    struct error err = ERROR_INIT;
    const char *text = (const char *)data;
    if (execd_command_request_parse(get_execd(), text, size, &request, &err) < 0) {
        require(err.code == ERR_INVALID && err.message[0] != '\0');
        return 0;
    }
    check_accepted(&request, text, size);
    execd_command_request_done(&request);
    return 0;
}
