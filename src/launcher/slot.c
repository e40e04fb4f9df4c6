#include "launcher/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/image_host.h"
#include "launcher/launcher.h"
#include "launcher/link.h"
#include "launcher/process.h"
#include "launcher/slot_process.h"

#define FAILURES_MAX 5
#define REST_MS      1000
#define QUIET_MS     5 /* after a CREATE before the pool is refilled, unless it is nearly empty */
#define END_MS       5000 /* for those that are killed when the launcher ends */
#define PARALLEL_MAX 8    /* prepared at once, when they are needed; else one after another */

/* Into one state or out of it. */
static void count(struct slot *slot, int by)
{
    struct slots *slots = &slot->launcher->slots;
    slots->count[slot->state] += (unsigned)by;
    if (slot->ordered && slot->state == SLOT_STATE_PREPARING)
        slots->ordered += (unsigned)by;
}

static void set_state(struct slot *slot, enum slot_state state)
{
    count(slot, -1);
    slot->state = state;
    count(slot, 1);
}

static void free_slot(struct slot *slot)
{
    struct launcher *launcher = slot->launcher;
    struct slot **link = &launcher->slots.list;
    while (*link != slot)
        link = &(*link)->next;
    *link = slot->next;
    count(slot, -1);
    loop_unwatch(&launcher->loop, &slot->control_source);
    loop_unwatch(&launcher->loop, &slot->exit_source);
    link_pool_release(launcher, slot->network.number);
    link_pool_release(launcher, slot->new_number);
    fd_close(slot->counters_fd);
    fd_close(slot->control_fd);
    fd_close(slot->pidfd);
    free(slot->directory);
    volume_list_unref(slot->shape.volumes);
    free(slot);
}

void slot_release(struct slot *slot)
{
    slot->launcher->slots.failures = 0;
    slot->network.number = 0; /* the sandbox has it */
    free_slot(slot);
}

void slot_discard(struct slot *slot, char *directory)
{
    if (directory != NULL) {
        free(slot->directory);
        slot->directory = directory;
    }
    slot->sandbox = NULL;
    set_state(slot, SLOT_STATE_DYING);
    loop_unwatch(&slot->launcher->loop, &slot->control_source);
    process_signal(slot->pidfd, SIGKILL);
}

/* No slot is made for a while. */
static void rest(struct slots *slots)
{
    slots->resting = true;
    loop_timer_set(&slots->refill_timer, REST_MS);
}

static void note_failure(struct launcher *launcher, const struct error *err)
{
    struct slots *slots = &launcher->slots;
    slots->last_failure = *err;
    slots->failures++;
    log_warn("a sandbox could not be prepared: %s", err->message);
    if (slots->failures >= FAILURES_MAX)
        rest(slots);
}

/* What stopped a slot, as far as it could tell. */
static void slot_error(const struct slot *slot, struct error *ret)
{
    if (slot->failure.code != ERR_OK)
        *ret = slot->failure;
    else
        error_set(ret, ERR_INTERNAL,
                  "the process that was to become the sandbox was killed; is the memory limit too "
                  "small?");
}

static int open_process(struct slot *slot, struct error *err)
{
    int r = process_start_time(slot->pid, &slot->start_ticks);
    if (r < 0)
        return error_set_errno(err, -r, "cannot read the start time of process %d", (int)slot->pid);
    if (slot->network.number == 0)
        return 0;
    slot->counters_fd = link_open_counters((int)slot->pid);
    if (slot->counters_fd < 0)
        return error_set_errno(err, -slot->counters_fd,
                               "cannot open the network counters of process %d", (int)slot->pid);
    return 0;
}

/* A network it was given was like new, or it has made its own: one of the two numbers is free. */
static void settle_numbers(struct slot *slot, bool made)
{
    link_pool_release(slot->launcher, made ? slot->network.number : slot->new_number);
    if (made)
        slot->network.number = slot->new_number;
    slot->new_number = 0;
}

/* Its execd serves. */
static void note_ready(struct slot *slot)
{
    struct launcher *launcher = slot->launcher;
    struct error err = ERROR_INIT;
    struct sandbox *sandbox = TAKE_PTR(slot->sandbox);
    if (sandbox != NULL)
        sandbox->slot = NULL;
    settle_numbers(slot, slot->made_network);
    if (open_process(slot, &err) < 0) {
        slot_discard(slot, NULL);
        if (sandbox != NULL)
            sandbox_failed(sandbox, &err);
        else
            note_failure(launcher, &err);
        return;
    }
    set_state(slot, SLOT_STATE_READY);
    if (sandbox != NULL)
        sandbox_begin(sandbox, slot);
    else
        launcher->slots.failures = 0;
    slot_pump(launcher);
}

