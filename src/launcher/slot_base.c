/* What a slot does first: its groups and namespaces, and what it needs of them for the rest. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/mounts.h"
#include "launcher/network.h"
#include "launcher/slot_process.h"
#include "launcher/weaken.h"

#define OOM_SCORE_STEP 100 /* of 1000, which is all the memory there is */
#define OOM_SCORE_MAX  1000

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
    if (weaken_is_off(WEAKEN_CGROUPNS))
        return 0;
    return cgroup_enter_namespace(&slot->plan.cgroups, slot->plan.cgroup);
}

static int make_namespaces(struct slot_context *slot)
{
    int flags = CLONE_NEWNS | CLONE_NEWUTS;
    if (!weaken_is_off(WEAKEN_IPC))
        flags |= CLONE_NEWIPC;
    if (slot->plan.link != NULL) {
        slot->host_network_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        if (slot->host_network_fd < 0)
            return -errno;
    }
    if (slot->plan.network_fd < 0 && !weaken_is_off(WEAKEN_NET))
        flags |= CLONE_NEWNET;
    if (slot->plan.network_fd >= 0 && setns(slot->plan.network_fd, CLONE_NEWNET) < 0)
        return -errno;
    if (unshare(flags) < 0 || setsid() < 0)
        return -errno;
    umask(0);
    return 0;
}

/* By path: the launcher's own descriptor leads to its namespace, where nothing of ours can be
 * mounted. */
static int open_mount_points(struct slot_context *slot)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/mount", slot->plan.state->launcher_path);
    slot->mount_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return slot->mount_fd < 0 ? -errno : 0;
}

/* In the air until there is a root to mount it in. */
static int make_proc(struct slot_context *slot)
{
    slot->proc_fd = mounts_new("proc", NULL, SLOT_SAFE_MOUNT);
    return MIN(slot->proc_fd, 0);
}

