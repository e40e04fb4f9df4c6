/* One function per member of the body, run in the order of a table: the order is the order in which
 * problems are reported when there are several. */
#include "model/create_request.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/json.h"
#include "model/shell_words.h"

#if defined(__x86_64__)
#define HOST_ARCH "amd64"
#elif defined(__aarch64__)
#define HOST_ARCH "arm64"
#else
#error "no name for this architecture"
#endif

#define HOST_IMAGE "host"

/* A member that is there and not null. */
static json_t *find(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static bool is_blank_string(const json_t *value)
{
    return json_is_string(value) && str_is_blank(json_string_value(value));
}

static int refuse_unbuilt(struct problem *problem, const char *field)
{
    return problem_set(problem, PROBLEM_INVALID, "value_error", field, NULL,
                       "`%s` is not supported by this version of the server; leave it out", field);
}

static int refuse_type(struct problem *problem, const char *field, const char *type,
                       const char *allowed)
{
    return problem_set(problem, PROBLEM_INVALID, type, field, NULL, "`%s` must be %s", field,
                       allowed);
}

/* --- members, in the order of the table at the end
 * ------------------------------------------------ */

/* "true" or "false": a wish for protection that is misspelt must not be taken for none. */
static int parse_read_only_root(const json_t *extensions, struct create_request *ret,
                                struct problem *problem)
{
    json_t *value = find(extensions, CREATE_REQUEST_READ_ONLY_ROOT);
    if (value == NULL)
        return 0;
    const char *text = json_string_value(value);
    char quoted[PROBLEM_QUOTE_MAX];
    ret->read_only_root = str_equal(text, "true");
    if (ret->read_only_root || str_equal(text, "false"))
        return 0;
    return problem_set(problem, PROBLEM_INVALID, "value_error", "extensions",
                       CREATE_REQUEST_READ_ONLY_ROOT,
                       "`extensions[\"" CREATE_REQUEST_READ_ONLY_ROOT
                       "\"]` must be \"true\" or \"false\", not \"%s\"",
                       problem_quote(text, quoted));
}

static int parse_network(const json_t *extensions, struct create_request *ret,
                         struct problem *problem)
{
    json_t *value = find(extensions, CREATE_REQUEST_NETWORK);
    if (value == NULL)
        return 0;
    const char *text = json_string_value(value);
    char quoted[PROBLEM_QUOTE_MAX];
    ret->network = str_equal(text, "nat") ? CREATE_REQUEST_NAT : CREATE_REQUEST_NO_NETWORK;
    if (ret->network == CREATE_REQUEST_NAT || str_equal(text, "none"))
        return 0;
    return problem_set(
        problem, PROBLEM_INVALID, "value_error", "extensions", CREATE_REQUEST_NETWORK,
        "`extensions[\"" CREATE_REQUEST_NETWORK "\"]` must be \"none\" or \"nat\", not \"%s\"",
        problem_quote(text, quoted));
}

static int parse_extensions(const json_t *body, struct create_request *ret, struct problem *problem)
{
    json_t *extensions = find(body, "extensions");
    if (extensions == NULL)
        return 0;
    if (!json_is_object(extensions))
        return refuse_type(problem, "extensions", "dict_type", "an object of strings");
    if (json_object_size(extensions) > CREATE_REQUEST_EXTENSIONS_MAX)
        return problem_set(problem, PROBLEM_INVALID, "too_long", "extensions", NULL,
                           "`extensions` has %zu entries; at most %d are allowed",
                           json_object_size(extensions), CREATE_REQUEST_EXTENSIONS_MAX);
    const char *key;
    json_t *value;
    json_object_foreach(extensions, key, value)
    {
        char quoted[PROBLEM_QUOTE_MAX];
        if (!json_is_string(value) && !json_is_null(value))
            return problem_set(problem, PROBLEM_INVALID, "string_type", "extensions", key,
                               "`extensions`: the value of \"%s\" must be a string",
                               problem_quote(key, quoted));
    }
    value = find(extensions, "poolRef");
    if (value != NULL && !is_blank_string(value))
        return problem_set(problem, CREATE_REQUEST_NO_POOLS, "value_error", "extensions", "poolRef",
                           "`extensions.poolRef`: this server has no pools; leave it out");
    if (find(extensions, "access.renew.extend.seconds") != NULL)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "extensions",
                           "access.renew.extend.seconds",
                           "`extensions[\"access.renew.extend.seconds\"]` is not supported by this "
                           "version of the server; leave it out");
    int r = parse_read_only_root(extensions, ret, problem);
    return r == 0 ? parse_network(extensions, ret, problem) : r;
}