static void note_report(struct slot *slot, const struct slot_report *report)
{
    struct launcher *launcher = slot->launcher;
    if (report->flags & SLOT_UNMAPPED && !launcher->unmapped_logged) {
        launcher->unmapped_logged = true;
        log_warn("a file system below an image cannot map ids: its files belong to nobody "
                 "inside sandboxes");
    }
    if (report->flags & SLOT_NEW_NETWORK) {
        slot->network.print = report->network_print;
        slot->made_network = true;
    }
    if (report->kind == SLOT_FAILED) {
        bool passing = report->sys == ENOSPC || report->sys == ENOMEM || report->sys == EAGAIN;
        error_set(&slot->failure, passing ? ERR_UNAVAILABLE : ERR_INTERNAL, "cannot %.*s: %s",
                  SLOT_STEP_MAX, report->step, strerror(report->sys));
        slot->failure.sys = report->sys;
        if (report->code != ERR_OK && report->code <= ERR_INTERNAL && !passing) {
            error_set(&slot->failure, (enum error_code)report->code, "%.*s", SLOT_TEXT_MAX,
                      report->text);
            slot->failure.sys = report->sys;
        }
    }
}

/* Read what there is. False at the end of the stream. A slot that cannot be heard is of no use: it
 * is ended, of which its pidfd tells. */
static bool read_reports(struct slot *slot)
{
    struct slot_report report;
    for (;;) {
        ssize_t n = recv(slot->control_fd, &report, sizeof(report), MSG_DONTWAIT);
        if (n == (ssize_t)sizeof(report)) {
            note_report(slot, &report);
            continue;
        }
        if (n == 1) {
            slot->serves = true;
            continue;
        }
        if (n >= 0 || errno == EAGAIN)
            return n < 0;
        if (errno == EINTR)
            continue;
        log_warn("cannot hear a slot: %s", strerror(errno));
        process_signal(slot->pidfd, SIGKILL);
        slot->serves = false; /* no more */
        return false;
    }
}

/* One that was made to order did not get there. */
static void tell_sandbox(struct slot *slot, const struct error *err)
{
    struct sandbox *sandbox = TAKE_PTR(slot->sandbox);
    sandbox->slot = NULL;
    if (slot->failure.code != ERR_OK)
        sandbox_failed(sandbox, err);
    else
        sandbox_bereft(sandbox, err);
}

/* The process of a slot is gone, expected or not. */
static void slot_exited(struct loop_source *source)
{
    struct slot *slot = CONTAINER_OF(source, struct slot, exit_source);
    struct launcher *launcher = slot->launcher;
    siginfo_t info;
    waitid(P_PIDFD, (id_t)slot->pidfd, &info, WEXITED | WNOHANG);
    loop_unwatch(&launcher->loop, &slot->exit_source);

    struct error err = ERROR_INIT;
    read_reports(slot);
    slot_error(slot, &err);
    if (slot->sandbox != NULL)
        tell_sandbox(slot, &err);
    else if (slot->state == SLOT_STATE_PREPARING)
        note_failure(launcher, &err);
    else if (slot->state == SLOT_STATE_READY)
        rest(&launcher->slots); /* somebody kills them: do not race */
    remove_later(launcher, slot->directory, slot->cgroup, slot->range);
    volume_release(launcher, slot->shape.volumes);
    free_slot(slot);
    slot_pump(launcher);
    launcher_check_idle(launcher);
}

static void control_ready(struct loop_source *source)
{
    struct slot *slot = CONTAINER_OF(source, struct slot, control_source);
    bool open = read_reports(slot);
    if (!open) /* closed by the end of the process, which its pidfd is about to tell */
        loop_unwatch(&slot->launcher->loop, &slot->control_source);
    if (slot->state == SLOT_STATE_PREPARING && slot->serves)
        note_ready(slot);
}

