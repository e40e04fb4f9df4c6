#include "launcher/userns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/idrange.h"
#include "launcher/record.h"
#include "launcher/subids.h"

#define IDS_MIN   (IDRANGE_SIZE - 1) /* as powers.c */
#define NUMBER    12
#define WORDS_MAX (5 + 3 * SUBIDS_MAX)

static const char *const tools[] = {"newuidmap", "newgidmap"};
static const char *const files[] = {"/etc/subuid", "/etc/subgid"};

/* --- the ids there are ------------------------------------------------------------------------ */

static bool find_tool(const char *name, char ret[64])
{
    static const char *const places[] = {"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(ret, 64, "%s/%s", places[i], name);
        if (access(ret, X_OK) == 0)
            return true;
    }
    return false;
}

/* Only from the file: a name service may ask a network, and this program does not. */
static char *find_name(uint32_t user)
{
    FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *entry = NULL;
    while (file != NULL && (entry = fgetpwent(file)) != NULL && entry->pw_uid != user)
        ;
    char *name = entry != NULL ? mem_dup(entry->pw_name) : NULL;
    if (file != NULL)
        fclose(file);
    return name;
}

static void find_ids(uint32_t user, struct subids ret[2])
{
    AUTO_FREE char *name = find_name(user);
    for (int i = 0; i < 2; i++)
        subids_read(files[i], name, user, &ret[i]);
}

void userns_why_one_id(uint32_t user, char ret[USERNS_REASON_MAX])
{
    struct subids ids[2];
    char path[64];
    find_ids(user, ids);
    for (int i = 0; i < 2; i++) {
        if (!find_tool(tools[i], path)) {
            snprintf(ret, USERNS_REASON_MAX, "%s is not installed (package uidmap)", tools[i]);
            return;
        }
        if (ids[i].total < IDS_MIN) {
            snprintf(ret, USERNS_REASON_MAX, "%s gives user %u %llu ids and %u are needed",
                     files[i], user, (unsigned long long)ids[i].total, IDS_MIN);
            return;
        }
    }
    snprintf(ret, USERNS_REASON_MAX, "the launcher's user namespace maps one id");
}

/* --- what stands in the way ------------------------------------------------------------------- */

static bool read_setting(const char *path, char ret[NUMBER])
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 64);
    if (file_read_at(AT_FDCWD, path, &text, NULL) < 0 || text.length == 0)
        return false;
    snprintf(ret, NUMBER, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    return true;
}