static int parse_snapshot(const json_t *body, struct problem *problem)
{
    json_t *snapshot = find(body, "snapshotId");
    if (snapshot == NULL || is_blank_string(snapshot))
        return 0;
    if (!json_is_string(snapshot))
        return refuse_type(problem, "snapshotId", "string_type", "a string");
    return refuse_unbuilt(problem, "snapshotId");
}

static int check_image_auth(const json_t *image, struct problem *problem)
{
    json_t *auth = find(image, "auth");
    if (auth == NULL || (json_is_object(auth) && json_object_size(auth) == 0))
        return 0;
    return problem_set(problem, PROBLEM_INVALID, "value_error", "image", "auth",
                       "`image.auth` is not supported by this version of the server: its images "
                       "come from no registry; leave it out");
}

static bool has_image(const struct create_request_rules *rules, const char *name)
{
    if (strcmp(name, HOST_IMAGE) == 0)
        return true;
    for (size_t i = 0; rules->images != NULL && rules->images[i] != NULL; i++) {
        if (strcmp(name, rules->images[i]) == 0)
            return true;
    }
    return false;
}

/* Those besides "host" as they stand in a message, as far as they fit. */
static void name_images(const struct create_request_rules *rules, struct buf *out)
{
    for (size_t i = 0; rules->images != NULL && rules->images[i] != NULL; i++) {
        if (buf_printf(out, ", \"%s\"", rules->images[i]) < 0)
            return;
    }
}

static int refuse_image(const struct create_request_rules *rules, const char *name,
                        struct problem *problem)
{
    char quoted[PROBLEM_QUOTE_MAX];
    CLEANUP(buf_done) struct buf others;
    buf_init(&others, 200);
    name_images(rules, &others);
    return problem_set(problem, CREATE_REQUEST_IMAGE_NOT_FOUND, "value_error", "image", "uri",
                       "image \"%s\" is not here; this server has \"" HOST_IMAGE
                       "\" (the programs of its own machine)%s, and this version does not "
                       "fetch images from registries",
                       problem_quote(name, quoted), others.data);
}

static int parse_image(const json_t *body, const struct create_request_rules *rules,
                       struct create_request *ret, struct problem *problem)
{
    json_t *image = find(body, "image");
    if (image != NULL && !json_is_object(image))
        return refuse_type(problem, "image", "dict_type", "an object such as {\"uri\": \"host\"}");
    json_t *uri = find(image, "uri");
    if (uri == NULL || is_blank_string(uri))
        return problem_set(problem, PROBLEM_INVALID, "missing", "image", "uri",
                           "`image.uri` is missing; use \"" HOST_IMAGE "\"");
    if (!json_is_string(uri))
        return problem_set(problem, PROBLEM_INVALID, "string_type", "image", "uri",
                           "`image.uri` must be a string");
    int r = check_image_auth(image, problem);
    if (r < 0)
        return r;
    if (!has_image(rules, json_string_value(uri)))
        return refuse_image(rules, json_string_value(uri), problem);
    ret->image = mem_dup(json_string_value(uri));
    return 0;
}