bool slot_is_alive(const struct slot *slot)
{
    char byte;
    ssize_t n = recv(slot->control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static uint64_t make_ms(const struct launcher *launcher)
{
    return (uint64_t)launcher->options.make_s * 1000;
}

/* On v2 a process can be born in its group, which spares it the slow move. */
static int open_birth_group(struct launcher *launcher, const char *name, int *ret_fd)
{
    if (!launcher->cgroups.v2)
        return 0;
    int r = cgroup_make(&launcher->cgroups, name);
    if (r < 0)
        return r;
    return cgroup_open_birth(&launcher->cgroups, name, ret_fd);
}

/* -1 for the host image, which is no directory of its own. */
static int find_image(struct slot *slot, int *ret_fd, struct error *err)
{
    *ret_fd = -1;
    if (str_equal(slot->shape.image, SLOT_IMAGE_HOST))
        return 0;
    return images_get(&slot->launcher->images, slot->shape.image, ret_fd, err);
}

static enum message_network pool_network(const struct launcher *launcher)
{
    return launcher->nat.on ? MESSAGE_NETWORK_NAT : MESSAGE_NETWORK_NONE;
}

/* What another sandbox had, if there is such a one, and what it takes to make its own, if that
 * turns out not to be like new. */
static int take_network(struct slot *slot, struct error *err)
{
    struct launcher *launcher = slot->launcher;
    bool nat = slot->shape.network == MESSAGE_NETWORK_NAT;
    slot->network = spare_take_network(launcher, nat);
    if (!nat || link_pool_take(launcher, &slot->new_number, NULL) == 0)
        return 0;
    spare_drop_networks(launcher);
    return slot->network.fd >= 0 ? 0 : link_pool_take(launcher, &slot->new_number, err);
}

static void plan_link(const struct slot *slot, struct link *ret)
{
    const struct nat *nat = &slot->launcher->nat;
    nat_name(nat, slot->new_number, ret->name);
    ret->address = nat_address(nat, slot->new_number);
    ret->gateway = nat_gateway(nat);
    ret->mtu = nat->mtu;
}

static int start_process(struct slot *slot, int control, struct error *err)
{
    struct launcher *launcher = slot->launcher;
    bool nat = slot->shape.network == MESSAGE_NETWORK_NAT;
    AUTO_CLOSE int group = -1;
    int image;
    int r = find_image(slot, &image, err);
    if (r < 0)
        return r;
    r = open_birth_group(launcher, slot->cgroup, &group);
    if (r < 0)
        return error_set_errno(err, -r, "cannot make a control group");
    pid_t pid = process_clone(CLONE_NEWPID, group, &slot->pidfd);
    if (pid < 0)
        return error_set_errno(err, -pid, "cannot make a process");
    if (pid == 0) {
        struct link link;
        plan_link(slot, &link);
        struct slot_plan plan = {
            .shape = &slot->shape,
            .state = &launcher->state,
            .powers = &launcher->powers,
            .filter = &launcher->filter,
            .allowed = &launcher->options.allowed,
            .disks = &launcher->disks,
            .cgroups = launcher->cgroups,
            .cgroup = slot->cgroup,
            .cgroup_used = slot->cgroup_used,
            .network_fd = slot->network.fd,
            .network_print = slot->network.print,
            .link = slot->new_number != 0 ? &link : NULL,
            .resolv = nat ? launcher->nat.resolv : IMAGE_HOST_RESOLV,
            .image_resolv = launcher->image_resolv,
            .directory = slot->directory,
            .range = slot->range,
            .open_files = launcher->open_files,
            .control_fd = control,
            .image_fd = image,
            .progress = &launcher->slots.progress[slot->range],
        };
        slot_process_run(&plan);
    }
    slot->pid = pid;
    return 0;
}

static int watch_slot(struct slot *slot, struct error *err)
{
    struct loop *loop = &slot->launcher->loop;
    int r = loop_watch(loop, &slot->control_source, slot->control_fd, control_ready, err);
    if (r == 0)
        r = loop_watch(loop, &slot->exit_source, slot->pidfd, slot_exited, err);
    return r;
}

/* `sandbox`: made to order for it; NULL: of the pool. */
static int make_slot(struct launcher *launcher, struct sandbox *sandbox, struct error *err)
{
    const struct slot_shape pool_shape = {.image = SLOT_IMAGE_HOST,
                                          .network = pool_network(launcher)};
    int pair[2];
    unsigned range;
    if (idrange_take(&launcher->ranges, &range) < 0)
        return error_set(err, ERR_LIMIT, "all %u ranges of user ids are in use",
                         launcher->ranges.count - 1);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        idrange_release(&launcher->ranges, range);
        return error_set_errno(err, errno, "cannot make a socket pair");
    }
    struct slot *slot = mem_alloc(sizeof(*slot));
    slot->launcher = launcher;
    slot->state = SLOT_STATE_PREPARING;
    slot->range = range;
    slot->begun_ms = clock_monotonic_ms();
    launcher->slots.progress[range] = 0;
    slot->shape = sandbox != NULL ? sandbox->shape : pool_shape;
    volume_list_ref(slot->shape.volumes);
    slot->sandbox = sandbox;
    slot->ordered = sandbox != NULL;
    slot->control_fd = pair[0];
    slot->pidfd = -1;
    slot->control_source.fd = -1;
    slot->exit_source.fd = -1;
    slot->counters_fd = -1;
    slot->cgroup_used = spare_take_group(launcher, slot->cgroup);
    if (!slot->cgroup_used)
        cgroup_new_name(&launcher->cgroups, slot->cgroup);
    slot->directory = mem_printf("%s.%u", slot->cgroup, range);
    slot->next = launcher->slots.list;
    launcher->slots.list = slot;
    count(slot, 1);

    int r = take_network(slot, err);
    if (r == 0)
        r = start_process(slot, pair[1], err);
    close(pair[1]);
    slot->network.fd = fd_close(slot->network.fd);
    if (r == 0)
        r = watch_slot(slot, err);
    if (r < 0) {
        if (slot->pidfd >= 0)
            process_end(slot->pidfd);
        remove_later(launcher, slot->directory, slot->cgroup, slot->range);
        free_slot(slot);
    } else if (sandbox != NULL) {
        sandbox->slot = slot;
    }
    if (r == 0 && !loop_timer_is_set(&launcher->slots.make_timer))
        loop_timer_set(&launcher->slots.make_timer, make_ms(launcher));
    return r;
}

static struct slot *find_ready(struct launcher *launcher)
{
    struct slot *found = NULL; /* the oldest: the list has the youngest first */
    for (struct slot *slot = launcher->slots.list; slot != NULL; slot = slot->next) {
        if (slot->state == SLOT_STATE_READY)
            found = slot;
    }
    return found;
}

static bool is_for_pool(const struct sandbox *sandbox)
{
    const struct slot_shape *shape = &sandbox->shape;
    return str_equal(shape->image, SLOT_IMAGE_HOST) && shape->disk_bytes == 0 &&
           !shape->read_only && shape->volumes == NULL &&
           shape->network == pool_network(sandbox->launcher);
}

/* The queue's first for the pool, which many of other shapes may stand before. */
static struct sandbox *first_for_pool(const struct launcher *launcher)
{
    struct sandbox *sandbox = launcher->sandboxes.queue_head;
    while (sandbox != NULL && !is_for_pool(sandbox))
        sandbox = sandbox->queue_next;
    return sandbox;
}

static unsigned pool_preparing(const struct slots *slots)
{
    return slots->count[SLOT_STATE_PREPARING] - slots->ordered;
}

static void serve_queue(struct launcher *launcher)
{
    struct slots *slots = &launcher->slots;
    struct slot *slot;
    struct sandbox *sandbox;
    while ((sandbox = first_for_pool(launcher)) != NULL && (slot = find_ready(launcher)) != NULL)
        sandbox_begin(sandbox, slot);
    /* Nothing can be made: say so now, not after a time-out of the server. */
    if (slots->failures >= FAILURES_MAX && pool_preparing(slots) == 0) {
        while ((sandbox = first_for_pool(launcher)) != NULL)
            sandbox_failed(sandbox, &slots->last_failure);
    }
}

static void make_for_pool(struct launcher *launcher)
{
    struct error err = ERROR_INIT;
    if (make_slot(launcher, NULL, &err) < 0) {
        note_failure(launcher, &err);
        rest(&launcher->slots); /* no process, so no event would bring us back here */
    }
}

/* A slot for each that waits, in the order in which they came and a few at a time. Returns how many
 * wait for one of the pool. */
static unsigned make_for_queue(struct launcher *launcher)
{
    struct slots *slots = &launcher->slots;
    unsigned coming = pool_preparing(slots);
    unsigned waiting = 0;
    struct sandbox *next;
    for (struct sandbox *sandbox = launcher->sandboxes.queue_head; sandbox != NULL;
         sandbox = next) {
        next = sandbox->queue_next;
        bool pool = is_for_pool(sandbox);
        waiting += pool;
        if (sandbox->slot != NULL || slots->count[SLOT_STATE_PREPARING] >= slots->parallel)
            continue;
        struct error err = ERROR_INIT;
        if (pool && coming > 0)
            coming--;
        else if (pool && !slots->resting)
            make_for_pool(launcher);
        else if (!pool && make_slot(launcher, sandbox, &err) < 0)
            sandbox_failed(sandbox, &err);
    }
    return waiting;
}

/* So many are gone that the next ones must not wait for a pause that may not come. */
static bool is_low(const struct launcher *launcher)
{
    return launcher->slots.count[SLOT_STATE_READY] <= launcher->options.slots / 2;
}

static bool wants_slot(const struct launcher *launcher, unsigned waiting)
{
    const struct slots *slots = &launcher->slots;
    if (slots->resting ||
        slots->count[SLOT_STATE_READY] + pool_preparing(slots) >= launcher->options.slots + waiting)
        return false;
    return slots->count[SLOT_STATE_PREPARING] <
           (waiting > 0 || is_low(launcher) ? slots->parallel : 1);
}

static void make_slots(struct launcher *launcher)
{
    unsigned waiting = make_for_queue(launcher);
    while (wants_slot(launcher, waiting))
        make_for_pool(launcher);
}

void slot_pump(struct launcher *launcher)
{
    serve_queue(launcher);
    if (launcher->sandboxes.queued > 0 || is_low(launcher))
        make_slots(launcher);
    else if (wants_slot(launcher, 0) && !loop_timer_is_set(&launcher->slots.refill_timer))
        loop_timer_set(&launcher->slots.refill_timer, QUIET_MS);
    serve_queue(launcher); /* if making them has just failed for good */
}

static void refill_fired(struct loop_timer *timer)
{
    struct launcher *launcher = CONTAINER_OF(timer, struct launcher, slots.refill_timer);
    launcher->slots.resting = false;
    make_slots(launcher);
    serve_queue(launcher);
}

/* Of the pool: those who waited for it as long as it took are told, since the next one may take as
 * long. */
static void give_up_waiting(struct launcher *launcher, const struct error *err)
{
    struct sandbox *sandbox;
    while ((sandbox = first_for_pool(launcher)) != NULL &&
           clock_monotonic_ms() - sandbox->asked_ms >= make_ms(launcher))
        sandbox_failed(sandbox, err);
}

static void give_up(struct slot *slot)
{
    struct launcher *launcher = slot->launcher;
    struct sandbox *sandbox = TAKE_PTR(slot->sandbox);
    struct error err = ERROR_INIT;
    error_set(&err, ERR_TIMEOUT, "not made within %u s: process %d still tries to %s",
              launcher->options.make_s, (int)slot->pid,
              slot_process_step_name(launcher->slots.progress[slot->range]));
    slot_discard(slot, NULL);
    if (sandbox != NULL) {
        sandbox->slot = NULL;
        sandbox_failed(sandbox, &err);
    } else {
        note_failure(launcher, &err);
        give_up_waiting(launcher, &err);
    }
}

static void make_time_is_over(struct loop_timer *timer)
{
    struct launcher *launcher = CONTAINER_OF(timer, struct launcher, slots.make_timer);
    uint64_t now = clock_monotonic_ms(), next = 0;
    for (struct slot *slot = launcher->slots.list; slot != NULL; slot = slot->next) {
        uint64_t end = slot->begun_ms + make_ms(launcher);
        if (slot->state != SLOT_STATE_PREPARING)
            continue;
        if (end <= now)
            give_up(slot);
        else if (next == 0 || end < next)
            next = end;
    }
    if (next != 0)
        loop_timer_set(timer, next - now);
    slot_pump(launcher);
    launcher_check_idle(launcher);
}

int slot_init_all(struct launcher *launcher, struct error *err)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned parallel = processors > 1 ? (unsigned)MIN(processors, (long)PARALLEL_MAX) : 1;
    void *progress =
        mmap(NULL, IDRANGE_COUNT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return error_set_errno(err, errno, "cannot share memory with slots");
    launcher->slots = (struct slots){.parallel = parallel, .progress = progress};
    loop_timer_add(&launcher->loop, &launcher->slots.refill_timer, refill_fired);
    loop_timer_add(&launcher->loop, &launcher->slots.make_timer, make_time_is_over);
    return 0;
}

void slot_free_all(struct launcher *launcher)
{
    uint64_t end = clock_monotonic_ms() + END_MS;
    for (struct slot *slot = launcher->slots.list; slot != NULL; slot = slot->next)
        process_signal(slot->pidfd, SIGKILL);
    while (launcher->slots.list != NULL) {
        struct slot *slot = launcher->slots.list;
        uint64_t now = clock_monotonic_ms();
        if (process_end_within(slot->pidfd, now < end ? (int)(end - now) : 0)) {
            cgroup_remove(&launcher->cgroups, slot->cgroup);
            file_remove_tree_at(launcher->state.loose_fd, slot->directory, NULL);
        } else {
            log_warn("process %d, which was to become a sandbox, does not end; the next launcher "
                     "clears up after it",
                     (int)slot->pid);
        }
        free_slot(slot);
    }
    munmap((void *)launcher->slots.progress, IDRANGE_COUNT);
}
