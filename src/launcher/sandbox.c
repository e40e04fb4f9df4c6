#include "launcher/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "launcher/link.h"
#include "launcher/nofile.h"
#include "launcher/slot_process.h"

/* The table. */

/* Where id is, or where it would have to be. */
static size_t position(const struct sandboxes *table, const char *id)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(table->items[middle]->record.id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t sandbox_position_after(const struct launcher *launcher, const char *id)
{
    const struct sandboxes *table = &launcher->sandboxes;
    size_t at = position(table, id);
    return at < table->count && str_equal(table->items[at]->record.id, id) ? at + 1 : at;
}

struct sandbox *sandbox_find(struct launcher *launcher, const char *id)
{
    const struct sandboxes *table = &launcher->sandboxes;
    size_t at = position(table, id);
    if (at < table->count && str_equal(table->items[at]->record.id, id))
        return table->items[at];
    return NULL;
}

static struct sandbox *insert(struct launcher *launcher, const char *id)
{
    struct sandboxes *table = &launcher->sandboxes;
    struct sandbox *sandbox = mem_alloc(sizeof(*sandbox));
    sandbox->launcher = launcher;
    sandbox->pidfd = -1;
    sandbox->exit_source.fd = -1;
    sandbox->counters_fd = -1;
    snprintf(sandbox->record.id, sizeof(sandbox->record.id), "%s", id);
    if (table->count == table->capacity) {
        table->capacity = MAX(table->capacity * 2, (size_t)64);
        table->items = mem_resize_array(table->items, table->capacity, sizeof(*table->items));
    }
    size_t at = position(table, id);
    memmove(table->items + at + 1, table->items + at, (table->count - at) * sizeof(*table->items));
    table->items[at] = sandbox;
    table->count++;
    return sandbox;
}

static void forget(struct sandbox *sandbox)
{
    struct sandboxes *table = &sandbox->launcher->sandboxes;
    size_t at = position(table, sandbox->record.id);
    table->count--;
    memmove(table->items + at, table->items + at + 1, (table->count - at) * sizeof(*table->items));
    loop_unwatch(&sandbox->launcher->loop, &sandbox->exit_source);
    fd_close(sandbox->counters_fd);
    fd_close(sandbox->pidfd);
    volume_list_unref(sandbox->shape.volumes);
    free(sandbox);
}

/* The same for one that is gone: what it used may have been waiting for that. */
static void drop(struct sandbox *sandbox)
{
    struct launcher *launcher = sandbox->launcher;
    struct volume_list *volumes = volume_list_ref(sandbox->shape.volumes);
    forget(sandbox);
    volume_release(launcher, volumes);
    volume_list_unref(volumes);
}

static void enqueue(struct sandbox *sandbox)
{
    struct sandboxes *table = &sandbox->launcher->sandboxes;
    if (table->queue_tail != NULL)
        table->queue_tail->queue_next = sandbox;
    else
        table->queue_head = sandbox;
    table->queue_tail = sandbox;
    table->queued++;
    sandbox->queued = true;
}

/* Before all others: it had waited already. */
static void enqueue_first(struct sandbox *sandbox)
{
    struct sandboxes *table = &sandbox->launcher->sandboxes;
    sandbox->queue_next = table->queue_head;
    table->queue_head = sandbox;
    if (table->queue_tail == NULL)
        table->queue_tail = sandbox;
    table->queued++;
    sandbox->queued = true;
}

static void unqueue(struct sandbox *sandbox)
{
    struct sandboxes *table = &sandbox->launcher->sandboxes;
    if (!sandbox->queued)
        return;
    struct sandbox *before = NULL;
    for (struct sandbox *at = table->queue_head; at != sandbox; at = at->queue_next)
        before = at;
    if (before != NULL)
        before->queue_next = sandbox->queue_next;
    else
        table->queue_head = sandbox->queue_next;
    if (table->queue_tail == sandbox)
        table->queue_tail = before;
    sandbox->queue_next = NULL;
    sandbox->queued = false;
    table->queued--;
}

void sandbox_free_all(struct launcher *launcher)
{
    while (launcher->sandboxes.count > 0)
        forget(launcher->sandboxes.items[launcher->sandboxes.count - 1]);
    free(TAKE_PTR(launcher->sandboxes.items));
    launcher->sandboxes = (struct sandboxes){0};
}

/* The end. */

int sandbox_open_directory(const struct sandbox *sandbox, struct error *err)
{
    int fd = openat(sandbox->launcher->state.sandboxes_fd, sandbox->record.id,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_set_errno(err, errno, "cannot open the sandbox's directory") : fd;
}

int sandbox_write_record(const struct sandbox *sandbox, struct error *err)
{
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, err);
    return dir < 0 ? dir : record_write(dir, &sandbox->record, err);
}

static void write_record(const struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    if (sandbox_write_record(sandbox, &err) < 0)
        log_error("sandbox %s: %s", sandbox->record.id, err.message);
}

static void tell_exit(const struct sandbox *sandbox)
{
    union message event;
    message_init(&event, MESSAGE_EXIT, 0);
    sandbox_describe(sandbox, &event.exit.sandbox);
    peer_broadcast(sandbox->launcher, &event);
}

/* The socket at its public name is the moment at which there is a sandbox: a launcher that finds a
 * record without it knows that CREATE was not answered, or REMOVE had begun, and clears it away. It
 * is a second name, beside the one in the sandbox's directory, because execd must know as well and
 * looks for it when we end. */
static int publish(const struct sandbox *sandbox, struct error *err)
{
    const struct state *state = &sandbox->launcher->state;
    char ours[ID_UUID_LEN + sizeof("/" SLOT_SOCKET)], theirs[ID_UUID_LEN + 8];
    snprintf(ours, sizeof(ours), "%s/%s", sandbox->record.id, SLOT_SOCKET);
    snprintf(theirs, sizeof(theirs), "%s.sock", sandbox->record.id);
    if (linkat(state->sandboxes_fd, ours, state->run_fd, theirs, 0) < 0)
        return error_set_errno(err, errno, "cannot publish the sandbox's socket");
    return 0;
}

static int unpublish(const struct sandbox *sandbox, struct error *err)
{
    char theirs[ID_UUID_LEN + 8];
    snprintf(theirs, sizeof(theirs), "%s.sock", sandbox->record.id);
    if (unlinkat(sandbox->launcher->state.run_fd, theirs, 0) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "cannot take back the sandbox's socket");
    return 0;
}

/* Its files go out of sight, with the socket among them. If they cannot, the sandbox stays as it
 * is, and whoever asked is told: false. */
static bool detach(struct sandbox *sandbox, struct peer_reply reply, char **ret_loose)
{
    const struct record *record = &sandbox->record;
    struct error err = ERROR_INIT;
    int r = unpublish(sandbox, &err);
    if (r == 0) {
        r = remove_detach(sandbox->launcher, record->id, record->range, ret_loose, &err);
        if (r < 0)
            publish(sandbox, NULL);
    }
    if (r == 0)
        return true;
    log_error("sandbox %s: %s", record->id, err.message);
    peer_answer(sandbox->launcher, reply, &err, NULL);
    return false;
}

/* Of one that has ended. Groups do not outlive the machine's power: after that there is none, and
 * its name may be that of another's by now. */
static const char *left_group(const struct sandbox *sandbox)
{
    const struct record *record = &sandbox->record;
    return str_equal(record->boot_id, sandbox->launcher->state.boot_id) ? record->cgroup : NULL;
}

static void discard(struct sandbox *sandbox, struct peer_reply reply)
{
    struct launcher *launcher = sandbox->launcher;
    AUTO_FREE char *loose = NULL;
    if (!detach(sandbox, reply, &loose))
        return;
    peer_answer(launcher, reply, NULL, NULL);
    const char *cgroup = left_group(sandbox);
    if (cgroup != NULL && spare_keep_group(launcher, cgroup))
        cgroup = NULL;
    remove_later(launcher, loose, cgroup, sandbox->record.range);
    drop(sandbox);
}

/* Whatever became of the process that should have done it: the sandbox is to end. */
static void disk_is_dropped(struct launcher *launcher, const char *id,
                            const struct message_limits *limits, struct peer_reply reply,
                            const struct error *err)
{
    (void)limits;
    (void)reply;
    if (err->code != ERR_OK)
        log_debug("sandbox %s: %s", id, err->message);
    remove_kill_dying(launcher);
}

/* What the sandbox has written to a loop file and the kernel has not would be written first, though
 * it is deleted next. Whether that is being taken care of, and its end with it. */
static bool drop_disk(struct sandbox *sandbox, int dir_fd)
{
    struct launcher *launcher = sandbox->launcher;
    const char *id = sandbox->record.id;
    if (launcher->disks.way != DISK_LOOP || sandbox->record.limits.disk_bytes == 0 ||
        sandbox->record.frozen || sandbox->killing != MESSAGE_EXIT_NONE || dir_fd < 0 ||
        disk_change_pending(launcher, id) ||
        disk_change_drop(launcher, id, dir_fd, sandbox->pidfd, disk_is_dropped, NULL) < 0)
        return false;
    sandbox->killing = MESSAGE_EXIT_KILLED;
    return true;
}

/* Its network, for the next one. Only of a child of ours: its number is nobody else's until we have
 * waited for it. */
static struct spare_network open_network(const struct sandbox *sandbox)
{
    struct spare_network network = {
        .fd = -1, .print = sandbox->network_print, .number = sandbox->record.network};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)sandbox->record.pid);
    if (network.print != 0)
        network.fd = open(path, O_RDONLY | O_CLOEXEC);
    return network;
}