static int parse_limits(const json_t *body, struct create_request *ret, struct problem *problem)
{
    json_t *limits = find(body, "resourceLimits");
    if (limits == NULL)
        return problem_set(problem, PROBLEM_INVALID, "missing", "resourceLimits", NULL,
                           "`resourceLimits` is missing; {} asks for none");
    return limits_parse(limits, &ret->limits, problem);
}

/* A single string with spaces is a command line, as clients that know only one string send it. */
static int split_command(struct create_request *ret, struct problem *problem)
{
    const char *only = ret->entrypoint.items[0];
    if (ret->entrypoint.count > 1 || strpbrk(only, " \t\r\n") == NULL) {
        string_list_copy(&ret->command, &ret->entrypoint);
        return 0;
    }
    struct error err = ERROR_INIT;
    if (shell_words_split(only, &ret->command, &err) < 0)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "entrypoint", NULL,
                           "`entrypoint` has one string, which is split into words as a shell "
                           "does, but %s",
                           err.message);
    return 0;
}

static int parse_entrypoint(const json_t *body, struct create_request *ret, struct problem *problem)
{
    json_t *entrypoint = find(body, "entrypoint");
    if (entrypoint == NULL)
        return problem_set(problem, PROBLEM_INVALID, "missing", "entrypoint", NULL,
                           "`entrypoint` is missing; [\"tail\", \"-f\", \"/dev/null\"] keeps a "
                           "sandbox alive");
    size_t count = json_array_size(entrypoint); /* 0 for anything that is not an array */
    if (count < 1 || count > CREATE_REQUEST_ENTRYPOINT_MAX)
        return problem_set(problem, PROBLEM_INVALID, "list_type", "entrypoint", NULL,
                           "`entrypoint` must be an array of 1 to %d strings",
                           CREATE_REQUEST_ENTRYPOINT_MAX);
    size_t index;
    json_t *item;
    json_array_foreach(entrypoint, index, item)
    {
        if (!json_is_string(item))
            return problem_set(problem, PROBLEM_INVALID, "string_type", "entrypoint", NULL,
                               "`entrypoint[%zu]` must be a string", index);
        if (json_string_length(item) > CREATE_REQUEST_STRING_MAX)
            return problem_set(problem, PROBLEM_INVALID, "too_long", "entrypoint", NULL,
                               "`entrypoint[%zu]` has %zu bytes; at most %d are allowed", index,
                               json_string_length(item), CREATE_REQUEST_STRING_MAX);
        string_list_add(&ret->entrypoint, json_string_value(item));
    }
    if (str_is_blank(ret->entrypoint.items[0]))
        return problem_set(problem, PROBLEM_INVALID, "value_error", "entrypoint", NULL,
                           "`entrypoint[0]` names the program and must not be empty");
    int r = split_command(ret, problem);
    if (r < 0)
        return r;
    if (ret->command.items[0][0] == '\0')
        return problem_set(problem, PROBLEM_INVALID, "value_error", "entrypoint", NULL,
                           "`entrypoint` has an empty program name as its first word");
    return 0;
}

static int add_env(const char *name, const json_t *value, struct create_request *ret,
                   struct problem *problem)
{
    char quoted[PROBLEM_QUOTE_MAX];
    if (name[0] == '\0' || strchr(name, '=') != NULL)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "env", name,
                           "`env`: \"%s\" is not a variable name; it must not be empty or hold '='",
                           problem_quote(name, quoted));
    if (json_is_null(value))
        return 0;
    if (!json_is_string(value))
        return problem_set(problem, PROBLEM_INVALID, "string_type", "env", name,
                           "`env`: the value of \"%s\" must be a string",
                           problem_quote(name, quoted));
    if (strlen(name) + 1 + json_string_length(value) > CREATE_REQUEST_STRING_MAX)
        return problem_set(problem, PROBLEM_INVALID, "too_long", "env", name,
                           "`env`: name and value of \"%s\" have together more than %d bytes",
                           problem_quote(name, quoted), CREATE_REQUEST_STRING_MAX - 1);
    string_list_take(&ret->env, mem_printf("%s=%s", name, json_string_value(value)));
    return 0;
}

