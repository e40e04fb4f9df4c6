#include "launcher/options.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/id.h"
#include "base/macros.h"
#include "base/str.h"
#include "launcher/weaken.h"

#define MEMORY_PER_SLOT (384ull << 20)
#define SOCKET_PATH_MAX 107 /* of a unix socket, without NUL */
/* <state>/run/<uuid>.sock */
#define STATE_PATH_MAX (SOCKET_PATH_MAX - (int)sizeof("/run/") - ID_UUID_LEN - (int)sizeof(".sock"))

const char options_usage[] =
    "usage: opensandbox-launcher --listen SOCKET --state DIR --execd FILE [options]\n"
    "       opensandbox-launcher check [--state DIR] [--cgroup-parent NAME] [-o json]\n"
    "\n"
    "The privileged helper of opensandbox-server: makes and removes sandboxes.\n"
    "With `check` it only says what this machine offers for that; see check --help.\n"
    "\n"
    "  --listen SOCKET       serve on this unix socket (SOCK_SEQPACKET)\n"
    "  --fd N                serve the connected socket inherited as descriptor N instead\n"
    "  --state DIR           where sandboxes live, an absolute path\n"
    "  --execd FILE          the program that becomes process 1 of every sandbox\n"
    "  --server-uid N        user id the server runs as (default: our own)\n"
    "  --image NAME=DIR      an image: the root file system in this directory of root's "
    "(repeatable)\n"
    "  --allow-host-path DIR sandboxes may be given what is in this directory (repeatable)\n"
    "  --slots N             prepared sandboxes to keep waiting, 0 to 64 (default: 4 to 64, one "
    "for\n"
    "                        each 384 MiB of memory)\n"
    "  --meter-seconds N     read the memory of each sandbox so often, 0 to 3600; 0: only when a\n"
    "                        server asks (default: 5)\n"
    "  --make-seconds N      give up on a sandbox that is not made within this time, 1 to 3600\n"
    "                        (default: 30)\n"
    "  --spare-seconds N     keep networks and control groups of removed sandboxes for so long, "
    "for\n"
    "                        new ones; 0 to 3600, 0: not at all (default: 10)\n"
    "  --network MODE        auto, nat or none: the network sandboxes can have besides none; "
    "auto:\n"
    "                        nat where this machine allows it; nat: or do not start (default: "
    "auto)\n"
    "  --network-pool NET    IPv4 addresses for sandboxes, as ADDRESS/BITS with 8 to 28 bits; must "
    "be\n"
    "                        nobody else's (default: " OPTIONS_POOL_DEFAULT ")\n"
    "  --dns ADDRESS         a name server for sandboxes, IPv4 (up to three; default: the "
    "host's)\n"
    "  --cgroup-parent NAME  make our control group below this one\n"
    "  --quick-moves Y       yes or no: have the kernel move processes between control\n"
    "                        groups without delay, for the whole machine (default: yes)\n"
    "  --log-format F        text or json (default: text)\n"
    "  --log-level L         debug, info, warn or error (default: info)\n"
    "  --help, --version\n";

static int set_number_from(const char *name, const char *value, uint64_t min, uint64_t max,
                           uint64_t *ret, struct error *err)
{
    if (str_to_u64(value, min, max, ret) < 0)
        return error_set(err, ERR_INVALID, "%s '%s' is not a number from %llu to %llu", name, value,
                         (unsigned long long)min, (unsigned long long)max);
    return 0;
}

static int set_number(const char *name, const char *value, uint64_t max, uint64_t *ret,
                      struct error *err)
{
    return set_number_from(name, value, 0, max, ret, err);
}

/* A relative path of plain names: it is joined to the cgroup mount points. */
bool options_is_group_path(const char *path)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-/:@";
    size_t length = strlen(path);
    return length > 0 && length < 256 && strspn(path, allowed) == length && path[0] != '/' &&
           path[0] != '.' && strstr(path, "/.") == NULL && strstr(path, "//") == NULL &&
           path[length - 1] != '/';
}