/* Its files go first: a launcher killed in between leaves a sandbox that nobody has, which the next
 * one ends. A process that was killed may take longer to end than anybody wants to wait; for
 * everybody else the sandbox is gone now. */
static void discard_running(struct sandbox *sandbox, struct peer_reply reply)
{
    struct launcher *launcher = sandbox->launcher;
    const struct record *record = &sandbox->record;
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, NULL);
    AUTO_FREE char *loose = NULL;
    if (!detach(sandbox, reply, &loose))
        return;
    struct spare_network network = open_network(sandbox);
    if (!drop_disk(sandbox, dir))
        sandbox_end(sandbox, MESSAGE_EXIT_KILLED);
    loop_unwatch(&launcher->loop, &sandbox->exit_source);
    launcher->sandboxes.running--;
    sandbox->state = SANDBOX_EXITED;
    sandbox->record.exit_reason = sandbox->killing;
    sandbox->record.exit_status = SIGKILL;
    tell_exit(sandbox);
    peer_answer(launcher, reply, NULL, NULL);
    remove_after(launcher, TAKE_FD(sandbox->pidfd), loose, record->cgroup, record->range, network);
    drop(sandbox);
}

/* A sandbox we did not start has no status for us; that we killed it we know all the same. */
static void note_exit(struct sandbox *sandbox)
{
    siginfo_t info = {0};
    struct record *record = &sandbox->record;
    int r = waitid(P_PIDFD, (id_t)sandbox->pidfd, &info, WEXITED | WNOHANG);
    if (r == 0 && info.si_code == CLD_EXITED) {
        record->exit_reason = MESSAGE_EXIT_STATUS;
        record->exit_status = info.si_status;
    } else if (sandbox->killing != MESSAGE_EXIT_NONE) {
        record->exit_reason = sandbox->killing;
        record->exit_status = SIGKILL;
    } else if (r == 0 && info.si_pid != 0) {
        record->exit_reason = MESSAGE_EXIT_SIGNAL;
        record->exit_status = info.si_status;
    } else {
        record->exit_reason = MESSAGE_EXIT_LOST;
    }
    meter_read(sandbox);
    record->oom_kills = sandbox_oom_kills(sandbox);
    record->limits_hit = sandbox_limits_hit(sandbox);
    record->frozen = false;
}

