#include "launcher/slot_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/mounts.h"

#define BEGIN "take the image and close what a slot does not need"

static int report(struct slot_context *slot, enum slot_report_kind kind, int sys, const char *step)
{
    struct slot_report message = {
        .kind = kind,
        .flags = slot->flags,
        .sys = sys,
        .network_print = slot->network_print,
    };
    snprintf(message.step, sizeof(message.step), "%s", step);
    if (kind == SLOT_FAILED && slot->failure.code != ERR_OK) {
        message.code = slot->failure.code;
        message.sys = slot->failure.sys;
        snprintf(message.text, sizeof(message.text), "%s", slot->failure.message);
    }
    return send(slot->control_fd, &message, sizeof(message), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static NORETURN void fail(struct slot_context *slot, int sys, const char *step)
{
    report(slot, SLOT_FAILED, sys, step);
    _exit(1);
}

const char *slot_process_step_name(unsigned number)
{
    static const struct slot_step *const lists[] = {
        slot_base_steps, slot_image_steps, slot_kernel_steps, slot_enter_steps, slot_confine_steps};
    if (number == 0)
        return BEGIN;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (const struct slot_step *step = lists[i]; step->name != NULL; step++) {
            if (--number == 0)
                return step->name;
        }
    }
    return "start execd";
}

static void next_step(struct slot_context *slot)
{
    *slot->plan.progress = (uint8_t)(*slot->plan.progress + 1);
}

static void run_steps(struct slot_context *slot, const struct slot_step *steps)
{
    for (const struct slot_step *step = steps; step->name != NULL; step++) {
        next_step(slot);
        int r = step->run(slot);
        if (r < 0)
            fail(slot, -r, step->name);
    }
}

int slot_follow_launcher(struct slot_context *slot)
{
    char byte;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    ssize_t n = recv(slot->control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0)
        return -ESRCH;
    return n > 0 || errno == EAGAIN ? 0 : -errno;
}

/* Now, since a mount namespace of our own would not let us clone what belongs to the launcher's. */
static int take_image(struct slot_context *slot)
{
    if (slot_is_host(slot))
        return 0;
    slot->image_fd = mounts_take(slot->plan.image_fd, "");
    return MIN(slot->image_fd, 0);
}

static int settle(struct slot_context *slot)
{
    int keep[SLOT_MORE_FD - SLOT_LISTEN_FD + CGROUP_CONTROLLERS + 1] = {
        slot->plan.state->mount_fd, slot->plan.control_fd, slot->plan.state->idle_fd,
        slot->plan.network_fd, slot->plan.state->execd_fd};
    unsigned count = SLOT_MORE_FD - SLOT_LISTEN_FD;
    for (unsigned i = 0; i < slot->plan.cgroups.count; i++)
        keep[count++] = slot->plan.cgroups.items[i].fd;
    keep[count++] = slot->plan.image_fd;
    int r = process_settle(keep, count);
    if (r < 0)
        return r;
    if (slot->plan.image_fd >= 0)
        slot->plan.image_fd = SLOT_LISTEN_FD + (int)count - 1;
    if (slot->plan.network_fd >= 0)
        slot->plan.network_fd = SLOT_NAME_FD;
    slot->control_fd = SLOT_CONTROL_FD;
    slot->execd_fd = SLOT_EXECD_FD;
    slot->idle_fd = SLOT_IDLE_FD;
    for (unsigned i = 0; i < slot->plan.cgroups.count; i++)
        slot->plan.cgroups.items[i].fd = SLOT_MORE_FD + (int)i;
    return 0;
}

static NORETURN void exec_execd(struct slot_context *slot)
{
    char work[CGROUP_WORK_FDS_MAX][12];
    const char *argv[11 + 2 * CGROUP_WORK_FDS_MAX] = {
        "opensandbox-execd", "--pid1", "--listen-fd", "3", "--hold-fd", "4",
        "--idle-fd",         "5",      "--name-fd",   "6"};
    unsigned count = 10;
    for (unsigned i = 0; i < slot->work_count; i++) {
        snprintf(work[i], sizeof(work[i]), "%d", slot->work_fds[i]);
        argv[count++] = "--work-fd";
        argv[count++] = work[i];
    }
    static const char *const envp[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LANG=C.UTF-8",
        NULL,
    };
    execveat(slot->execd_fd, "", (char *const *)argv, (char *const *)envp, AT_EMPTY_PATH);
    fail(slot, errno, "execute execd");
}

void slot_process_run(const struct slot_plan *plan)
{
    struct slot_context slot = {
        .plan = *plan,
        .base_id = powers_first_id(plan->powers, plan->range),
        .control_fd = plan->control_fd,
        .mount_fd = -1,
        .proc_fd = -1,
        .dev_fd = -1,
        .userns_fd = -1,
        .socket_fd = -1,
        .name_fd = -1,
        .sandbox_fd = -1,
        .upper_fd = -1,
        .root_fd = -1,
        .host_fd = -1,
        .image_fd = -1,
        .host_network_fd = -1,
        .usr_fd = -1,
    };
    int r = slot_follow_launcher(&slot);
    if (r == 0)
        r = settle(&slot);
    if (r == 0)
        r = slot_follow_launcher(&slot); /* before, we had the other end of the socket ourselves */
    if (r == 0)
        r = take_image(&slot);
    if (r < 0)
        fail(&slot, -r, BEGIN);
    run_steps(&slot, slot_base_steps);
    run_steps(&slot, slot_image_steps);
    run_steps(&slot, slot_kernel_steps);
    run_steps(&slot, slot_enter_steps);
    /* Not to be lost: which network it has, and under which number, is told nowhere else. */
    r = slot.flags != 0 ? report(&slot, SLOT_NOTED, 0, "") : 0;
    if (r < 0)
        fail(&slot, -r, "tell what it has made");
    run_steps(&slot, slot_confine_steps);
    next_step(&slot);
    exec_execd(&slot);
}
