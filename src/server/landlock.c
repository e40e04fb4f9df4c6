/* Not restricted:
 *   - connecting to unix sockets by name: the launcher and every sandbox are reached like that;
 *   - connecting by TCP: sockets that the launcher makes inside a sandbox's network are connected
 *     by us, to ports that nobody knows before, and Landlock does not tell networks apart. */
#include "server/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/state_dir.h"

/* The kernel's numbers; headers that we are built with may be older than the kernel. */
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_REG = 1 << 8,
    FS_ABI_1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,                  /* ABI 2 */
    FS_TRUNCATE = 1 << 14,               /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15,              /* ABI 5 */
    NET_BIND_TCP = 1 << 0,               /* ABI 4 */
    SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0, /* ABI 6 */
    SCOPE_SIGNAL = 1 << 1,               /* ABI 6 */
    CREATE_RULESET_VERSION = 1 << 0,
    RULE_PATH_BENEATH = 1,
    RULE_NET_PORT = 2,
};

struct ruleset {
    uint64_t handled_access_fs;
    uint64_t handled_access_net; /* ABI 4 */
    uint64_t scoped;             /* ABI 6 */
};

struct path_rule {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct port_rule {
    uint64_t allowed_access;
    uint64_t port;
};

/* Single files that are read after the start. Those that are missing stay closed. */
static const char *const readable[] = {
    "/dev/urandom",   /* SQLite's random numbers */
    "/dev/null",      /* libuv keeps it open for the moment when descriptors run out */
    "/etc/localtime", /* the log's times */
#if defined(__SANITIZE_ADDRESS__)
    "/proc", /* LeakSanitizer looks at the process's own memory map and threads */
#endif
};

static int find_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t file_access(int abi)
{
    uint64_t access = FS_ABI_1;
    if (abi >= 2)
        access |= FS_REFER;
    if (abi >= 3)
        access |= FS_TRUNCATE;
    if (abi >= 5)
        access |= FS_IOCTL_DEV;
    return access;
}

static int make_ruleset(int abi, struct error *err)
{
    struct ruleset ruleset = {.handled_access_fs = file_access(abi)};
    size_t size = sizeof(ruleset.handled_access_fs); /* what the kernel knows, and no more */
    if (abi >= 4) {
        ruleset.handled_access_net = NET_BIND_TCP;
        size += sizeof(ruleset.handled_access_net);
    }
    if (abi >= 6) {
        ruleset.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
        size += sizeof(ruleset.scoped);
    }
    int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, size, 0);
    return fd < 0 ? error_set_errno(err, errno, "cannot make a Landlock ruleset") : fd;
}

static int allow_path(int ruleset, const char *path, uint64_t access, struct error *err)
{
    AUTO_CLOSE int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    if (!S_ISDIR(st.st_mode))
        access &= FS_READ_FILE; /* the others are for directories; the kernel insists */
    struct path_rule rule = {.allowed_access = access, .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
        return error_set_errno(err, errno, "cannot allow %s", path);
    return 0;
}

static int allow_port(int ruleset, int port, struct error *err)
{
    struct port_rule rule = {.allowed_access = NET_BIND_TCP, .port = (uint64_t)port};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) < 0)
        return error_set_errno(err, errno, "cannot allow port %d", port);
    return 0;
}

static int add_rules(int ruleset, int abi, const struct server_landlock_options *options,
                     struct error *err)
{
    /* The database, its log and index, the key: made, replaced and removed in one directory. */
    const uint64_t own =
        FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_MAKE_REG | FS_REMOVE_FILE | FS_TRUNCATE;
    AUTO_FREE char *path = mem_printf("%s/%s", options->state_dir, SERVER_STATE_OWN);
    int r = allow_path(ruleset, path, own & file_access(abi), err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(readable); i++)
        if (access(readable[i], F_OK) == 0)
            r = allow_path(ruleset, readable[i], FS_READ_FILE | FS_READ_DIR, err);
    if (r == 0 && abi >= 4)
        r = allow_port(ruleset, options->port, err);
    return r;
}

int server_landlock_restrict(const struct server_landlock_options *options, int *ret_abi,
                             struct error *err)
{
    int abi = find_abi();
    *ret_abi = abi;
    if (abi == 0)
        return 0;
    AUTO_CLOSE int ruleset = make_ruleset(abi, err);
    if (ruleset < 0)
        return ruleset;
    int r = add_rules(ruleset, abi, options, err);
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = error_set_errno(err, errno, "cannot restrict the process");
    return r;
}

const char *server_landlock_describe(int abi)
{
    if (abi >= 6)
        return "files, listening, signals and abstract sockets";
    if (abi >= 4)
        return "files and listening";
    return abi >= 1 ? "files" : "nothing";
}
