#include "server/launcher_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "model/string_list.h"
#include "runtime/native/message.h"
#include "server/state_dir.h"

#define START_TIMEOUT_MS 10000
#define GREET_TIMEOUT_MS 5000
#define STEP_MS          20

#define LAUNCHER "opensandbox-launcher"
#define EXECD    "opensandbox-execd"

/* Say HELLO and wait for the answer: a launcher that is just ending may still accept connections,
 * but answers nothing; one that has answered a server does not end. */
static int greet(int fd)
{
    union message message;
    struct error err = ERROR_INIT;
    message_init(&message, MESSAGE_HELLO, 1);
    int r = message_send(fd, &message);
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    if (r == 0 && poll(&answer, 1, GREET_TIMEOUT_MS) <= 0)
        r = -ETIMEDOUT;
    if (r == 0)
        r = message_receive(fd, false, &message, &err);
    if (r == 1 && message.header.type == MESSAGE_WELCOME)
        return 0;
    return r < 0 && r != -EPIPE && r != -ECONNRESET ? r : -ECONNREFUSED;
}

/* A connection to a launcher that has answered, or -errno: -ENOENT and -ECONNREFUSED mean that
 * there is none. */
static int connect_launcher(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path));
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    int r = greet(fd);
    return r < 0 ? r : TAKE_FD(fd);
}

static bool is_absent(int connect_result)
{
    return connect_result == -ENOENT || connect_result == -ECONNREFUSED;
}

/* A launcher locks its folder for as long as it lives: one that holds the lock and does not answer
 * is just starting or just ending, and another could not start beside it. */
