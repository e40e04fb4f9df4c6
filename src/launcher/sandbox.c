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
#include "launcher/slot_process.h"

#define SOCKET_MAX sizeof(((struct message_sandbox *)0)->socket)

/* How long a deadline may oversleep a step of the wall clock. */
#define DEADLINE_CHECK_MS 60000u

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
    fd_close(sandbox->pidfd);
    free(sandbox);
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
}

static void unqueue(struct sandbox *sandbox)
{
    struct sandboxes *table = &sandbox->launcher->sandboxes;
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
    table->queued--;
}

struct sandbox *sandbox_dequeue(struct launcher *launcher)
{
    struct sandbox *sandbox = launcher->sandboxes.queue_head;
    if (sandbox != NULL)
        unqueue(sandbox);
    return sandbox;
}

void sandbox_free_all(struct launcher *launcher)
{
    while (launcher->sandboxes.count > 0)
        forget(launcher->sandboxes.items[launcher->sandboxes.count - 1]);
    free(TAKE_PTR(launcher->sandboxes.items));
    launcher->sandboxes = (struct sandboxes){0};
}

/* What servers are told. */

static void socket_path(const struct sandbox *sandbox, char ret[SOCKET_MAX])
{
    snprintf(ret, SOCKET_MAX, "%s/%s.sock", sandbox->launcher->state.run_path, sandbox->record.id);
}

static void describe(const struct sandbox *sandbox, struct message_sandbox *ret)
{
    memcpy(ret->id, sandbox->record.id, sizeof(sandbox->record.id));
    ret->state = sandbox->state == SANDBOX_EXITED ? MESSAGE_EXITED : MESSAGE_RUNNING;
    ret->exit_reason = sandbox->record.exit_reason;
    ret->exit_status = sandbox->record.exit_status;
    ret->oom_kills = sandbox->record.oom_kills;
    ret->created_unix_ms = sandbox->record.created_unix_ms;
    socket_path(sandbox, ret->socket);
}

void sandbox_list(struct launcher *launcher, const char *after, struct message_sandboxes *page)
{
    const struct sandboxes *table = &launcher->sandboxes;
    size_t at = position(table, after);
    if (at < table->count && str_equal(table->items[at]->record.id, after))
        at++;
    for (; at < table->count; at++) {
        if (table->items[at]->state < SANDBOX_RUNNING)
            continue;
        if (page->count == MESSAGE_SANDBOXES_MAX) {
            page->more = 1;
            break;
        }
        describe(table->items[at], &page->items[page->count++]);
    }
}

/* The end. */

static void write_record(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int dir = openat(sandbox->launcher->state.sandboxes_fd, sandbox->record.id,
                                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        error_set_errno(&err, errno, "cannot open its directory");
    else
        record_write(dir, &sandbox->record, &err);
    if (err.code != ERR_OK)
        log_error("sandbox %s: %s", sandbox->record.id, err.message);
}

static void unlink_socket(const struct sandbox *sandbox)
{
    char name[ID_UUID_LEN + 8];
    snprintf(name, sizeof(name), "%s.sock", sandbox->record.id);
    unlinkat(sandbox->launcher->state.run_fd, name, 0);
}

/* Out of the table, its files out of sight and on their way out. Moving its directory is the moment
 * at which it is gone: a launcher killed before that finds a sandbox that has ended, one killed
 * after it finds nothing but things to delete. If it cannot be moved, the sandbox stays: false. */
static bool discard(struct sandbox *sandbox)
{
    struct launcher *launcher = sandbox->launcher;
    struct error err = ERROR_INIT;
    AUTO_FREE char *loose = NULL;
    if (remove_detach(launcher, sandbox->record.id, sandbox->record.range, &loose, &err) < 0) {
        log_error("sandbox %s: %s", sandbox->record.id, err.message);
        sandbox->removing = false;
        peer_answer(launcher, sandbox->remove_reply, &err, NULL);
        return false;
    }
    unlink_socket(sandbox);
    peer_answer(launcher, sandbox->remove_reply, NULL, NULL);
    remove_later(launcher, loose, sandbox->record.cgroup, sandbox->record.range);
    forget(sandbox);
    return true;
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
    record->oom_kills = cgroup_oom_kills(&sandbox->launcher->cgroups, record->cgroup);
}

static void sandbox_exited(struct loop_source *source)
{
    struct sandbox *sandbox = CONTAINER_OF(source, struct sandbox, exit_source);
    struct launcher *launcher = sandbox->launcher;
    note_exit(sandbox);
    loop_unwatch(&launcher->loop, &sandbox->exit_source);
    sandbox->pidfd = fd_close(sandbox->pidfd);
    sandbox->state = SANDBOX_EXITED;
    launcher->sandboxes.running--;
    log_debug("sandbox %s ended: reason %u, status %d", sandbox->record.id,
              sandbox->record.exit_reason, sandbox->record.exit_status);

    union message event;
    message_init(&event, MESSAGE_EXIT, 0);
    describe(sandbox, &event.exit.sandbox);
    peer_broadcast(launcher, &event);
    if (!sandbox->removing || !discard(sandbox))
        write_record(sandbox);
    launcher_check_idle(launcher);
}

/* Process 1 of the pid namespace: everything in it dies with it. */
static void kill_process(struct sandbox *sandbox, enum message_exit_reason reason)
{
    if (sandbox->killing == MESSAGE_EXIT_NONE)
        sandbox->killing = reason;
    int r = process_signal(sandbox->pidfd, SIGKILL);
    if (r < 0 && r != -ESRCH)
        log_error("cannot kill sandbox %s: %s", sandbox->record.id, strerror(-r));
}

/* Deadlines. */

static void wait_for_deadline(struct sandboxes *table, uint64_t deadline_ms)
{
    if (table->next_deadline_ms != 0 && table->next_deadline_ms <= deadline_ms)
        return;
    uint64_t now = (uint64_t)clock_unix_ms();
    uint64_t wait = deadline_ms > now ? deadline_ms - now : 0;
    table->next_deadline_ms = deadline_ms;
    loop_timer_set(&table->deadline_timer, MIN(wait, (uint64_t)DEADLINE_CHECK_MS));
}

static void deadline_fired(struct loop_timer *timer)
{
    struct sandboxes *table = CONTAINER_OF(timer, struct sandboxes, deadline_timer);
    uint64_t now = (uint64_t)clock_unix_ms();
    table->next_deadline_ms = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct sandbox *sandbox = table->items[i];
        uint64_t deadline = sandbox->record.deadline_unix_ms;
        if (sandbox->state != SANDBOX_RUNNING || deadline == 0)
            continue;
        if (deadline <= now && sandbox->killing == MESSAGE_EXIT_NONE)
            kill_process(sandbox, MESSAGE_EXIT_DEADLINE);
        else if (deadline > now)
            wait_for_deadline(table, deadline);
    }
}

