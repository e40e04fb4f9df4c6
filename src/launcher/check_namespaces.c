/* Probes: namespaces of each kind, and the ids sandboxes live on. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/check_probe.h"
#include "launcher/idrange.h"
#include "launcher/private_root.h"
#include "launcher/userns.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define ID_FILE_MAX (16u << 20)
#define ADD_IDS                                                                                \
    "install the package uidmap and, as root, give the user ids: lines \"%u:FIRST:COUNT\" in " \
    "/etc/subuid and \"%u:FIRST:COUNT\" in /etc/subgid"

/* Who is not root can only try inside a user namespace of his own. */
static void try_namespace(const struct check_context *context, struct check_result *result,
                          int flag, const char *name)
{
    bool root = context->root || context->rootless;
    if (unshare(root ? flag : flag | CLONE_NEWUSER) < 0) {
        check_say_outcome(context, result, -errno, name);
        return;
    }
    check_say(result, CHECK_YES, "%s: works%s", name,
              context->root ? "" : "; inside a user namespace of one's own");
}

/* As the launcher does it, from within a plain chroot too. */
static void probe_mount(const struct check_context *context, struct check_result *result)
{
    struct error err = ERROR_INIT;
    if (!context->root && !context->rootless)
        try_namespace(context, result, CLONE_NEWNS, "unshare(CLONE_NEWNS)");
    else if (private_root_enter(&err) < 0)
        check_say(result, CHECK_NO, "%s", err.message);
    else
        check_say(result, CHECK_YES, "a mount namespace with a root of its own: works");
}

static void probe_pid(const struct check_context *context, struct check_result *result)
{
    try_namespace(context, result, CLONE_NEWPID, "unshare(CLONE_NEWPID)");
}

static void probe_ipc(const struct check_context *context, struct check_result *result)
{
    try_namespace(context, result, CLONE_NEWIPC, "unshare(CLONE_NEWIPC)");
}

static void probe_uts(const struct check_context *context, struct check_result *result)
{
    try_namespace(context, result, CLONE_NEWUTS, "unshare(CLONE_NEWUTS)");
}

static void probe_net(const struct check_context *context, struct check_result *result)
{
    try_namespace(context, result, CLONE_NEWNET, "unshare(CLONE_NEWNET)");
}

static void probe_cgroup(const struct check_context *context, struct check_result *result)
{
    try_namespace(context, result, CLONE_NEWCGROUP, "unshare(CLONE_NEWCGROUP)");
}

static void probe_time(const struct check_context *context, struct check_result *result)
{
    try_namespace(context, result, CLONE_NEWTIME, "unshare(CLONE_NEWTIME)");
}

static void probe_user(const struct check_context *context, struct check_result *result)
{
    struct error err = ERROR_INIT;
    if (context->root || context->rootless)
        (void)private_root_enter(&err); /* a plain chroot would be refused; has its own probe */
    try_namespace(context, result, CLONE_NEWUSER, "unshare(CLONE_NEWUSER)");
}

