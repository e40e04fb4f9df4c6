#include "server/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/place.h"
#include "base/str.h"
#include "base/toml.h"
#include "model/volumes.h"

#define API_KEY_MAX    256
#define STATE_DIR_MAX  56 /* sockets with long names live below it, and a socket path has 107 */
#define SLOTS_MAX      64
#define SPARE_MAX      3600
#define HOST_PATHS_MAX 64 /* as many as the launcher takes */
#define POOL_BITS_MIN  8
#define POOL_BITS_MAX  28

void server_config_init(struct server_config *config)
{
    *config = (struct server_config){
        .host = mem_dup("127.0.0.1"),
        .port = 8080,
        .user = mem_dup("opensandbox"),
        .state_dir = place_default_state(geteuid() == 0),
        .launcher_slots = -1,
        .launcher_spare_s = -1,
        .log_level = LOG_INFO,
        .log_format = LOG_PEOPLE,
    };
}

void server_config_done(struct server_config *config)
{
    free(config->host);
    free(config->api_key);
    free(config->eip);
    free(config->user);
    free(config->state_dir);
    free(config->network_pool);
    string_list_done(&config->dns);
    server_images_done(&config->images);
    string_list_done(&config->allowed_host_paths);
    *config = (struct server_config){0};
}

static void replace(char **member, const char *value)
{
    free(*member);
    *member = mem_dup(value);
}

static int set_host(struct server_config *config, const char *host, struct error *err)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1)
        return error_set(err, ERR_INVALID,
                         "'%s' is not a numeric IP address; use 127.0.0.1, or 0.0.0.0 for every "
                         "address of this machine",
                         host);
    replace(&config->host, host);
    return 0;
}

int server_config_set_api_key(struct server_config *config, const char *key, struct error *err)
{
    size_t length = strlen(key);
    if (length == 0 || length > API_KEY_MAX)
        return error_set(err, ERR_INVALID,
                         "the API key has %zu characters; 1 to %d are allowed (remove the setting "
                         "to use the generated key)",
                         length, API_KEY_MAX);
    for (const char *p = key; *p != '\0'; p++)
        if (!isgraph((unsigned char)*p))
            return error_set(err, ERR_INVALID,
                             "the API key may only hold visible ASCII "
                             "characters without spaces");
    replace(&config->api_key, key);
    return 0;
}

int server_config_set_state_dir(struct server_config *config, const char *path, struct error *err)
{
    if (path[0] != '/' || strlen(path) > STATE_DIR_MAX)
        return error_set(err, ERR_INVALID,
                         "state directory '%s' must be an absolute path of at most %d bytes", path,
                         STATE_DIR_MAX);
    replace(&config->state_dir, path);
    return 0;
}

int server_config_set_listen(struct server_config *config, const char *text, struct error *err)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (colon == NULL || str_to_u64(colon + 1, 0, 65535, &port) < 0)
        return error_set(err, ERR_INVALID, "'%s' is not IP:PORT, such as 127.0.0.1:8080", text);
    size_t length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    AUTO_FREE char *host = mem_dup_n(text, length);
    int r = set_host(config, host, err);
    if (r == 0)
        config->port = (int)port;
    return r;
}

/* Put "name:line: `table.key`" in front of what a setter said. */
static int wrap(const char *name, const struct toml_value *table, const char *section,
                const char *key, struct error *err)
{
    return error_wrap(err, "%s:%d: `%s.%s`", name, toml_line(toml_find(table, key)), section, key);
}

static int find_section(const struct toml *doc, const char *name, const char *section,
                        const struct toml_value **ret, struct error *err)
{
    const struct toml_value *table = toml_find(toml_root(doc), section);
    if (table != NULL && toml_type(table) != TOML_TABLE)
        return error_set(err, ERR_INVALID, "%s:%d: `%s` must be a table: [%s]", name,
                         toml_line(table), section, section);
    *ret = table;
    return 0;
}

struct section {
    const struct toml *doc;
    const char *name; /* of the document */
    const char *title;
    const struct toml_value *table;
};

typedef int setter_fn(struct server_config *config, const char *value, struct error *err);

/* A string that has rules of its own. */
static int read_string(const struct section *section, const char *key, setter_fn *setter,
                       struct server_config *config, struct error *err)
{
    const char *value = NULL;
    int r = toml_get_string(section->doc, section->table, key, &value, err);
    if (r < 0 || value == NULL)
        return r;
    if (setter(config, value, err) < 0)
        return wrap(section->name, section->table, section->title, key, err);
    return 0;
}