void sandbox_init_all(struct launcher *launcher)
{
    launcher->sandboxes = (struct sandboxes){0};
    loop_timer_add(&launcher->loop, &launcher->sandboxes.deadline_timer, deadline_fired);
}

/* The beginning. */

static int check_request(struct launcher *launcher, const struct message_create *request,
                         const struct cgroup_limits *limits, struct error *err)
{
    if (sandbox_find(launcher, request->id) != NULL)
        return error_set(err, ERR_CONFLICT, "sandbox %s exists already", request->id);
    if (!str_equal(request->image, "host"))
        return error_set(err, ERR_NOT_FOUND, "no image '%s'; this launcher has: host",
                         request->image);
    if (launcher->image_error.code != ERR_OK) {
        *err = launcher->image_error;
        return -1;
    }
    if (launcher->sandboxes.queued >= SANDBOX_QUEUE_MAX)
        return error_set(err, ERR_UNAVAILABLE, "%d sandboxes are waiting to be made already",
                         SANDBOX_QUEUE_MAX);
    return cgroup_check(&launcher->cgroups, limits, err);
}

void sandbox_create(struct launcher *launcher, const struct message_create *request,
                    struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct cgroup_limits limits = {
        .memory_bytes = request->memory_bytes,
        .cpu_millis = request->cpu_millis,
        .pids = request->pids,
    };
    if (check_request(launcher, request, &limits, &err) < 0) {
        peer_answer(launcher, reply, &err, NULL);
        return;
    }
    struct sandbox *sandbox = insert(launcher, request->id);
    sandbox->limits = limits;
    sandbox->record.deadline_unix_ms = request->deadline_unix_ms;
    sandbox->create_reply = reply;
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
    AUTO_CLOSE int dir =
        openat(state->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "cannot open the sandbox's directory");
    return record_write(dir, &sandbox->record, err);
}

/* The moment at which there is a sandbox: a launcher that finds a record without a socket knows
 * that CREATE was not answered and clears it away. */
static int publish_socket(const struct sandbox *sandbox, struct error *err)
{
    const struct state *state = &sandbox->launcher->state;
    char from[ID_UUID_LEN + sizeof("/" SLOT_SOCKET)], to[ID_UUID_LEN + 8];
    snprintf(from, sizeof(from), "%s/%s", sandbox->record.id, SLOT_SOCKET);
    snprintf(to, sizeof(to), "%s.sock", sandbox->record.id);
    if (renameat(state->sandboxes_fd, from, state->run_fd, to) < 0)
        return error_set_errno(err, errno, "cannot name the sandbox's socket");
    return 0;
}

/* The slot ends, and takes with it what was made for the sandbox so far. */
static void give_up_slot(struct sandbox *sandbox)
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
    slot_discard(TAKE_PTR(sandbox->slot), directory);
}

static void queue_again(struct sandbox *sandbox)
{
    give_up_slot(sandbox);
    sandbox->state = SANDBOX_QUEUED;
    enqueue(sandbox);
}

/* The record is there before the order goes out: from then on the process may become a sandbox even
 * if this launcher dies, and the next one must find it. */