static bool is_locked(const char *state_dir)
{
    AUTO_FREE char *path = mem_printf("%s/launcher", state_dir);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Next to this program, else on PATH. NULL when in neither. */
static char *find_program(const char *name)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length > 0) {
        self[length] = '\0';
        *strrchr(self, '/') = '\0';
        char *path = mem_printf("%s/%s", self, name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    const char *dirs = getenv("PATH");
    while (dirs != NULL && *dirs != '\0') {
        size_t end = strcspn(dirs, ":");
        char *path = mem_printf("%.*s/%s", (int)end, dirs, name);
        if (path[0] == '/' && access(path, X_OK) == 0)
            return path;
        free(path);
        dirs += end + (dirs[end] == ':');
    }
    return NULL;
}

/* What is not configured is not said, so that the launcher's own defaults hold. */
static void add_network(const struct server_launcher_options *options, struct string_list *argv)
{
    if (options->network != SERVER_NETWORK_AUTO) {
        string_list_add(argv, "--network");
        string_list_add(argv, options->network == SERVER_NETWORK_NAT ? "nat" : "none");
    }
    if (options->network_pool != NULL) {
        string_list_add(argv, "--network-pool");
        string_list_add(argv, options->network_pool);
    }
    for (size_t i = 0; i < options->dns->count; i++) {
        string_list_add(argv, "--dns");
        string_list_add(argv, options->dns->items[i]);
    }
}

static void build_command(const struct server_launcher_options *options, const char *launcher,
                          const char *execd, struct string_list *argv)
{
    static const char *const levels[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
    string_list_add(argv, launcher);
    string_list_add(argv, "--listen");
    string_list_take(argv, mem_printf("%s/%s", options->state_dir, SERVER_STATE_SOCKET));
    string_list_add(argv, "--state");
    string_list_take(argv, mem_dup(options->state_dir));
    string_list_add(argv, "--execd");
    string_list_add(argv, execd);
    string_list_add(argv, "--server-uid");
    string_list_take(argv, mem_printf("%u", (unsigned)options->server_uid));
    if (options->slots >= 0) {
        string_list_add(argv, "--slots");
        string_list_take(argv, mem_printf("%d", options->slots));
    }
    if (options->spare_s >= 0) {
        string_list_add(argv, "--spare-seconds");
        string_list_take(argv, mem_printf("%d", options->spare_s));
    }
    add_network(options, argv);
    for (size_t i = 0; i < options->images->names.count; i++) {
        string_list_add(argv, "--image");
        string_list_take(argv, mem_printf("%s=%s", options->images->names.items[i],
                                          options->images->items[i].path));
    }
    for (size_t i = 0; i < options->allowed_host_paths->count; i++) {
        string_list_add(argv, "--allow-host-path");
        string_list_add(argv, options->allowed_host_paths->items[i]);
    }
    string_list_add(argv, "--log-level");
    string_list_add(argv, levels[options->log_level]);
    string_list_add(argv, "--log-format");
    string_list_add(argv, options->log_format == LOG_JSON ? "json" : "text");
}

char *server_launcher_command(const struct server_launcher_options *options)
{
    AUTO_FREE char *launcher = find_program(LAUNCHER);
    AUTO_FREE char *execd = find_program(EXECD);
    struct string_list argv = {0};
    build_command(options, launcher != NULL ? launcher : LAUNCHER, execd != NULL ? execd : EXECD,
                  &argv);
    char *command = mem_dup("");
    for (size_t i = 0; i < argv.count; i++) {
        char *longer = mem_printf("%s%s%s", command, i > 0 ? " " : "", argv.items[i]);
        free(command);
        command = longer;
    }
    string_list_done(&argv);
    return command;
}

/* In the child. Only the log (stderr) is shared with us; the environment, which may hold the API
 * key, is not. */
static void exec_launcher(char *const argv[])
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *const environment[] = {path, NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (setsid() < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(127);
    execve(argv[0], argv, environment);
    _exit(127);
}

/* Wait for the socket to answer, or for the launcher to end. The wait is on its pidfd, so that a
 * launcher which cannot start is reported at once. */
static int wait_until_ready(pid_t pid, const char *socket_path, struct error *err)
{
    AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return error_set_errno(err, errno, "cannot watch the launcher");
    for (int waited_ms = 0; waited_ms < START_TIMEOUT_MS; waited_ms += STEP_MS) {
        int fd = connect_launcher(socket_path);
        if (fd >= 0)
            return fd;
        struct pollfd ended = {.fd = pidfd, .events = POLLIN};
        if (poll(&ended, 1, STEP_MS) <= 0)
            continue;
        int status = 0;
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status))
            return error_set(err, ERR_UNAVAILABLE, "it was killed by signal %d", WTERMSIG(status));
        return error_set(err, ERR_UNAVAILABLE, "it ended with status %d; its own message is above",
                         WEXITSTATUS(status));
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return error_set(err, ERR_TIMEOUT, "it did not answer within %d seconds",
                     START_TIMEOUT_MS / 1000);
}

static int start(const struct server_launcher_options *options, const char *socket_path,
                 struct error *err)
{
    AUTO_FREE char *launcher = find_program(LAUNCHER);
    AUTO_FREE char *execd = find_program(EXECD);
    if (launcher == NULL || execd == NULL)
        return error_set(err, ERR_NOT_FOUND,
                         "%s is neither next to opensandbox-server nor on PATH; install it there",
                         launcher == NULL ? LAUNCHER : EXECD);
    struct string_list argv = {0};
    build_command(options, launcher, execd, &argv);
    pid_t pid = fork();
    if (pid == 0)
        exec_launcher(argv.items);
    int fork_errno = errno;
    string_list_done(&argv);
    if (pid < 0)
        return error_set_errno(err, fork_errno, "cannot start %s", launcher);
    int r = wait_until_ready(pid, socket_path, err);
    return r < 0 ? error_wrap(err, "cannot start %s", launcher) : r;
}

int server_launcher_ensure(const struct server_launcher_options *options, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/%s", options->state_dir, SERVER_STATE_SOCKET);
    for (int waited_ms = 0; waited_ms < START_TIMEOUT_MS; waited_ms += STEP_MS) {
        int fd = connect_launcher(path);
        if (fd >= 0)
            return fd;
        if (!is_absent(fd))
            return error_set_errno(err, -fd, "cannot talk to the launcher at %s", path);
        if (!is_locked(options->state_dir))
            return start(options, path, err);
        poll(NULL, 0, STEP_MS);
    }
    return error_set(err, ERR_TIMEOUT,
                     "a launcher holds %s/launcher, but does not answer at %s; end it",
                     options->state_dir, path);
}