static int write_proc(struct slot_context *slot, const char *path, const char *text)
{
    AUTO_CLOSE int fd = openat(slot->proc_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int open_user_namespace(struct slot_context *slot, pid_t pid, const char *uid_map,
                               const char *gid_map)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/uid_map", (int)pid);
    int r = write_proc(slot, path, uid_map);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/gid_map", (int)pid);
    r = write_proc(slot, path, gid_map);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/ns/user", (int)pid);
    int fd = openat(slot->proc_fd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int stay_put(void *argument)
{
    (void)argument;
    while (pause() < 0) /* until killed */
        ;
    return 0;
}

int slot_as(struct slot_context *slot, uint32_t uid, uint32_t gid,
            int (*run)(struct slot_context *slot, void *argument), void *argument)
{
    int before;
    int r = process_act_as(uid, gid, &before);
    if (r < 0)
        return r;
    r = run(slot, argument);
    process_act_as_self(before);
    int following = slot_follow_launcher(slot);
    return r < 0 || following == 0 ? r : following;
}

int slot_as_owner(struct slot_context *slot, int (*run)(struct slot_context *slot, void *argument),
                  void *argument)
{
    return slot_as(slot, slot->base_id, slot->base_id, run, argument);
}

static int clone_into_namespace(struct slot_context *slot, void *pidfd)
{
    static char stack[4096] __attribute__((aligned(16)));
    (void)slot;
    pid_t pid = clone(stay_put, stack + sizeof(stack),
                      CLONE_NEWUSER | CLONE_VM | CLONE_PIDFD | SIGCHLD, NULL, pidfd);
    return pid < 0 ? -errno : pid;
}

/* A namespace can be had only from a process that is in it, so one is born there and does nothing.
 * It shares our memory, since copying it would be most of the cost.
 *
 * The kernel charges what it counts by user (inotify instances and watches, message queues, pending
 * signals) inside a namespace to its owner outside as well: owned by root, all sandboxes and the
 * host's root would share one allowance. So the owner is the sandbox's own first id. Capabilities
 * are kept over the change, because some kernels want one for making a user namespace. */
int slot_make_user_namespace(struct slot_context *slot, const char *uid_map, const char *gid_map)
{
    AUTO_CLOSE int pidfd = -1;
    pid_t pid = slot_as_owner(slot, clone_into_namespace, &pidfd);
    if (pid < 0)
        return pid;
    int r = open_user_namespace(slot, pid, uid_map, gid_map);
    process_signal(pidfd, SIGKILL);
    siginfo_t info;
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    return r;
}

static int make_user_namespace(struct slot_context *slot)
{
    char map[64];
    snprintf(map, sizeof(map), "0 %u %u", slot->base_id, slot->plan.powers->ids_each);
    slot->userns_fd = slot_make_user_namespace(slot, map, map);
    return MIN(slot->userns_fd, 0);
}

/* The device is made from the host's side, since half of it is there. */
static int make_link(struct slot_context *slot)
{
    AUTO_CLOSE int inside = openat(slot->proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);
    if (inside < 0)
        return -errno;
    int r = link_prepare_inside(slot->proc_fd);
    if (r < 0)
        return r;
    if (setns(slot->host_network_fd, CLONE_NEWNET) < 0)
        return -errno;
    r = link_make(slot->plan.link, slot->proc_fd, inside);
    if (setns(inside, CLONE_NEWNET) < 0)
        return -errno; /* which ends the slot: it must not go on here */
    return r < 0 ? r : link_finish_inside(slot->plan.link);
}

/* One that another sandbox had is as good as new when nothing has ever happened in it. What cannot
 * be looked at is not. */
static bool is_like_new(struct slot_context *slot)
{
    unsigned sockets;
    return slot->plan.network_fd >= 0 && network_sockets(slot->proc_fd, &sockets) == 0 &&
           sockets == 0 && network_print(slot->proc_fd, &slot->network_print) == 0 &&
           slot->network_print == slot->plan.network_print;
}

static int set_up_network(struct slot_context *slot)
{
    if (weaken_is_off(WEAKEN_NET) || is_like_new(slot))
        return 0;
    if (slot->plan.network_fd >= 0 && unshare(CLONE_NEWNET) < 0)
        return -errno;
    int r = network_set_up(slot->proc_fd, slot->plan.powers);
    if (r == 0 && slot->plan.shape->network == MESSAGE_NETWORK_NAT)
        r = slot->plan.link != NULL ? make_link(slot) : -ENOSPC;
    slot->host_network_fd = fd_close(slot->host_network_fd);
    if (r == 0)
        r = network_print(slot->proc_fd, &slot->network_print);
    slot->flags |= SLOT_NEW_NETWORK;
    return r;
}

static int write_score(int fd, int score)
{
    char text[16];
    int length = snprintf(text, sizeof(text), "%d", score);
    return pwrite(fd, text, (size_t)length, 0) < 0 ? -errno : 0;
}

static int read_score(int fd, int64_t *ret_score)
{
    char text[16] = "";
    if (pread(fd, text, sizeof(text) - 1, 0) < 0)
        return -errno;
    text[strcspn(text, "\n")] = '\0';
    return str_to_i64(text, -OOM_SCORE_MAX, OOM_SCORE_MAX, ret_score);
}

/* What is written with this capability is a floor; without, execd can take it back. */
static int write_score_without_floor(int fd, int score)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2], fewer[2];
    if (syscall(SYS_capget, &header, all) < 0)
        return -errno;
    memcpy(fewer, all, sizeof(fewer));
    fewer[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
    if (syscall(SYS_capset, &header, fewer) < 0)
        return -errno;
    int r = write_score(fd, score);
    return syscall(SYS_capset, &header, all) < 0 ? -errno : r;
}

/* A launcher protected from the out-of-memory killer must not pass that on. What runs in a sandbox
 * goes before what runs beside it, and a command before the entrypoint, for which execd takes this
 * back. Before a process shares our memory, make_user_namespace(): from then on the kernel looks at
 * every process of the machine when a score is written. */
static int set_oom_score(struct slot_context *slot)
{
    AUTO_CLOSE int fd = openat(slot->proc_fd, "self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int64_t score = 0;
    int r = write_score(fd, 0);
    if (r == -EACCES) /* it was higher, and stays so */
        r = read_score(fd, &score);
    if (r < 0)
        return r;
    return write_score_without_floor(fd, (int)MIN(score + OOM_SCORE_STEP, (int64_t)OOM_SCORE_MAX));
}

const struct slot_step slot_base_steps[] = {
    {"join its control groups", join_cgroups},
    {"make a cgroup namespace", make_cgroup_namespace},
    {"make namespaces", make_namespaces},
    {"find the place for its mounts", open_mount_points},
    {"make /proc", make_proc},
    {"set the out-of-memory score", set_oom_score},
    {"make a user namespace", make_user_namespace},
    {"set up the network", set_up_network},
    {NULL, NULL},
};
