/* The last steps of a slot: give up what a sandbox must not have, in the order in which each can
 * still be given up. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/image_host.h"
#include "launcher/slot_process.h"
#include "launcher/weaken.h"

/* Behind what was there from the beginning. execd is told about the last. */
enum { USERNS_FD = SLOT_MORE_FD, WORK_FD };

/* What root may do inside: care for files and processes of its own range of ids, become other users
 * of it, chroot. Whatever concerns the machine, its devices or its network is not here. */
static const int kept_capabilities[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,       CAP_SETGID,
    CAP_SETUID, CAP_SETPCAP,      CAP_SETFCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT,
};

/* What every sandbox has that asks for nothing. */
static int set_limits(struct slot_context *slot)
{
    static const struct cgroup_limits none;
    return cgroup_limit_new(&slot->plan.cgroups, slot->plan.cgroup, &none);
}

/* The same in all: it tells nothing about them, and the image's /etc can have it already. */
static int set_name(struct slot_context *slot)
{
    (void)slot;
    return sethostname(IMAGE_HOST_NAME, sizeof(IMAGE_HOST_NAME) - 1) < 0 ? -errno : 0;
}

/* The mount, not the file system: nobody inside can change a mount of the initial namespace. */
static int lock_root(struct slot_context *slot)
{
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    if (!slot->plan.shape->read_only)
        return 0;
    if (mount_setattr(AT_FDCWD, "/", 0, &read_only, sizeof(read_only)) < 0)
        return -errno;
    if (slot_is_host(slot) &&
        mount_setattr(slot->usr_fd, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) < 0)
        return -errno;
    return 0;
}

static int open_null(struct slot_context *slot)
{
    (void)slot;
    AUTO_CLOSE int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (int i = 0; i < 3; i++) {
        if (dup2(fd, i) < 0)
            return -errno;
    }
    return 0;
}

/* Only ever lowered: raising a hard limit takes a capability even root may lack. Core dumps: 1 is
 * too small for a file, and unlike 0 it also keeps the kernel from piping the dump to a program of
 * the host (core(5)); the system call filter keeps it so. The scheduling limits may be a gift to
 * whoever started the launcher. */
static int set_rlimits(struct slot_context *slot)
{
    static const struct rlimit one = {1, 1}, none = {0, 0};
    struct rlimit open_files = {slot->plan.open_files, slot->plan.open_files};
    if (setrlimit(RLIMIT_CORE, &one) < 0 && (errno != EPERM || setrlimit(RLIMIT_CORE, &none) < 0))
        return -errno;
    if (setrlimit(RLIMIT_RTPRIO, &none) < 0 || setrlimit(RLIMIT_NICE, &none) < 0 ||
        setrlimit(RLIMIT_NOFILE, &open_files) < 0)
        return -errno;
    return 0;
}

static int close_files(struct slot_context *slot)
{
    int keep[WORK_FD - SLOT_LISTEN_FD + CGROUP_WORK_FDS_MAX + 1] = {
        slot->socket_fd, slot->control_fd, slot->idle_fd,
        slot->name_fd,   slot->execd_fd,   slot->userns_fd};
    unsigned count = WORK_FD - SLOT_LISTEN_FD;
    for (unsigned i = 0; i < slot->work_count; i++)
        keep[count++] = slot->work_fds[i];
    if (weaken_is_off(WEAKEN_FDS))
        keep[count++] = slot->host_fd;
    int r = process_keep(keep, count);
    if (r < 0)
        return r;
    slot->socket_fd = SLOT_LISTEN_FD;
    slot->name_fd = SLOT_NAME_FD;
    slot->userns_fd = USERNS_FD;
    for (unsigned i = 0; i < slot->work_count; i++)
        slot->work_fds[i] = WORK_FD + (int)i;
    if (weaken_is_off(WEAKEN_FDS))
        slot->host_fd = WORK_FD + (int)slot->work_count;
    return 0;
}

/* From here on every capability is one inside the sandbox's user namespace only. */
static int enter_user_namespace(struct slot_context *slot)
{
    if (weaken_is_off(WEAKEN_USERNS))
        return 0;
    return setns(slot->userns_fd, CLONE_NEWUSER) < 0 ? -errno : 0;
}

static int become_root(struct slot_context *slot)
{
    if ((slot->plan.powers->set_groups && setgroups(0, NULL) < 0) || setresgid(0, 0, 0) < 0 ||
        setresuid(0, 0, 0) < 0)
        return -errno;
    /* From here on we go on when the launcher ends, see slot_follow_launcher(); a change of user
     * has the same effect, but with one id there is none. */
    if (prctl(PR_SET_PDEATHSIG, 0) < 0)
        return -errno;
    umask(022);
    return 0;
}

static int make_keyring(struct slot_context *slot)
{
    (void)slot;
    if (weaken_is_off(WEAKEN_KEYRING))
        return 0;
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return -errno;
    return 0;
}

static int drop_capabilities(struct slot_context *slot)
{
    (void)slot;
    uint64_t kept = 0;
    if (weaken_is_off(WEAKEN_CAPABILITIES))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(kept_capabilities); i++)
        kept |= 1ull << kept_capabilities[i];
    for (unsigned long capability = 0; capability < 64; capability++) {
        if (!(kept >> capability & 1) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
            if (errno == EINVAL)
                break; /* the last one this kernel has lies before it */
            return -errno;
        }
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    for (int i = 0; i < 2; i++) {
        uint32_t part = (uint32_t)(kept >> (32 * i));
        data[i] = (struct __user_cap_data_struct){.effective = part, .permitted = part};
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int set_no_new_privileges(struct slot_context *slot)
{
    (void)slot;
    if (weaken_is_off(WEAKEN_NO_NEW_PRIVS))
        return 0;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int pass_on_files(struct slot_context *slot)
{
    if (fcntl(slot->socket_fd, F_SETFD, 0) < 0 || fcntl(slot->control_fd, F_SETFD, 0) < 0 ||
        fcntl(slot->idle_fd, F_SETFD, 0) < 0 || fcntl(slot->name_fd, F_SETFD, 0) < 0)
        return -errno;
    for (unsigned i = 0; i < slot->work_count; i++) {
        if (fcntl(slot->work_fds[i], F_SETFD, 0) < 0)
            return -errno;
    }
    if (weaken_is_off(WEAKEN_FDS) && fcntl(slot->host_fd, F_SETFD, 0) < 0)
        return -errno;
    return 0;
}

static int load_filter(struct slot_context *slot)
{
    if (weaken_is_off(WEAKEN_SECCOMP))
        return 0;
    return seccomp_filter_load(slot->plan.filter);
}

const struct slot_step slot_confine_steps[] = {
    {"set the limits", set_limits},
    {"set the name", set_name},
    {"make the root read-only", lock_root},
    {"open /dev/null", open_null},
    {"set the resource limits", set_rlimits},
    {"close what a sandbox does not need", close_files},
    {"enter the user namespace", enter_user_namespace},
    {"become root of it", become_root},
    {"make a keyring", make_keyring},
    {"drop capabilities", drop_capabilities},
    {"set no_new_privs", set_no_new_privileges},
    {"pass on what execd needs", pass_on_files},
    {"load the system call filter", load_filter},
    {NULL, NULL},
};
