/* What a slot does before anybody wants it: everything that is the same for every sandbox.
 *
 * The mounts are put together on a small tmpfs that only this process's mount namespace has. They
 * could be kept in the air until the sandbox's root exists, but then nothing could be mounted on
 * top of them (masks, /dev/pts) before kernel 6.15; one move_mount takes a whole tree over later.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/idrange.h"
#include "launcher/mounts.h"
#include "launcher/network.h"
#include "launcher/slot_process.h"

static int join_cgroups(struct slot_context *slot)
{
    int r = 0;
    if (slot->plan.cgroup_used)
        r = cgroup_renew(&slot->plan.cgroups, slot->plan.cgroup);
    else if (!slot->plan.cgroups.v2)
        r = cgroup_make(&slot->plan.cgroups, slot->plan.cgroup);
    if (r == 0)
        r = cgroup_join(&slot->plan.cgroups, slot->plan.cgroup);
    if (r == 0)
        r = cgroup_open_work(&slot->plan.cgroups, slot->plan.cgroup, slot->work_fds,
                             &slot->work_count);
    return r;
}

static int make_cgroup_namespace(struct slot_context *slot)
{
    return cgroup_enter_namespace(&slot->plan.cgroups, slot->plan.cgroup);
}

static int make_namespaces(struct slot_context *slot)
{
    int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
    if (slot->plan.network_fd < 0)
        flags |= CLONE_NEWNET;
    else if (setns(slot->plan.network_fd, CLONE_NEWNET) < 0)
        return -errno;
    if (unshare(flags) < 0 || setsid() < 0)
        return -errno;
    umask(0);
    return 0;
}

int slot_make_dirs(int fd, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (mkdirat(fd, names[i], 0755) < 0)
            return -errno;
    }
    return 0;
}

/* One tmpfs for everything that is made here, since a file system costs a sandbox more than all
 * that is in it: each has a shrinker, for which every memory control group of the machine keeps
 * room. Its size is that of /dev/shm; nobody can write to the other parts. */
static int mount_scratch(struct slot_context *slot)
{
    static const struct mounts_option options[] = {
        {"size", "64m"}, {"nr_inodes", "16384"}, {"mode", "0700"}, {NULL, NULL}};
    static const char *const names[] = {"proc", "dev", "shm",   "sys",
                                        "root", "usr", "lower", "overlay"};
    char path[PATH_MAX];
    slot->scratch_fd = mounts_new("tmpfs", options, MOUNT_ATTR_NOSUID);
    if (slot->scratch_fd < 0)
        return slot->scratch_fd;
    snprintf(path, sizeof(path), "%s/mount", slot->plan.state->launcher_path);
    int r = mounts_attach(slot->scratch_fd, AT_FDCWD, path);
    if (r == 0)
        r = slot_make_dirs(slot->scratch_fd, names, ARRAY_LEN(names));
    if (r == 0 && (mkdirat(slot->scratch_fd, "empty", 0555) < 0 ||
                   fchownat(slot->scratch_fd, "empty", slot->base_id, slot->base_id, 0) < 0))
        r = -errno;
    return r;
}

static int mount_proc(struct slot_context *slot)
{
    slot->proc_fd = mounts_new("proc", NULL, SLOT_SAFE_MOUNT);
    if (slot->proc_fd < 0)
        return slot->proc_fd;
    return mounts_attach(slot->proc_fd, slot->scratch_fd, "proc");
}

static int write_proc(struct slot_context *slot, const char *path, const char *text)
{
    AUTO_CLOSE int fd = openat(slot->proc_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int open_user_namespace(struct slot_context *slot, pid_t pid)
{
    char path[64], map[64];
    snprintf(map, sizeof(map), "0 %u %u", slot->base_id, IDRANGE_SIZE);
    snprintf(path, sizeof(path), "%d/uid_map", (int)pid);
    int r = write_proc(slot, path, map);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/gid_map", (int)pid);
    r = write_proc(slot, path, map);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/ns/user", (int)pid);
    slot->userns_fd = openat(slot->proc_fd, path, O_RDONLY | O_CLOEXEC);
    return slot->userns_fd < 0 ? -errno : 0;
}

static int stay_put(void *argument)
{
    (void)argument;
    while (pause() < 0) /* until killed */
        ;
    return 0;
}

/* The kernel charges what it counts by user (inotify instances and watches, message queues, pending
 * signals) inside a namespace to its owner outside as well: owned by root, all sandboxes and the
 * host's root would share one allowance. So the owner is the sandbox's own first id. Capabilities
 * are kept over the change, because some kernels want one for making a user namespace. */
static int clone_as_owner(struct slot_context *slot, char *stack_end, int *ret_pidfd)
{
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
        setegid(slot->base_id) < 0 || seteuid(slot->base_id) < 0)
        return -errno;
    pid_t pid = clone(stay_put, stack_end, CLONE_NEWUSER | CLONE_VM | CLONE_PIDFD | SIGCHLD, NULL,
                      ret_pidfd);
    int r = pid < 0 ? -errno : pid;
    if (seteuid(0) < 0 || setegid(0) < 0 || prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
        _exit(1); /* never as somebody else */
    return r;
}

/* A namespace can be had only from a process that is in it, so one is born there and does nothing.
 * It shares our memory, since copying it would be most of the cost. */
static int make_user_namespace(struct slot_context *slot)
{
    static char stack[4096] __attribute__((aligned(16)));
    AUTO_CLOSE int pidfd = -1;
    pid_t pid = clone_as_owner(slot, stack + sizeof(stack), &pidfd);
    if (pid < 0)
        return pid;
    int r = open_user_namespace(slot, pid);
    process_signal(pidfd, SIGKILL);
    siginfo_t info;
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    return r;
}

/* One that another sandbox had is as good as new when nothing has ever happened in it. */
static int set_up_network(struct slot_context *slot)
{
    int r = 0;
    if (slot->plan.network_fd >= 0) {
        r = network_print(slot->proc_fd, &slot->network_print);
        if (r == 0 && slot->network_print == slot->plan.network_print)
            return 0;
        if (unshare(CLONE_NEWNET) < 0)
            return -errno;
    }
    r = network_set_up(slot->proc_fd);
    if (r == 0)
        r = network_print(slot->proc_fd, &slot->network_print);
    slot->flags |= SLOT_NEW_NETWORK;
    return r;
}

/* A launcher protected from the out-of-memory killer must not pass that on. */
static int reset_oom_score(struct slot_context *slot)
{
    int r = write_proc(slot, "self/oom_score_adj", "0");
    return r == -EACCES ? 0 : r; /* it was higher: stays so */
}

const struct slot_step slot_base_steps[] = {
    {"join its control groups", join_cgroups},
    {"make a cgroup namespace", make_cgroup_namespace},
    {"make namespaces", make_namespaces},
    {"mount a scratch file system", mount_scratch},
    {"mount /proc", mount_proc},
    {"reset the out-of-memory score", reset_oom_score},
    {"make a user namespace", make_user_namespace},
    {"set up the network", set_up_network},
    {NULL, NULL},
};