void userns_obstacle(char ret[USERNS_REASON_MAX])
{
    static const struct {
        const char *path, *name, *bad, *good;
    } settings[] = {
        {"/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", "0", "65536"},
        {"/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", "0",
         "1"},
        {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
         "kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
    };
    ret[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        char value[NUMBER];
        if (!read_setting(settings[i].path, value) || !str_equal(value, settings[i].bad))
            continue;
        snprintf(ret, USERNS_REASON_MAX, "%s is %s here; as root: sysctl -w %s=%s",
                 settings[i].name, value, settings[i].name, settings[i].good);
        return;
    }
}

static int refused(int sys, struct error *err)
{
    char obstacle[USERNS_REASON_MAX];
    userns_obstacle(obstacle);
    if (obstacle[0] != '\0')
        return error_set(err, ERR_DENIED, "cannot make a user namespace: %s (%s)", strerror(sys),
                         obstacle);
    return error_set(err, ERR_DENIED,
                     "cannot make a user namespace: %s; it is refused in a plain chroot, by some "
                     "containers and by some security modules. Start the launcher as root, or "
                     "outside of them",
                     strerror(sys));
}

/* --- a new one -------------------------------------------------------------------------------- */

/* "newuidmap PID 0 1000 1 1 100000 65536". The words point into `room`. */
static void run_tool(int kind, pid_t pid, uint32_t own, const struct subids *ids)
{
    static char path[64], room[WORDS_MAX][NUMBER];
    char *argv[WORDS_MAX + 1] = {path};
    unsigned count = 0;
    uint32_t inner = 1;
    uint32_t words[WORDS_MAX] = {(uint32_t)pid, 0, own, 1};
    unsigned number = 4;
    for (unsigned i = 0; i < ids->count; i++) {
        words[number++] = inner;
        words[number++] = ids->items[i].first;
        words[number++] = ids->items[i].count;
        inner += ids->items[i].count;
    }
    for (; count < number; count++) {
        snprintf(room[count], NUMBER, "%u", words[count]);
        argv[1 + count] = room[count];
    }
    static char *const environment[] = {NULL};
    if (find_tool(tools[kind], path))
        execve(path, argv, environment);
    _exit(127);
}

/* Whoever writes the map must be outside: a child that stays there. It runs the second tool only if
 * the first has succeeded, so that nothing is mapped or everything, short of an accident. */
static NORETURN void map_from_outside(int go, pid_t pid, const struct subids ids[2])
{
    char byte;
    int status = 1;
    if (read(go, &byte, 1) != 1)
        _exit(1);
    for (int kind = 1; kind >= 0; kind--) {
        pid_t tool = fork();
        if (tool == 0)
            run_tool(kind, pid, kind == 0 ? getuid() : getgid(), &ids[kind]);
        if (tool < 0 || waitpid(tool, &status, 0) < 0 || status != 0)
            _exit(kind == 1 ? 1 : 2);
    }
    _exit(0);
}

static int write_file(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
}

static int map_one(uid_t user, gid_t group, struct error *err)
{
    char users[32], groups[32];
    snprintf(users, sizeof(users), "0 %u 1", (unsigned)user);
    snprintf(groups, sizeof(groups), "0 %u 1", (unsigned)group);
    int r = write_file("/proc/self/setgroups", "deny");
    if (r == 0)
        r = write_file("/proc/self/uid_map", users);
    if (r == 0)
        r = write_file("/proc/self/gid_map", groups);
    return r < 0 ? refused(-r, err) : 0;
}

/* 0, or 1 when nothing could be mapped and the namespace is as new. */
static int map_many(pid_t mapper, int go, struct error *err)
{
    int status = 0;
    ssize_t written = write(go, "", 1);
    while (waitpid(mapper, &status, 0) < 0 && errno == EINTR)
        ;
    if (written == 1 && WIFEXITED(status) && WEXITSTATUS(status) < 2)
        return WEXITSTATUS(status);
    return error_set(err, ERR_INTERNAL, "%s has mapped group ids, but %s fails", tools[1],
                     tools[0]);
}

static int make(struct error *err)
{
    struct subids ids[2];
    uid_t user = geteuid();
    gid_t group = getegid();
    char path[64];
    int go[2];
    find_ids(user, ids);
    bool many = ids[0].total >= IDS_MIN && ids[1].total >= IDS_MIN && find_tool(tools[0], path) &&
                find_tool(tools[1], path);
    if (pipe2(go, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot make a pipe");
    AUTO_CLOSE int go_read = go[0], go_write = go[1];
    pid_t self = getpid();
    pid_t mapper = many ? fork() : 0;
    if (mapper == 0 && many) {
        fd_close(TAKE_FD(go_write));
        map_from_outside(go_read, self, ids);
    }
    if (mapper < 0)
        return error_set_errno(err, errno, "cannot make a process");
    if (unshare(CLONE_NEWUSER) < 0) {
        int sys = errno;
        fd_close(TAKE_FD(go_write));
        if (many)
            waitpid(mapper, NULL, 0);
        return refused(sys, err);
    }
    int r = many ? map_many(mapper, go_write, err) : 1;
    return r == 1 ? map_one(user, group, err) : r;
}

/* --- that of a former launcher ---------------------------------------------------------------- */

/* The namespace around that of a process. Its own is opened by number: the pidfd tells afterwards
 * that the number was still the process's. */
static int open_outer(pid_t pid, int pidfd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    AUTO_CLOSE int inner = open(path, O_RDONLY | O_CLOEXEC);
    if (inner < 0)
        return -errno;
    if (process_signal(pidfd, 0) == -ESRCH)
        return -ESRCH;
    int outer = ioctl(inner, NS_GET_PARENT);
    return outer < 0 ? -errno : outer;
}

/* 1: entered, 0: there is none. What cannot be read or entered is told later, by who adopts it. */
static int join_one(int sandboxes_fd, const char *name, const char *boot_id)
{
    struct record record;
    AUTO_CLOSE int dir =
        openat(sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || record_read(dir, &record, NULL) < 0)
        return 0;
    AUTO_CLOSE int pidfd = record_open_process(&record, boot_id);
    if (pidfd < 0)
        return 0;
    AUTO_CLOSE int outer = open_outer(record.pid, pidfd);
    return outer >= 0 && setns(outer, CLONE_NEWUSER) == 0;
}

static int join_any(const char *state_dir, const char *name, const char *boot_id)
{
    AUTO_FREE char *path = mem_printf("%s/launcher/%s", state_dir, name);
    DIR *dir = opendir(path);
    int joined = 0;
    struct dirent *entry;
    if (dir == NULL)
        return 0;
    while (joined == 0 && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.')
            joined = join_one(dirfd(dir), entry->d_name, boot_id);
    }
    closedir(dir);
    return joined;
}

/* Also of one that was being removed: it is to be killed. */
static int join(const char *state_dir)
{
    char boot_id[PROCESS_BOOT_ID_LEN + 1];
    if (process_boot_id(boot_id) < 0)
        return 0;
    int joined = join_any(state_dir, "sandboxes", boot_id);
    return joined != 0 ? joined : join_any(state_dir, "loose", boot_id);
}

int userns_enter(const char *state_dir, char *const argv[], struct error *err)
{
    int r = state_dir != NULL ? join(state_dir) : 0;
    if (r == 0)
        r = make(err);
    if (r < 0)
        return r;
    if (geteuid() != 0)
        return error_set(err, ERR_INTERNAL, "the user namespace maps us to user %u, not to root",
                         (unsigned)geteuid());
    execv("/proc/self/exe", argv);
    return error_set_errno(err, errno, "cannot execute the launcher again");
}
