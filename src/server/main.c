/* opensandbox-server: reads its configuration as root, makes its folders, finds or starts the
 * launcher, becomes an unprivileged user, confines itself, and only then opens keys, database and
 * sockets. Started by an ordinary user it stays that user, and so is the launcher. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/config.h"
#include "server/confine.h"
#include "server/key.h"
#include "server/launcher_start.h"
#include "server/privileges.h"
#include "server/server.h"
#include "server/state_dir.h"

#define VERSION "0.1.0"

static const char usage[] =
    "usage: opensandbox-server [options]\n"
    "\n"
    "Serves the sandbox lifecycle API. Started as root it gives root up; started by an ordinary\n"
    "user it offers what that user may do (opensandbox-launcher check says what).\n"
    "\n"
    "  --config FILE     TOML configuration (else $" SERVER_CONFIG_PATH_ENV ", else defaults)\n"
    "  --listen IP:PORT  where to listen; port 0 takes a free one (127.0.0.1:8080)\n"
    "  --state DIR       where everything is kept (/var/lib/opensandbox; an ordinary\n"
    "                    user's: $XDG_DATA_HOME/opensandbox or ~/.local/share/opensandbox)\n"
    "  --help            this text\n"
    "  --version         the version\n"
    "\n"
    "The API key comes from $" SERVER_CONFIG_API_KEY_ENV " or `server.api_key`; without either,\n"
    "one is made at the first start, printed once and kept in DIR/server/api-key.\n";

struct arguments {
    const char *config;
    const char *listen;
    const char *state;
};

/* 0 to go on, 1 when all is said, negative for a wrong command line. */
static int parse_arguments(int argc, char **argv, struct arguments *ret)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"listen", required_argument, NULL, 'l'},
        {"state", required_argument, NULL, 's'},  {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},      {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            ret->config = optarg;
            break;
        case 'l':
            ret->listen = optarg;
            break;
        case 's':
            ret->state = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        case 'v':
            puts("opensandbox-server " VERSION);
            return 1;
        default:
            fputs(usage, stderr);
            return -EINVAL;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "opensandbox-server: '%s' is not an option\n%s", argv[optind], usage);
        return -EINVAL;
    }
    return 0;
}

static int read_config(const struct arguments *arguments, struct server_config *config,
                       struct error *err)
{
    const char *path =
        arguments->config != NULL ? arguments->config : getenv(SERVER_CONFIG_PATH_ENV);
    const char *key = getenv(SERVER_CONFIG_API_KEY_ENV);
    int r = 0;
    if (path != NULL && path[0] != '\0')
        r = server_config_load(config, path, err);
    if (r == 0 && key != NULL) {
        r = server_config_set_api_key(config, key, err);
        if (r < 0)
            error_wrap(err, "$" SERVER_CONFIG_API_KEY_ENV);
    }
    if (r == 0 && arguments->listen != NULL)
        r = server_config_set_listen(config, arguments->listen, err);
    if (r == 0 && arguments->state != NULL)
        r = server_config_set_state_dir(config, arguments->state, err);
    return r;
}

/* The key to accept: the operator's, or the kept one, shown when it was just made. */
static int find_key(const struct server_config *config, char **ret, struct error *err)
{
    if (config->api_key != NULL) {
        *ret = mem_dup(config->api_key);
        return 0;
    }
    bool is_new = false;
    int r = server_key_load(config->state_dir, ret, &is_new, err);
    if (r == 0 && is_new) {
        printf("API key: %s\n", *ret);
        fflush(stdout);
    }
    return r;
}

/* What the rest of the process relies on: writing to a closed peer is an error number, and a
 * launcher that we started and that ends leaves no zombie. */
static void set_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    struct sigaction reap = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &reap, NULL);
}

static int serve(const struct server_config *config, const struct server_launcher_options *launcher,
                 int probe, struct error *err)
{
    AUTO_FREE char *command = server_launcher_command(launcher);
    AUTO_FREE char *socket = mem_printf("%s/%s", config->state_dir, SERVER_STATE_SOCKET);
    char *key = NULL;
    int r = find_key(config, &key, err);
    if (r < 0)
        return r;
    const struct server_run_options options = {
        .config = config,
        .api_key = key,
        .launcher_socket = socket,
        .launcher_command = command,
        .launcher_probe = probe,
    };
    r = server_run(&options, err);
    explicit_bzero(key, strlen(key));
    free(key);
    return r;
}

static int start(const struct server_config *config, struct error *err)
{
    bool root = geteuid() == 0;
    struct server_identity identity = {.uid = geteuid(), .gid = getegid()};
    int r = root ? server_privileges_find_user(config->user, &identity, err) : 0;
    if (r < 0)
        return r;
    if (config->state_dir == NULL)
        return error_set(
            err, ERR_INVALID,
            "there is neither XDG_DATA_HOME nor HOME to keep anything in; give --state");
    AUTO_CLOSE int lock =
        server_state_dir_prepare(config->state_dir, identity.uid, identity.gid, err);
    if (lock < 0)
        return lock;
    const struct server_launcher_options launcher = {
        .state_dir = config->state_dir,
        .server_uid = identity.uid,
        .slots = config->launcher_slots,
        .spare_s = config->launcher_spare_s,
        .network = config->network,
        .network_pool = config->network_pool,
        .dns = &config->dns,
        .images = &config->images,
        .allowed_host_paths = &config->allowed_host_paths,
        .log_level = config->log_level,
        .log_format = config->log_format,
    };
    int probe = server_launcher_ensure(&launcher, err);
    if (probe < 0)
        return probe;
    set_signals();
    umask(077); /* from here on every file is the server's own */
    r = root ? server_privileges_drop(&identity, err) : server_privileges_seal(err);
    if (r == 0)
        r = server_confine(config, err);
    return r < 0 ? r : serve(config, &launcher, probe, err);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    int r = parse_arguments(argc, argv, &arguments);
    if (r != 0)
        return r < 0 ? 2 : 0;
    umask(022);
    log_init("server", LOG_INFO, LOG_PEOPLE);
    struct server_config config;
    struct error err = ERROR_INIT;
    server_config_init(&config);
    r = read_config(&arguments, &config, &err);
    if (r == 0) {
        log_init("server", config.log_level, config.log_format);
        r = start(&config, &err);
    }
    if (r < 0)
        log_error("%s", err.message);
    server_config_done(&config);
    return r < 0 ? 1 : 0;
}