/* What it has counted was read: with this descriptor the network goes, if all has ended. */
static void drop_network(struct sandbox *sandbox)
{
    sandbox->counters_fd = fd_close(sandbox->counters_fd);
    link_pool_release(sandbox->launcher, sandbox->record.network);
    sandbox->record.network = 0;
}

static void sandbox_exited(struct loop_source *source)
{
    struct sandbox *sandbox = CONTAINER_OF(source, struct sandbox, exit_source);
    struct launcher *launcher = sandbox->launcher;
    note_exit(sandbox);
    sandbox_change_cancel(sandbox);
    loop_unwatch(&launcher->loop, &sandbox->exit_source);
    sandbox->pidfd = fd_close(sandbox->pidfd);
    drop_network(sandbox);
    sandbox->state = SANDBOX_EXITED;
    launcher->sandboxes.running--;
    log_debug("sandbox %s ended: reason %u, status %d", sandbox->record.id,
              sandbox->record.exit_reason, sandbox->record.exit_status);

    /* On disk before anybody hears of it: a launcher killed in between must not call it lost. */
    meter_save(sandbox);
    write_record(sandbox);
    tell_exit(sandbox);
    launcher_check_idle(launcher);
}

/* Process 1 of the pid namespace: everything in it dies with it. A frozen one of v1 dies only when
 * it moves again, and does nothing else then, since the signal is there first. */
