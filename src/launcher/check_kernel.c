/* Probes: who we are, and the system calls sandboxes are made with. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/check_probe.h"
#include "launcher/process.h"

#define KERNEL_NEEDED 512 /* 5.12: mount_setattr */
#define KERNEL_WISHED 519 /* 5.19: idmapped layers below an overlay */

static void probe_root(const struct check_context *context, struct check_result *result)
{
    if (context->rootless) {
        check_say(result, CHECK_PARTLY, "user %u, root of a user namespace", context->powers.user);
        check_effect(result,
                     "the launcher works as this user and offers what the kernel grants him");
        check_advice(result, "start the server as root for what is off below");
        return;
    }
    check_say(result, context->root ? CHECK_YES : CHECK_NO, "effective user id %u",
              (unsigned)geteuid());
    if (context->obstacle.code != ERR_OK)
        check_say(result, CHECK_NO, "%.*s", CHECK_TEXT_MAX - 1, context->obstacle.message);
}

static bool has_capability(const struct __user_cap_data_struct data[2], int capability)
{
    return data[capability / 32].effective >> (capability % 32) & 1;
}

static void probe_capabilities(const struct check_context *context, struct check_result *result)
{
    static const struct {
        int number;
        const char *name;
    } wanted[] = {
        {CAP_SYS_ADMIN, "sys_admin"},       {CAP_CHOWN, "chown"},   {CAP_FOWNER, "fowner"},
        {CAP_DAC_OVERRIDE, "dac_override"}, {CAP_SETUID, "setuid"}, {CAP_SETGID, "setgid"},
        {CAP_SYS_CHROOT, "sys_chroot"},     {CAP_MKNOD, "mknod"},   {CAP_NET_ADMIN, "net_admin"},
        {CAP_SETPCAP, "setpcap"},           {CAP_KILL, "kill"},
    };
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    char missing[CHECK_TEXT_MAX] = "";
    if (syscall(SYS_capget, &header, data) < 0) {
        check_say_outcome(context, result, -errno, "capget");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        size_t used = strlen(missing);
        if (!has_capability(data, wanted[i].number))
            snprintf(missing + used, sizeof(missing) - used, " %s", wanted[i].name);
    }
    if (missing[0] != '\0')
        check_say(result, CHECK_NO, "missing:%s", missing);
    else
        check_say(result, CHECK_YES, "all that are needed%s",
                  context->rootless ? "; inside the user namespace"
                  : has_capability(data, CAP_SYS_RESOURCE)
                      ? ""
                      : "; without sys_resource no limit is raised above our own");
}

static void probe_kernel(const struct check_context *context, struct check_result *result)
{
    (void)context;
    struct utsname name;
    unsigned major = 0, minor = 0;
    if (uname(&name) < 0 || check_parse_release(name.release, &major, &minor) < 0) {
        check_say(result, CHECK_UNKNOWN, "the kernel does not tell its version");
        return;
    }
    unsigned version = major * 100 + minor;
    check_say(result,
              version >= KERNEL_WISHED   ? CHECK_YES
              : version >= KERNEL_NEEDED ? CHECK_PARTLY
                                         : CHECK_NO,
              "Linux %s, %s", name.release, name.machine);
}

static void probe_pidfd(const struct check_context *context, struct check_result *result)
{
    AUTO_CLOSE int fd = -1;
    int r = process_open(getpid(), &fd);
    if (r == 0)
        r = process_signal(fd, 0);
    check_say_outcome(context, result, r, "pidfd_open and pidfd_send_signal");
}

static void probe_close_range(const struct check_context *context, struct check_result *result)
{
    long r = syscall(SYS_close_range, ~0u, ~0u, 0);
    check_say_outcome(context, result, r < 0 ? -errno : 0, "close_range");
}

static void probe_openat2(const struct check_context *context, struct check_result *result)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    AUTO_CLOSE int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));
    check_say_outcome(context, result, fd < 0 ? -errno : 0, "openat2 with RESOLVE_BENEATH");
}

static void probe_seccomp(const struct check_context *context, struct check_result *result)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};
    int r = 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        r = -errno;
    check_say_outcome(context, result, r, "a system call filter");
}

static void probe_landlock(const struct check_context *context, struct check_result *result)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version > 0)
        check_say(result, CHECK_YES, "ABI %ld", version);
    else
        check_say_outcome(context, result, -errno, "landlock_create_ruleset");
}

/* Without making anything: an fs context that is closed again. */
static void probe_mount_api(const struct check_context *context, struct check_result *result)
{
    AUTO_CLOSE int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int r = fs < 0 ? -errno : 0;
    struct mount_attr nothing = {0};
    AUTO_CLOSE int tree =
        r < 0 ? -1 : open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (r == 0 &&
        (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &nothing, sizeof(nothing)) < 0))
        r = -errno;
    check_say_outcome(context, result, r, "fsopen, open_tree and mount_setattr");
}

const struct check_probe check_kernel_probes[] = {
    {"system", "root", CHECK_NEEDED, probe_root, "the launcher can do its work",
     "the launcher needs root, or a user namespace of its own",
     "start the launcher, or the server that starts it, as root"},
    {"system", "capabilities", CHECK_NEEDED, probe_capabilities, "root may do what is needed",
     "root is restricted here", "in a container: give it these capabilities, or all of them"},
    {"system", "kernel", CHECK_NOTE, probe_kernel, "recent enough",
     "older than 5.12: what is needed is not there", "use a kernel from 5.19 on"},
    {"system", "pidfd", CHECK_NEEDED, probe_pidfd, "processes are named without confusion",
     "processes cannot be named safely", "a kernel from 5.4 on, and no filter that refuses it"},
    {"system", "close-range", CHECK_NEEDED, probe_close_range,
     "no descriptor is inherited by a sandbox", "sandboxes cannot be given clean descriptors",
     "a kernel from 5.9 on, and no filter that refuses it"},
    {"system", "openat2", CHECK_NOTE, probe_openat2, "paths can be resolved below a directory",
     "paths cannot be kept below a directory by the kernel",
     "a kernel from 5.6 on, and no filter that refuses it"},
    {"system", "seccomp", CHECK_NEEDED, probe_seccomp, "system calls of sandboxes are filtered",
     "system calls of sandboxes cannot be filtered", "a kernel with CONFIG_SECCOMP_FILTER"},
    {"system", "landlock", CHECK_NOTE, probe_landlock,
     "programs inside can confine themselves further",
     "programs inside cannot confine themselves by Landlock",
     "optional: a kernel with CONFIG_SECURITY_LANDLOCK, and landlock in its lsm= list"},
    {"system", "mount-api", CHECK_NEEDED, probe_mount_api, "mounts are made by descriptor",
     "mounts cannot be made by descriptor", "a kernel from 5.12 on, and no filter that refuses it"},
    {0},
};