static int parse_env(const json_t *body, struct create_request *ret, struct problem *problem)
{
    json_t *env = find(body, "env");
    if (env == NULL)
        return 0;
    if (!json_is_object(env))
        return refuse_type(problem, "env", "dict_type", "an object of strings");
    if (json_object_size(env) > CREATE_REQUEST_ENV_MAX)
        return problem_set(problem, PROBLEM_INVALID, "too_long", "env", NULL,
                           "`env` has %zu entries; at most %d are allowed", json_object_size(env),
                           CREATE_REQUEST_ENV_MAX);
    const char *name;
    json_t *value;
    json_object_foreach(env, name, value)
    {
        int r = add_env(name, value, ret, problem);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_metadata(const json_t *body, struct create_request *ret, struct problem *problem)
{
    json_t *metadata = find(body, "metadata");
    return metadata != NULL ? labels_parse(metadata, &ret->metadata, problem) : 0;
}

/* Trimmed and in lower case; NULL when it is not a string. */
static char *normal_word(const json_t *value)
{
    if (!json_is_string(value))
        return NULL;
    const char *text = json_string_value(value);
    text += strspn(text, " \t\r\n");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        length--;
    char *word = mem_dup_n(text, length);
    for (char *p = word; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    return word;
}

static int parse_platform(const json_t *body, struct create_request *ret, struct problem *problem)
{
    json_t *platform = find(body, "platform");
    if (platform == NULL)
        return 0;
    ret->platform_os = normal_word(find(platform, "os"));
    ret->platform_arch = normal_word(find(platform, "arch"));
    if (ret->platform_os == NULL || ret->platform_arch == NULL)
        return refuse_type(problem, "platform", "dict_type",
                           "an object with the strings `os` and `arch`");
    char os[PROBLEM_QUOTE_MAX];
    char arch[PROBLEM_QUOTE_MAX];
    if (strcmp(ret->platform_os, "linux") != 0 || strcmp(ret->platform_arch, HOST_ARCH) != 0)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "platform", NULL,
                           "`platform` %s/%s is not available; this server runs linux/" HOST_ARCH,
                           problem_quote(ret->platform_os, os),
                           problem_quote(ret->platform_arch, arch));
    return 0;
}

static int parse_timeout(const json_t *body, const struct create_request_rules *rules,
                         struct create_request *ret, struct problem *problem)
{
    int64_t max = CREATE_REQUEST_TIMEOUT_MAX_S;
    if (rules->timeout_max_s > 0)
        max = MIN(max, rules->timeout_max_s);
    struct error err = ERROR_INIT;
    if (http_json_int(body, "timeout", CREATE_REQUEST_TIMEOUT_MIN_S, max, &ret->timeout_s, &err) <
        0)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "timeout", NULL,
                           "%s (seconds; leave it out for no time limit)", err.message);
    return 0;
}

static int check_secure_access(const json_t *body, struct problem *problem)
{
    json_t *secure = find(body, "secureAccess");
    if (secure == NULL || json_is_false(secure))
        return 0;
    if (!json_is_true(secure))
        return refuse_type(problem, "secureAccess", "bool_type", "true or false");
    return refuse_unbuilt(problem, "secureAccess");
}

static int check_credential_proxy(const json_t *body, struct problem *problem)
{
    json_t *proxy = find(body, "credentialProxy");
    if (proxy == NULL)
        return 0;
    json_t *enabled = find(proxy, "enabled");
    if (!json_is_object(proxy) || (enabled != NULL && !json_is_boolean(enabled)))
        return refuse_type(problem, "credentialProxy", "dict_type",
                           "an object such as {\"enabled\": false}");
    return json_is_true(enabled) ? refuse_unbuilt(problem, "credentialProxy") : 0;
}

/* Whether a policy lets nothing pass. The default is said, never guessed; rules that deny what is
 * denied anyway change nothing. */
static bool denies_all(const json_t *policy)
{
    json_t *rules = find(policy, "egress");
    if (!str_equal(json_string_value(find(policy, "defaultAction")), "deny") ||
        (rules != NULL && !json_is_array(rules)))
        return false;
    size_t index;
    json_t *rule;
    json_array_foreach(rules, index, rule)
    {
        const char *target = json_string_value(find(rule, "target"));
        if (!str_equal(json_string_value(find(rule, "action")), "deny") || target == NULL ||
            str_is_blank(target))
            return false;
    }
    return true;
}

static int parse_network_policy(const json_t *body, struct create_request *ret,
                                struct problem *problem)
{
    json_t *policy = find(body, "networkPolicy");
    if (policy == NULL)
        return 0;
    if (!denies_all(policy))
        return problem_set(problem, PROBLEM_INVALID, "value_error", "networkPolicy", NULL,
                           "`networkPolicy` is not supported by this version of the server, but "
                           "for {\"defaultAction\": \"deny\"} without rules that allow; leave it "
                           "out");
    if (ret->network == CREATE_REQUEST_NAT)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "networkPolicy", NULL,
                           "`networkPolicy` denies everything, and "
                           "`extensions[\"" CREATE_REQUEST_NETWORK
                           "\"]` asks for \"nat\"; leave one of them out");
    ret->network = CREATE_REQUEST_NO_NETWORK;
    return 0;
}