void sandbox_begin(struct sandbox *sandbox, struct slot *slot)
{
    struct launcher *launcher = sandbox->launcher;
    struct record *record = &sandbox->record;
    record->pid = slot->pid;
    record->start_ticks = slot->start_ticks;
    record->range = slot->range;
    record->created_unix_ms = (uint64_t)clock_unix_ms();
    snprintf(record->cgroup, sizeof(record->cgroup), "%s", slot->cgroup);
    memcpy(record->boot_id, launcher->state.boot_id, sizeof(record->boot_id));
    sandbox->state = SANDBOX_STARTING;
    sandbox->slot = slot;

    struct error err = ERROR_INIT;
    if (take_files(sandbox, slot, &err) < 0)
        sandbox_failed(sandbox, &err);
    else if (slot_send_order(slot, sandbox) < 0)
        queue_again(sandbox); /* dead before it heard of this; each such slot is gone afterwards */
}

/* The exit source is watched by now. */
static void enter_running(struct sandbox *sandbox, int pidfd)
{
    sandbox->pidfd = pidfd;
    sandbox->state = SANDBOX_RUNNING;
    sandbox->launcher->sandboxes.running++;
    if (sandbox->record.deadline_unix_ms != 0)
        wait_for_deadline(&sandbox->launcher->sandboxes, sandbox->record.deadline_unix_ms);
}

void sandbox_started(struct sandbox *sandbox)
{
    struct launcher *launcher = sandbox->launcher;
    struct error err = ERROR_INIT;
    if (publish_socket(sandbox, &err) < 0) {
        sandbox_failed(sandbox, &err);
        return;
    }
    struct slot *slot = TAKE_PTR(sandbox->slot);
    loop_hand_over(&launcher->loop, &slot->exit_source, &sandbox->exit_source, sandbox_exited);
    enter_running(sandbox, TAKE_FD(slot->pidfd));
    slot_release(slot);
    char socket[SOCKET_MAX];
    socket_path(sandbox, socket);
    peer_answer(launcher, sandbox->create_reply, NULL, socket);
    log_debug("sandbox %s runs as process %d", sandbox->record.id, (int)sandbox->record.pid);
}

void sandbox_failed(struct sandbox *sandbox, const struct error *err)
{
    struct launcher *launcher = sandbox->launcher;
    log_warn("sandbox %s could not be made: %s", sandbox->record.id, err->message);
    if (sandbox->slot != NULL)
        give_up_slot(sandbox);
    peer_answer(launcher, sandbox->create_reply, err, NULL);
    peer_answer(launcher, sandbox->remove_reply, NULL, NULL);
    forget(sandbox);
}

/* A slot that was killed while it waited is no reason not to take another. One that was killed on
 * its way may have been so for what was asked of it: that is tried once more. */
void sandbox_bereft(struct sandbox *sandbox, bool heard, const struct error *err)
{
    if (sandbox->removing || (heard && sandbox->retried)) {
        sandbox_failed(sandbox, err);
        return;
    }
    sandbox->retried = sandbox->retried || heard;
    queue_again(sandbox);
}

int sandbox_adopt(struct launcher *launcher, const struct record *record, int pidfd,
                  struct error *err)
{
    struct sandbox *sandbox = insert(launcher, record->id);
    sandbox->record = *record;
    if (pidfd >= 0) {
        int r = loop_watch(&launcher->loop, &sandbox->exit_source, pidfd, sandbox_exited, err);
        if (r < 0)
            forget(sandbox);
        else
            enter_running(sandbox, pidfd);
        return r;
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

void sandbox_kill(struct launcher *launcher, const char *id, struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct sandbox *sandbox = find_or_answer(launcher, id, reply);
    if (sandbox == NULL)
        return;
    if (sandbox->state < SANDBOX_RUNNING)
        error_set(&err, ERR_CONFLICT, "sandbox %s is still being made", id);
    else if (sandbox->state == SANDBOX_RUNNING)
        kill_process(sandbox, MESSAGE_EXIT_KILLED);
    peer_answer(launcher, reply, &err, NULL);
}

void sandbox_remove(struct launcher *launcher, const char *id, struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct sandbox *sandbox = find_or_answer(launcher, id, reply);
    if (sandbox == NULL)
        return;
    if (sandbox->removing) {
        error_set(&err, ERR_CONFLICT, "sandbox %s is being removed already", id);
        peer_answer(launcher, reply, &err, NULL);
        return;
    }
    sandbox->removing = true;
    sandbox->remove_reply = reply;
    switch (sandbox->state) {
    case SANDBOX_QUEUED:
        unqueue(sandbox);
        error_set(&err, ERR_CONFLICT, "sandbox %s was removed before it was made", id);
        sandbox_failed(sandbox, &err);
        break;
    case SANDBOX_STARTING:
        process_signal(sandbox->slot->pidfd,
                       SIGKILL); /* the slot's end is told to sandbox_failed */
        break;
    case SANDBOX_RUNNING:
        kill_process(sandbox, MESSAGE_EXIT_KILLED);
        break;
    case SANDBOX_EXITED:
        discard(sandbox);
        break;
    }
}