void sandbox_end(struct sandbox *sandbox, enum message_exit_reason reason)
{
    if (sandbox->killing == MESSAGE_EXIT_NONE)
        sandbox->killing = reason;
    int r = process_signal(sandbox->pidfd, SIGKILL);
    if (r < 0 && r != -ESRCH)
        log_error("cannot kill sandbox %s: %s", sandbox->record.id, strerror(-r));
    if (!sandbox->record.frozen && sandbox->change == SANDBOX_STEADY)
        return;
    sandbox_change_cancel(sandbox);
    r = cgroup_freeze(&sandbox->launcher->cgroups, sandbox->record.cgroup, false);
    if (r < 0)
        log_error("cannot thaw sandbox %s to end it: %s", sandbox->record.id, strerror(-r));
}

void sandbox_init_all(struct launcher *launcher)
{
    launcher->sandboxes = (struct sandboxes){0};
    sandbox_change_init(&launcher->sandboxes, &launcher->loop);
}

/* The beginning. */

struct cgroup_limits sandbox_cgroup_limits(const struct message_limits *limits)
{
    return (struct cgroup_limits){
        .memory_bytes = limits->memory_bytes,
        .io_read_bps = limits->io_read_bps,
        .io_write_bps = limits->io_write_bps,
        .io_read_iops = limits->io_read_iops,
        .io_write_iops = limits->io_write_iops,
        .cpu_millis = limits->cpu_millis,
        .pids = limits->pids,
    };
}

/* Whether a slot of this shape can be made here. */
static int shape_check(struct launcher *launcher, const struct slot_shape *shape, struct error *err)
{
    int fd;
    if (!str_equal(shape->image, SLOT_IMAGE_HOST))
        return images_get(&launcher->images, shape->image, &fd, err);
    if (launcher->image_error.code == ERR_OK)
        return 0;
    *err = launcher->image_error;
    return -1;
}