static int parse_volumes(const json_t *body, const struct create_request_rules *rules,
                         struct create_request *ret, struct problem *problem)
{
    json_t *volumes = find(body, "volumes");
    return volumes != NULL ? volumes_parse(volumes, rules->host_paths, &ret->volumes, problem) : 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int parse_members(const json_t *body, const struct create_request_rules *rules,
                         struct create_request *ret, struct problem *problem)
{
    static int (*const readers[])(const json_t *, struct create_request *, struct problem *) = {
        parse_entrypoint, parse_limits,   parse_env,
        parse_metadata,   parse_platform, parse_network_policy,
    };
    static int (*const checks[])(const json_t *, struct problem *) = {
        check_secure_access,
        check_credential_proxy,
    };
    int r = parse_extensions(body, ret, problem);
    if (r == 0)
        r = parse_snapshot(body, problem);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(readers); i++)
        r = readers[i](body, ret, problem);
    if (r == 0)
        r = parse_timeout(body, rules, ret, problem);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(checks); i++)
        r = checks[i](body, problem);
    if (r == 0)
        r = parse_volumes(body, rules, ret, problem);
    if (r == 0)
        r = parse_image(body, rules, ret, problem);
    return r;
}

int create_request_parse(const char *body, size_t length, const struct create_request_rules *rules,
                         struct create_request *ret, struct problem *problem)
{
    *ret = (struct create_request){0};
    struct error err = ERROR_INIT;
    json_t *json = http_json_parse(body, length, &err);
    if (json == NULL)
        return problem_set(problem, PROBLEM_INVALID, "json_invalid", "", NULL,
                           "the body is not a JSON document: %s", err.message);
    int r;
    if (json_is_object(json))
        r = parse_members(json, rules, ret, problem);
    else
        r = problem_set(problem, PROBLEM_INVALID, "dict_type", "", NULL,
                        "the body must be a JSON object");
    json_decref(json);
    if (r < 0)
        create_request_done(ret);
    return r;
}

void create_request_done(struct create_request *request)
{
    free(request->image);
    string_list_done(&request->entrypoint);
    string_list_done(&request->command);
    for (size_t i = 0; i < request->env.count; i++)
        explicit_bzero(request->env.items[i], strlen(request->env.items[i]));
    string_list_done(&request->env);
    labels_done(&request->metadata);
    free(request->platform_os);
    free(request->platform_arch);
    volumes_done(&request->volumes);
    *request = (struct create_request){0};
}