static int write_map(pid_t pid, const char *file, const struct powers *powers)
{
    char path[64], map[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    snprintf(map, sizeof(map), "0 %u %u", powers_first_id(powers, 0), powers->ids_each);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : file_write_all(fd, map, strlen(map));
}

static int open_namespace(pid_t pid, const struct powers *powers, int *ret_fd)
{
    int r = write_map(pid, "uid_map", powers);
    if (r == 0)
        r = write_map(pid, "gid_map", powers);
    if (r < 0)
        return r;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

/* Until the end of the pipe, which comes with the end of who made us. */
NORETURN static void hold_namespace(int report_fd, int hold_fd)
{
    int answer = unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
    char nothing;
    int r = file_write_all(report_fd, &answer, sizeof(answer));
    while (r == 0 && read(hold_fd, &nothing, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

int check_user_namespace(const struct powers *powers, int *ret_fd)
{
    struct error err = ERROR_INIT;
    int report[2], hold[2], answer;
    (void)private_root_enter(&err);
    if (pipe2(report, O_CLOEXEC) < 0 || pipe2(hold, O_CLOEXEC) < 0)
        return -errno;
    AUTO_CLOSE int report_read = report[0], report_write = report[1];
    AUTO_CLOSE int hold_read = hold[0], hold_write = hold[1];
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        fd_close(hold_write);
        hold_namespace(report_write, hold_read);
    }
    fd_close(TAKE_FD(report_write));
    if (read(report_read, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
        answer = -EIO;
    int r = answer < 0 ? answer : open_namespace(pid, powers, ret_fd);
    fd_close(TAKE_FD(hold_write));
    (void)waitpid(pid, NULL, 0);
    return r;
}

static void probe_id_map(const struct check_context *context, struct check_result *result)
{
    AUTO_CLOSE int fd = -1;
    const struct powers *powers = &context->powers;
    if (!context->root && !context->rootless) {
        check_say(result, CHECK_UNKNOWN, "mapping a range of ids: only root can try it");
        return;
    }
    char what[64], why[USERNS_REASON_MAX];
    uint32_t first = powers_first_id(powers, 0);
    snprintf(what, sizeof(what), "mapping the ids %u to %u", first, first + powers->ids_each - 1);
    check_say_outcome(context, result, check_user_namespace(powers, &fd), what);
    if (result->found != CHECK_YES || powers->ids_each > 1)
        return;
    userns_why_one_id(powers->user, why);
    check_say(result, CHECK_PARTLY, "%s", why);
    check_effect(result, "there is one user inside, root");
    check_advice(result, ADD_IDS, powers->user, powers->user);
}

static void probe_own_ranges(const struct check_context *context, struct check_result *result)
{
    const struct powers *powers = &context->powers;
    if (powers->id_ranges > 1) {
        check_say(result, CHECK_YES, "%u ranges of %u subordinate ids", powers->id_ranges,
                  powers->ids_each);
        check_effect(result, "each sandbox has ids of its own, up to %u sandboxes and slots",
                     powers->id_ranges - 1);
        return;
    }
    check_say(result, CHECK_PARTLY,
              "subordinate ids for one range; with %llu each sandbox has its own",
              (unsigned long long)POWERS_RANGES_MIN * IDRANGE_SIZE);
    if (powers->ids_each == 1)
        check_say(result, CHECK_PARTLY, "there is one id");
    check_effect(result, "all sandboxes have the same ids outside");
    check_advice(result, ADD_IDS, powers->user, powers->user);
}

/* Only what is in files can be seen; directories of users in a network cannot. */
static void probe_id_ranges(const struct check_context *context, struct check_result *result)
{
    if (context->rootless) {
        probe_own_ranges(context, result);
        return;
    }
    static const struct {
        const char *path;
        bool subordinate;
    } files[] = {{"/etc/passwd", false},
                 {"/etc/group", false},
                 {"/etc/subuid", true},
                 {"/etc/subgid", true}};
    uint64_t first = idrange_base(0), last = first + (uint64_t)IDRANGE_COUNT * IDRANGE_SIZE - 1;
    check_say(result, CHECK_YES, "ids %" PRIu64 " to %" PRIu64 "", first, last);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char name[64];
        CLEANUP(buf_done) struct buf text;
        buf_init(&text, ID_FILE_MAX);
        if (check_read(files[i].path, &text) < 0)
            continue;
        unsigned count =
            check_parse_ids(text.data, files[i].subordinate, first, last, name, sizeof(name));
        if (count > 0) {
            check_say(result, CHECK_PARTLY,
                      "%u lines of %s (the first is '%s') reach into the ids %" PRIu64
                      " to %" PRIu64,
                      count, files[i].path, name, first, last);
            check_effect(result, "sandboxes may be given ids that others have");
            return;
        }
    }
}

/* The settings that forbid namespaces, and how many sandboxes they leave room for. */
static void probe_settings(const struct check_context *context, struct check_result *result)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"};
    uint64_t least = UINT64_MAX, value;
    const char *which = "user";
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", kinds[i]);
        if (check_read_number(path, &value) == 0 && value < least) {
            least = value;
            which = kinds[i];
        }
    }
    check_say(result, least > 0 ? CHECK_YES : CHECK_NO, "user.max_%s_namespaces is %" PRIu64, which,
              least);
    if (least == UINT64_MAX)
        check_say(result, CHECK_UNKNOWN, "/proc/sys/user cannot be read");
    else if (least > 0)
        check_effect(result, "room for %" PRIu64 " sandboxes and slots", least);
    if (least == 0)
        check_advice(result, "sysctl -w user.max_%s_namespaces=65536", which);
    if (context->root || context->rootless || least == 0)
        return;
    if (check_read_number("/proc/sys/kernel/unprivileged_userns_clone", &value) == 0 && value == 0)
        check_say(result, CHECK_NO, "kernel.unprivileged_userns_clone is 0");
    if (check_read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", &value) == 0 &&
        value == 1)
        check_say(result, CHECK_NO, "kernel.apparmor_restrict_unprivileged_userns is 1");
}

#define SECTION "namespaces"
#define CLOSED  "sandboxes cannot be closed off"
#define KERNEL  "a kernel with this namespace, and no filter or container profile that refuses it"

const struct check_probe check_namespace_probes[] = {
    {SECTION, "ns-mount", CHECK_NEEDED, probe_mount, "own file tree", CLOSED, KERNEL},
    {SECTION, "ns-pid", CHECK_NEEDED, probe_pid, "own processes", CLOSED, KERNEL},
    {SECTION, "ns-ipc", CHECK_NEEDED, probe_ipc, "own System V and POSIX ipc", CLOSED, KERNEL},
    {SECTION, "ns-uts", CHECK_NEEDED, probe_uts, "own host name", CLOSED, KERNEL},
    {SECTION, "ns-net", CHECK_NEEDED, probe_net, "own network", CLOSED, KERNEL},
    {SECTION, "ns-cgroup", CHECK_NEEDED, probe_cgroup, "own view of control groups", CLOSED,
     KERNEL},
    {SECTION, "ns-user", CHECK_NEEDED, probe_user, "root inside is nobody outside", CLOSED, KERNEL},
    {SECTION, "ns-time", CHECK_NOTE, probe_time, "not used", "not used", NULL},
    {SECTION, "ns-settings", CHECK_NOTE, probe_settings, "namespaces are allowed",
     "namespaces are forbidden by a setting of this machine",
     "set it so that user namespaces are allowed (sysctl -w)"},
    {SECTION, "id-map", CHECK_NEEDED, probe_id_map, "each sandbox has 65,536 ids of its own",
     "sandboxes cannot have ids of their own",
     "in a container: run in the machine's own user namespace, or with all its ids"},
    {SECTION, "id-ranges", CHECK_FEATURE, probe_id_ranges, "ids of sandboxes are nobody else's",
     "ids of sandboxes are others', too",
     "move these ids: a sandbox with the same ones could touch files of theirs"},
    {0},
};