static int check_request(struct launcher *launcher, const struct message_create *request,
                         const struct slot_shape *shape, struct error *err)
{
    if (sandbox_find(launcher, request->id) != NULL)
        return error_set(err, ERR_CONFLICT, "sandbox %s exists already", request->id);
    int r = shape_check(launcher, shape, err);
    if (r < 0)
        return r;
    if (request->network == MESSAGE_NETWORK_NAT && !launcher->nat.on)
        return error_set(err, ERR_UNSUPPORTED, "there is no network mode nat here: %s",
                         launcher->nat.reason);
    if (launcher->sandboxes.queued >= SANDBOX_QUEUE_MAX)
        return error_set(err, ERR_UNAVAILABLE, "%d sandboxes are waiting to be made already",
                         SANDBOX_QUEUE_MAX);
    struct cgroup_limits limits = sandbox_cgroup_limits(&request->limits);
    r = cgroup_check(&launcher->cgroups, &limits, err);
    if (r == 0)
        r = disk_check(&launcher->disks, &launcher->state, request->limits.disk_bytes, err);
    if (r == 0)
        r = nofile_check(request->limits.open_files, err);
    return r < 0 ? r : volume_check(launcher, request, err);
}

void sandbox_create(struct launcher *launcher, const struct message_create *request,
                    struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct slot_shape shape = {
        .disk_bytes = disk_shape_bytes(&launcher->disks, request->limits.disk_bytes),
        .read_only = (request->flags & MESSAGE_READ_ONLY_ROOT) != 0,
        .network = request->network,
    };
    memcpy(shape.image, request->image, sizeof(shape.image));
    if (check_request(launcher, request, &shape, &err) < 0) {
        peer_answer(launcher, reply, &err, NULL);
        return;
    }
    struct sandbox *sandbox = insert(launcher, request->id);
    struct record *record = &sandbox->record;
    sandbox->shape = shape;
    sandbox->shape.volumes = volume_list_new(request->volumes, request->volume_count);
    memcpy(record->image, request->image, sizeof(record->image));
    record->read_only = shape.read_only;
    record->limits = request->limits;
    record->limits_known = true;
    record->deadline_unix_ms = request->deadline_unix_ms;
    sandbox->create_reply = reply;
    sandbox->asked_ms = clock_monotonic_ms();
    enqueue(sandbox);
    slot_pump(launcher);
}

/* The slot's directory gets the sandbox's name, and the record is written. */
static int take_files(struct sandbox *sandbox, const struct slot *slot, struct error *err)
{
    const struct state *state = &sandbox->launcher->state;
    const char *id = sandbox->record.id;
    if (renameat(state->loose_fd, slot->directory, state->sandboxes_fd, id) < 0)
        return error_set_errno(err, errno, "cannot name the sandbox's directory");
    sandbox->has_directory = true;
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, err);
    if (dir < 0)
        return dir;
    return record_write(dir, &sandbox->record, err);
}

/* The slot ends, and takes with it what was made for the sandbox so far. */
static void give_up_slot(struct sandbox *sandbox, struct slot *slot)
{
    struct launcher *launcher = sandbox->launcher;
    struct error err = ERROR_INIT;
    char *directory = NULL;
    if (sandbox->has_directory &&
        remove_detach(launcher, sandbox->record.id, sandbox->record.range, &directory, &err) < 0) {
        log_warn("sandbox %s: %s", sandbox->record.id, err.message);
        directory = remove_in_place(sandbox->record.id);
    }
    sandbox->has_directory = false;
    slot_discard(slot, directory);
}

/* The exit source is watched by now. */
static void enter_running(struct sandbox *sandbox, int pidfd)
{
    sandbox->pidfd = pidfd;
    sandbox->state = SANDBOX_RUNNING;
    sandbox->launcher->sandboxes.running++;
    sandbox_watch_deadline(sandbox);
    meter_wake(sandbox->launcher);
}