static int set_option(struct options *options, const char *name, const char *value,
                      struct error *err)
{
    uint64_t number = 0;
    int r = 0;
    if (str_equal(name, "--listen")) {
        options->listen_path = value;
    } else if (str_equal(name, "--state")) {
        options->state_dir = value;
    } else if (str_equal(name, "--execd")) {
        options->execd = value;
    } else if (str_equal(name, "--fd")) {
        r = set_number(name, value, INT_MAX, &number, err);
        options->fd = (int)number;
    } else if (str_equal(name, "--server-uid")) {
        r = set_number(name, value, UINT32_MAX - 1, &number, err);
        options->server_uid = (uint32_t)number;
    } else if (str_equal(name, "--slots")) {
        r = set_number(name, value, OPTIONS_SLOTS_MAX, &number, err);
        options->slots = (unsigned)number;
    } else if (str_equal(name, "--image")) {
        r = images_add(&options->images, value, err);
    } else if (str_equal(name, "--allow-host-path")) {
        r = volume_allow(&options->allowed, value, err);
        if (r < 0)
            error_wrap(err, "%s", name);
    } else if (str_equal(name, "--meter-seconds")) {
        r = set_number(name, value, OPTIONS_METER_MAX, &number, err);
        options->meter_s = (unsigned)number;
    } else if (str_equal(name, "--make-seconds")) {
        r = set_number_from(name, value, 1, OPTIONS_MAKE_MAX, &number, err);
        options->make_s = (unsigned)number;
    } else if (str_equal(name, "--spare-seconds")) {
        r = set_number(name, value, OPTIONS_SPARE_MAX, &number, err);
        options->spare_s = (unsigned)number;
    } else if (str_equal(name, "--cgroup-parent")) {
        options->cgroup_parent = value;
        if (!options_is_group_path(value))
            r = error_set(err, ERR_INVALID, "--cgroup-parent '%s' is not a relative group path",
                          value);
    } else if (str_equal(name, "--quick-moves")) {
        options->quick_moves = str_equal(value, "yes");
        if (!options->quick_moves && !str_equal(value, "no"))
            r = error_set(err, ERR_INVALID, "--quick-moves '%s' is neither yes nor no", value);
    } else if (str_equal(name, "--log-format")) {
        if (log_format_parse(value, &options->log_format) < 0)
            r = error_set(err, ERR_INVALID, "--log-format '%s' is neither text nor json", value);
    } else if (str_equal(name, "--log-level")) {
        if (log_level_parse(value, &options->log_level) < 0)
            r = error_set(err, ERR_INVALID, "--log-level '%s' is not debug, info, warn or error",
                          value);
#ifdef OSB_WEAKEN
    } else if (str_equal(name, "--weaken")) {
        r = weaken_parse(value, err);
#endif
    } else {
        r = options_set_network(options, name, value, err);
        if (r == 1)
            r = error_set(err, ERR_INVALID, "unknown option '%s'; see --help", name);
    }
    return r;
}

static int check(const struct options *options, struct error *err)
{
    if ((options->listen_path == NULL) == (options->fd < 0))
        return error_set(err, ERR_INVALID, "give either --listen SOCKET or --fd N");
    if (options->state_dir == NULL || options->execd == NULL)
        return error_set(err, ERR_INVALID, "--state DIR and --execd FILE are needed");
    if (options->state_dir[0] != '/')
        return error_set(err, ERR_INVALID, "--state '%s' is not an absolute path",
                         options->state_dir);
    if (strlen(options->state_dir) > STATE_PATH_MAX)
        return error_set(err, ERR_INVALID,
                         "--state '%s' is longer than %d characters, which leaves no room for the "
                         "sockets in it",
                         options->state_dir, STATE_PATH_MAX);
    if (options->listen_path != NULL && strlen(options->listen_path) > SOCKET_PATH_MAX)
        return error_set(err, ERR_INVALID, "--listen '%s' is longer than %d characters",
                         options->listen_path, SOCKET_PATH_MAX);
    return 0;
}

unsigned options_default_slots(uint64_t memory_bytes)
{
    uint64_t slots = memory_bytes / MEMORY_PER_SLOT;
    return (unsigned)MIN(MAX(slots, (uint64_t)OPTIONS_SLOTS_MIN), (uint64_t)OPTIONS_SLOTS_MAX);
}

static uint64_t memory_bytes(void)
{
    struct sysinfo info;
    return sysinfo(&info) < 0 ? 0 : (uint64_t)info.totalram * info.mem_unit;
}

int options_parse(int argc, char **argv, struct options *ret, struct error *err)
{
    struct options options = {
        .fd = -1,
        .server_uid = geteuid(),
        .slots = options_default_slots(memory_bytes()),
        .meter_s = OPTIONS_METER_DEFAULT,
        .make_s = OPTIONS_MAKE_DEFAULT,
        .spare_s = OPTIONS_SPARE_DEFAULT,
        .quick_moves = true,
        .log_format = LOG_PEOPLE,
        .log_level = LOG_INFO,
    };
    options_default_network(&options);
    for (int i = 1; i < argc; i += 2) {
        if (str_equal(argv[i], "--help") || str_equal(argv[i], "--version")) {
            options.help = str_equal(argv[i], "--help");
            options.version = !options.help;
            *ret = options;
            return 0;
        }
        if (!str_starts_with(argv[i], "--"))
            return error_set(err, ERR_INVALID, "unexpected argument '%s'; see --help", argv[i]);
        if (i + 1 >= argc)
            return error_set(err, ERR_INVALID, "'%s' needs a value, or is unknown; see --help",
                             argv[i]);
        int r = set_option(&options, argv[i], argv[i + 1], err);
        if (r < 0)
            return r;
    }
    int r = check(&options, err);
    if (r == 0)
        *ret = options;
    return r;
}