static int set_eip(struct server_config *config, const char *value, struct error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ".-_:[]/";
    size_t length = strlen(value);
    if (length == 0 || length > 255 || strspn(value, allowed) != length ||
        strstr(value, "://") != NULL || value[length - 1] == '/')
        return error_set(err, ERR_INVALID,
                         "'%s' must be host, host:port or host:port/path, without a scheme and "
                         "without a final slash",
                         value);
    replace(&config->eip, value);
    return 0;
}

static int set_user(struct server_config *config, const char *value, struct error *err)
{
    if (value[0] == '\0' || strcmp(value, "root") == 0)
        return error_set(err, ERR_INVALID, "must be an unprivileged user, not '%s'", value);
    replace(&config->user, value);
    return 0;
}

static int set_log_level(struct server_config *config, const char *value, struct error *err)
{
    AUTO_FREE char *lower = mem_dup(value); /* "INFO" is common */
    for (char *p = lower; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    if (log_level_parse(lower, &config->log_level) < 0)
        return error_set(err, ERR_INVALID, "must be debug, info, warn or error, not '%s'", value);
    return 0;
}

static int set_log_format(struct server_config *config, const char *value, struct error *err)
{
    if (log_format_parse(value, &config->log_format) < 0)
        return error_set(err, ERR_INVALID, "must be text or json, not '%s'", value);
    return 0;
}

static int set_runtime_type(struct server_config *config, const char *value, struct error *err)
{
    (void)config;
    if (strcmp(value, "native") != 0)
        return error_set(err, ERR_INVALID, "this version has the runtime \"native\", not \"%s\"",
                         value);
    return 0;
}

static int read_server(const struct section *section, struct server_config *config,
                       struct error *err)
{
    static const struct {
        const char *key;
        setter_fn *setter;
    } strings[] = {
        {"host", set_host}, {"api_key", server_config_set_api_key},     {"eip", set_eip},
        {"user", set_user}, {"state_dir", server_config_set_state_dir},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(strings); i++)
        r = read_string(section, strings[i].key, strings[i].setter, config, err);
    int64_t port = config->port;
    if (r == 0)
        r = toml_get_int(section->doc, section->table, "port", 0, 65535, &port, err);
    if (r == 0)
        r = toml_get_int(section->doc, section->table, "max_sandbox_timeout_seconds", 60,
                         INT64_MAX / 1000, &config->max_sandbox_timeout_seconds, err);
    config->port = (int)port;
    return r;
}

static int read_log(const struct section *section, struct server_config *config, struct error *err)
{
    int r = read_string(section, "level", set_log_level, config, err);
    return r == 0 ? read_string(section, "format", set_log_format, config, err) : r;
}

static int read_runtime(const struct section *section, struct server_config *config,
                        struct error *err)
{
    return read_string(section, "type", set_runtime_type, config, err);
}

static int read_launcher(const struct section *section, struct server_config *config,
                         struct error *err)
{
    int64_t slots = config->launcher_slots;
    int r = toml_get_int(section->doc, section->table, "slots", 0, SLOTS_MAX, &slots, err);
    config->launcher_slots = (int)slots;
    int64_t spare = config->launcher_spare_s;
    if (r == 0)
        r = toml_get_int(section->doc, section->table, "spare_seconds", 0, SPARE_MAX, &spare, err);
    config->launcher_spare_s = (int)spare;
    return r;
}

static int set_network_mode(struct server_config *config, const char *value, struct error *err)
{
    static const char *const modes[] = {[SERVER_NETWORK_AUTO] = "auto",
                                        [SERVER_NETWORK_NAT] = "nat",
                                        [SERVER_NETWORK_NONE] = "none"};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (strcmp(value, modes[i]) == 0) {
            config->network = (enum server_network)i;
            return 0;
        }
    }
    return error_set(err, ERR_INVALID, "must be auto, nat or none, not '%s'", value);
}

/* Its form alone: whether the addresses are free is for the launcher to see. */
static int set_network_pool(struct server_config *config, const char *value, struct error *err)
{
    struct in_addr address;
    const char *slash = strchr(value, '/');
    AUTO_FREE char *ip = mem_dup_n(value, slash != NULL ? (size_t)(slash - value) : 0);
    uint64_t bits;
    if (slash == NULL || inet_pton(AF_INET, ip, &address) != 1 ||
        str_to_u64(slash + 1, POOL_BITS_MIN, POOL_BITS_MAX, &bits) < 0)
        return error_set(err, ERR_INVALID,
                         "'%s' is not ADDRESS/BITS of IPv4 with %d to %d bits, such as "
                         "100.64.0.0/16",
                         value, POOL_BITS_MIN, POOL_BITS_MAX);
    replace(&config->network_pool, value);
    return 0;
}