static void fill_record(struct sandbox *sandbox, const struct slot *slot)
{
    struct record *record = &sandbox->record;
    record->pid = slot->pid;
    record->start_ticks = slot->start_ticks;
    record->range = slot->range;
    record->network = slot->network.number;
    sandbox->network_print = slot->network.print;
    record->created_unix_ms = (uint64_t)clock_unix_ms();
    snprintf(record->cgroup, sizeof(record->cgroup), "%s", slot->cgroup);
    memcpy(record->boot_id, sandbox->launcher->state.boot_id, sizeof(record->boot_id));
}

static int set_first_limits(struct sandbox *sandbox, struct error *err)
{
    struct launcher *launcher = sandbox->launcher;
    const struct record *record = &sandbox->record;
    struct cgroup_limits limits = sandbox_cgroup_limits(&record->limits);
    int r = cgroup_limit_new(&launcher->cgroups, record->cgroup, &limits);
    if (r == 0 && record->limits.open_files != 0)
        r = nofile_set(record->pid, powers_first_id(&launcher->powers, record->range),
                       record->limits.open_files);
    if (r < 0)
        return error_set_errno(err, -r, "cannot set the limits");
    return disk_limit(&launcher->disks, &launcher->state, record->range, record->limits.disk_bytes,
                      err);
}

static void become(struct sandbox *sandbox, struct slot *slot)
{
    struct launcher *launcher = sandbox->launcher;
    loop_hand_over(&launcher->loop, &slot->exit_source, &sandbox->exit_source, sandbox_exited);
    meter_start(&sandbox->meter);
    sandbox->counters_fd = TAKE_FD(slot->counters_fd);
    enter_running(sandbox, TAKE_FD(slot->pidfd));
    slot_release(slot);
    char socket[SANDBOX_SOCKET_MAX];
    sandbox_socket_path(sandbox, socket);
    peer_answer(launcher, sandbox->create_reply, NULL, socket);
    log_debug("sandbox %s runs as process %d", sandbox->record.id, (int)sandbox->record.pid);
}

/* In this order: when it is published it lives without us, and its record must be there. */
void sandbox_begin(struct sandbox *sandbox, struct slot *slot)
{
    struct error err = ERROR_INIT;
    unqueue(sandbox);
    fill_record(sandbox, slot);
    int r = set_first_limits(sandbox, &err);
    if (r == 0)
        r = take_files(sandbox, slot, &err);
    if (r == 0 && !slot_is_alive(slot)) {
        give_up_slot(sandbox, slot);
        enqueue_first(sandbox); /* dead before it was somebody's: another one will do */
        return;
    }
    if (r == 0)
        r = publish(sandbox, &err);
    if (r < 0) {
        give_up_slot(sandbox, slot);
        sandbox_failed(sandbox, &err);
    } else {
        become(sandbox, slot);
    }
}

void sandbox_failed(struct sandbox *sandbox, const struct error *err)
{
    struct launcher *launcher = sandbox->launcher;
    if (log_admits(&launcher->sandboxes.complaints))
        log_warn("sandbox %s could not be made: %s", sandbox->record.id, err->message);
    unqueue(sandbox);
    if (sandbox->slot != NULL)
        slot_discard(TAKE_PTR(sandbox->slot), NULL);
    peer_answer(launcher, sandbox->create_reply, err, NULL);
    drop(sandbox);
}

/* It may have been killed for what was asked of it, so only one more is made. */
void sandbox_bereft(struct sandbox *sandbox, const struct error *err)
{
    if (sandbox->retried)
        sandbox_failed(sandbox, err);
    else
        sandbox->retried = true;
}

/* Without its counters it is still a sandbox; what was read before stands. */
static void adopt_network(struct sandbox *sandbox, bool runs)
{
    struct record *record = &sandbox->record;
    if (record->network == 0)
        return;
    if (!runs) {
        record->network = 0;
        return;
    }
    int r = link_pool_reserve(sandbox->launcher, record->network);
    if (r < 0)
        log_warn("sandbox %s: its network %u is another one's as well", record->id,
                 record->network);
    r = link_open_counters((int)record->pid);
    if (r < 0)
        log_warn("sandbox %s: cannot count what goes over its network: %s", record->id,
                 strerror(-r));
    else
        sandbox->counters_fd = r;
}

/* Those that outlive it, and must not be deleted while it is there. */
static void find_volumes(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, &err);
    if (dir < 0 || volume_read_names(dir, &sandbox->shape.volumes, &err) < 0)
        log_error("sandbox %s: cannot tell which volumes it uses: %s", sandbox->record.id,
                  err.message);
}

int sandbox_adopt(struct launcher *launcher, const struct record *record, int pidfd,
                  struct error *err)
{
    struct sandbox *sandbox = insert(launcher, record->id);
    sandbox->record = *record;
    find_volumes(sandbox);
    meter_load(sandbox);
    adopt_network(sandbox, pidfd >= 0);
    if (pidfd >= 0) {
        int r = loop_watch(&launcher->loop, &sandbox->exit_source, pidfd, sandbox_exited, err);
        if (r < 0) {
            forget(sandbox);
            return r;
        }
        enter_running(sandbox, pidfd);
        sandbox_restore(sandbox);
        return 0;
    }
    sandbox->state = SANDBOX_EXITED;
    if (record->exit_reason == MESSAGE_EXIT_NONE) {
        sandbox->record.exit_reason = MESSAGE_EXIT_LOST;
        write_record(sandbox);
    }
    return 0;
}

/* Requests about one there is. */

static struct sandbox *find_or_answer(struct launcher *launcher, const char *id,
                                      struct peer_reply reply)
{
    struct sandbox *sandbox = sandbox_find(launcher, id);
    if (sandbox == NULL) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_NOT_FOUND, "no sandbox %s", id);
        peer_answer(launcher, reply, &err, NULL);
    }
    return sandbox;
}

struct sandbox *sandbox_find_changeable(struct launcher *launcher, const char *id,
                                        struct peer_reply reply)
{
    struct sandbox *sandbox = find_or_answer(launcher, id, reply);
    if (sandbox == NULL)
        return NULL;
    struct error err = ERROR_INIT;
    if (sandbox->state < SANDBOX_RUNNING)
        error_set(&err, ERR_CONFLICT, "sandbox %s is still being made", id);
    else if (sandbox->state == SANDBOX_EXITED)
        error_set(&err, ERR_CONFLICT, "sandbox %s has ended", id);
    else if (sandbox->killing != MESSAGE_EXIT_NONE)
        error_set(&err, ERR_CONFLICT, "sandbox %s is being killed", id);
    if (err.code == ERR_OK)
        return sandbox;
    peer_answer(launcher, reply, &err, NULL);
    return NULL;
}

void sandbox_kill(struct launcher *launcher, const char *id, struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct sandbox *sandbox = find_or_answer(launcher, id, reply);
    if (sandbox == NULL)
        return;
    if (sandbox->state < SANDBOX_RUNNING)
        error_set(&err, ERR_CONFLICT, "sandbox %s is still being made", id);
    else if (sandbox->state == SANDBOX_RUNNING)
        sandbox_end(sandbox, MESSAGE_EXIT_KILLED);
    peer_answer(launcher, reply, &err, NULL);
}

void sandbox_remove(struct launcher *launcher, const char *id, struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct sandbox *sandbox = find_or_answer(launcher, id, reply);
    if (sandbox == NULL)
        return;
    switch (sandbox->state) {
    case SANDBOX_QUEUED:
        error_set(&err, ERR_CONFLICT, "sandbox %s was removed before it was made", id);
        sandbox_failed(sandbox, &err);
        peer_answer(launcher, reply, NULL, NULL);
        break;
    case SANDBOX_RUNNING:
        discard_running(sandbox, reply);
        break;
    case SANDBOX_EXITED:
        discard(sandbox, reply);
        break;
    }
}