static int read_dns(const struct section *section, struct server_config *config, struct error *err)
{
    const struct toml_value *list = toml_find(section->table, "dns");
    if (list == NULL)
        return 0;
    if (toml_type(list) != TOML_ARRAY || toml_array_count(list) > SERVER_CONFIG_DNS_MAX)
        return error_set(err, ERR_INVALID,
                         "%s:%d: `network.dns` must be an array of at most %d IPv4 addresses",
                         section->name, toml_line(list), SERVER_CONFIG_DNS_MAX);
    string_list_done(&config->dns);
    for (size_t i = 0; i < toml_array_count(list); i++) {
        const struct toml_value *item = toml_array_at(list, i);
        const char *text = toml_type(item) == TOML_STRING ? toml_string(item) : "";
        struct in_addr address;
        if (inet_pton(AF_INET, text, &address) != 1)
            return error_set(err, ERR_INVALID, "%s:%d: `network.dns`: '%s' is not an IPv4 address",
                             section->name, toml_line(item), text);
        string_list_add(&config->dns, text);
    }
    return 0;
}

static int read_network(const struct section *section, struct server_config *config,
                        struct error *err)
{
    int r = read_string(section, "mode", set_network_mode, config, err);
    if (r == 0)
        r = read_string(section, "pool", set_network_pool, config, err);
    return r == 0 ? read_dns(section, config, err) : r;
}

static int read_images(const struct section *section, struct server_config *config,
                       struct error *err)
{
    const char *name;
    for (size_t i = 0; (name = toml_table_key(section->table, i)) != NULL; i++) {
        int r = server_images_read(&config->images, section->doc, section->name, name,
                                   toml_find(section->table, name), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_storage(const struct section *section, struct server_config *config,
                        struct error *err)
{
    const struct toml_value *paths = toml_find(section->table, "allowed_host_paths");
    if (paths == NULL)
        return 0;
    if (toml_type(paths) != TOML_ARRAY || toml_array_count(paths) > HOST_PATHS_MAX)
        return error_set(err, ERR_INVALID,
                         "%s:%d: `storage.allowed_host_paths` must be an array of at most %d "
                         "strings",
                         section->name, toml_line(paths), HOST_PATHS_MAX);
    struct string_list list = {0};
    for (size_t i = 0; i < toml_array_count(paths); i++) {
        const struct toml_value *item = toml_array_at(paths, i);
        const char *path = toml_string(item);
        if (path == NULL || !volumes_is_plain_path(path, true)) {
            string_list_done(&list);
            return error_set(err, ERR_INVALID,
                             "%s:%d: `storage.allowed_host_paths`: '%s' must be the absolute path "
                             "of a directory other than /, without '.', '..', '//' and a final '/'",
                             section->name, toml_line(item), path != NULL ? path : "");
        }
        string_list_add(&list, path);
    }
    string_list_done(&config->allowed_host_paths);
    config->allowed_host_paths = list;
    return 0;
}

static int read_document(const struct toml *doc, const char *name, struct server_config *config,
                         struct error *err)
{
    static const struct {
        const char *title;
        int (*read)(const struct section *, struct server_config *, struct error *);
    } sections[] = {
        {"server", read_server},     {"log", read_log},         {"runtime", read_runtime},
        {"launcher", read_launcher}, {"network", read_network}, {"images", read_images},
        {"storage", read_storage},
    };
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        struct section section = {.doc = doc, .name = name, .title = sections[i].title};
        int r = find_section(doc, name, section.title, &section.table, err);
        if (r == 0 && section.table != NULL)
            r = sections[i].read(&section, config, err);
        if (r < 0)
            return r;
    }
    return toml_check_unused(doc, err);
}

int server_config_parse(struct server_config *config, const char *name, const char *text,
                        size_t length, struct error *err)
{
    struct toml *doc;
    int r = toml_parse(name, text, length, &doc, err);
    if (r < 0)
        return r;
    r = read_document(doc, name, config, err);
    toml_free(doc);
    return r;
}

int server_config_load(struct server_config *config, const char *path, struct error *err)
{
    struct buf text;
    buf_init(&text, TOML_MAX_BYTES);
    int r = file_read_at(AT_FDCWD, path, &text, err);
    if (r < 0)
        error_wrap(err, "cannot read the configuration");
    else
        r = server_config_parse(config, path, text.data, text.length, err);
    buf_done(&text);
    return r;
}
