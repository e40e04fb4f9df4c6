/* Changing a sandbox that runs: limits, deadline, freezing.
 *
 * The record is the promise: it is written so that a launcher killed between any two steps leaves
 * one of which the next launcher, by making it true (sandbox_restore()), gets to the state before
 * the change or to the one after it. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher.h"
#include "launcher/nofile.h"

#define DEADLINE_CHECK_MS 60000u /* how long a deadline may oversleep a step of the wall clock */
#define CHANGE_MAX_MS     10000u
#define CHANGE_LOOK_MS    50u  /* at most, between two looks */
#define CHANGE_ANEW_MS    200u /* when nothing has come of it */

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

void sandbox_watch_deadline(struct sandbox *sandbox)
{
    if (sandbox->record.deadline_unix_ms != 0)
        wait_for_deadline(&sandbox->launcher->sandboxes, sandbox->record.deadline_unix_ms);
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
            sandbox_end(sandbox, MESSAGE_EXIT_DEADLINE);
        else if (deadline > now)
            wait_for_deadline(table, deadline);
    }
}

void sandbox_set_deadline(struct launcher *launcher, const char *id, uint64_t deadline_unix_ms,
                          struct peer_reply reply)
{
    struct sandbox *sandbox = sandbox_find_changeable(launcher, id, reply);
    if (sandbox == NULL)
        return;
    struct error err = ERROR_INIT;
    uint64_t before = sandbox->record.deadline_unix_ms;
    sandbox->record.deadline_unix_ms = deadline_unix_ms;
    if (sandbox_write_record(sandbox, &err) < 0)
        sandbox->record.deadline_unix_ms = before;
    else
        sandbox_watch_deadline(sandbox);
    peer_answer(launcher, reply, &err, NULL);
}

/* Limits. */

static int set_cgroup_limits(const struct sandbox *sandbox, const struct message_limits *limits)
{
    struct cgroup_limits wanted = sandbox_cgroup_limits(limits);
    return cgroup_limit(&sandbox->launcher->cgroups, sandbox->record.cgroup, &wanted);
}

static int set_disk_limit(const struct sandbox *sandbox, const struct message_limits *limits,
                          struct error *err)
{
    const struct launcher *launcher = sandbox->launcher;
    return disk_limit(&launcher->disks, &launcher->state, sandbox->record.range, limits->disk_bytes,
                      err);
}

static int check_limits(const struct sandbox *sandbox, const struct message_limits *limits,
                        struct error *err)
{
    const struct record *record = &sandbox->record;
    struct cgroup_limits wanted = sandbox_cgroup_limits(limits);
    if (disk_change_pending(sandbox->launcher, record->id))
        return error_set(err, ERR_CONFLICT, "the disk of sandbox %s is being changed already",
                         record->id);
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, err);
    if (dir < 0)
        return dir;
    int r = disk_check_change(&sandbox->launcher->disks, &sandbox->launcher->state, record->range,
                              dir, record->limits.disk_bytes, limits->disk_bytes, err);
    if (r < 0)
        return r;
    r = cgroup_check(&sandbox->launcher->cgroups, &wanted, err);
    if (r < 0)
        return r;
    return nofile_check_change(nofile_effective(record->limits.open_files),
                               nofile_effective(limits->open_files), err);
}

static int refused_by_kernel(const struct sandbox *sandbox, const struct message_limits *limits,
                             int r, struct error *err)
{
    if (r != -EBUSY)
        return error_set_errno(err, -r, "cannot set the limits of sandbox %s", sandbox->record.id);
    struct cgroup_usage usage = {0};
    cgroup_usage(&sandbox->launcher->cgroups, sandbox->record.cgroup, &usage);
    return error_set(err, ERR_CONFLICT,
                     "memory cannot be limited to %llu bytes: sandbox %s uses %llu and they cannot "
                     "be freed",
                     (unsigned long long)limits->memory_bytes, sandbox->record.id,
                     (unsigned long long)usage.memory_bytes);
}

/* What can be undone comes first, then the record, then the files of its processes: those cannot be
 * raised again everywhere, so they follow a record that stays. A launcher that dies before the
 * record is written leaves the old one, which the next makes true. */
static int change_limits(struct sandbox *sandbox, const struct message_limits *limits,
                         struct error *err)
{
    struct record *record = &sandbox->record;
    struct message_limits before = record->limits;
    bool known = record->limits_known;
    int r = set_cgroup_limits(sandbox, limits);
    if (r < 0)
        r = refused_by_kernel(sandbox, limits, r, err);
    if (r == 0)
        r = set_disk_limit(sandbox, limits, err);
    if (r == 0) {
        record->limits = *limits;
        record->limits_known = true;
        r = sandbox_write_record(sandbox, err);
    }
    if (r == 0)
        r = nofile_change(&sandbox->launcher->cgroups, record->cgroup, record->pid,
                          powers_first_id(&sandbox->launcher->powers, record->range),
                          nofile_effective(before.open_files), nofile_effective(limits->open_files),
                          err);
    if (r == 0)
        return 0;
    struct error undo = ERROR_INIT;
    record->limits = before;
    record->limits_known = known;
    if (known &&
        (set_cgroup_limits(sandbox, &before) < 0 || set_disk_limit(sandbox, &before, &undo) < 0))
        log_error("sandbox %s: cannot set its former limits again", record->id);
    if (sandbox_write_record(sandbox, &undo) < 0)
        log_error("sandbox %s: %s", record->id, undo.message);
    return r;
}

static bool needs_growth(const struct sandbox *sandbox, const struct message_limits *limits)
{
    return sandbox->launcher->disks.way == DISK_LOOP &&
           limits->disk_bytes != sandbox->record.limits.disk_bytes;
}

/* The rest of the change. That the disk has grown stays, even if the rest fails. */
static void disk_has_grown(struct launcher *launcher, const char *id,
                           const struct message_limits *limits, struct peer_reply reply,
                           const struct error *growth)
{
    if (growth->code != ERR_OK) {
        peer_answer(launcher, reply, growth, NULL);
        return;
    }
    struct sandbox *sandbox = sandbox_find_changeable(launcher, id, reply);
    if (sandbox == NULL)
        return;
    struct error err = ERROR_INIT;
    sandbox->record.limits.disk_bytes = limits->disk_bytes;
    change_limits(sandbox, limits, &err);
    peer_answer(launcher, reply, &err, NULL);
}

static int start_growth(const struct sandbox *sandbox, const struct message_limits *limits,
                        struct peer_reply reply, struct error *err)
{
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, err);
    if (dir < 0)
        return dir;
    return disk_change_start(sandbox->launcher, sandbox->record.id, dir, limits, reply,
                             disk_has_grown, err);
}

void sandbox_set_limits(struct launcher *launcher, const char *id,
                        const struct message_limits *limits, struct peer_reply reply)
{
    struct sandbox *sandbox = sandbox_find_changeable(launcher, id, reply);
    if (sandbox == NULL)
        return;
    struct error err = ERROR_INIT;
    int r = check_limits(sandbox, limits, &err);
    if (r == 0 && needs_growth(sandbox, limits)) {
        if (start_growth(sandbox, limits, reply, &err) == 0)
            return;
    } else if (r == 0) {
        change_limits(sandbox, limits, &err);
    }
    peer_answer(launcher, reply, &err, NULL);
}

/* Freezing. */

static int ask_kernel(const struct sandbox *sandbox, bool frozen, struct error *err)
{
    int r = cgroup_freeze(&sandbox->launcher->cgroups, sandbox->record.cgroup, frozen);
    const char *none = sandbox->launcher->cgroups.none;
    if (r == -ENOTSUP && none[0] != '\0')
        return error_set(err, ERR_UNSUPPORTED, "sandboxes cannot be frozen: %s", none);
    if (r == -ENOTSUP)
        return error_set(err, ERR_UNSUPPORTED,
                         "sandboxes cannot be frozen: this machine has no usable freezer cgroup "
                         "controller");
    if (r < 0)
        return error_set_errno(err, -r, "cannot %s sandbox %s", frozen ? "freeze" : "thaw",
                               sandbox->record.id);
    return 0;
}

static int note_frozen(struct sandbox *sandbox, bool frozen, struct error *err)
{
    sandbox->record.frozen = frozen;
    int r = sandbox_write_record(sandbox, err);
    if (r < 0)
        sandbox->record.frozen = !frozen;
    return r;
}

static void leave_change(struct sandbox *sandbox, const struct error *err)
{
    struct launcher *launcher = sandbox->launcher;
    struct sandbox **link = &launcher->sandboxes.changing;
    while (*link != sandbox)
        link = &(*link)->change_next;
    *link = TAKE_PTR(sandbox->change_next);
    sandbox->change = SANDBOX_STEADY;
    peer_answer(launcher, sandbox->change_reply, err, NULL);
}

void sandbox_change_cancel(struct sandbox *sandbox)
{
    if (sandbox->change == SANDBOX_STEADY)
        return;
    struct error err = ERROR_INIT;
    error_set(&err, ERR_CONFLICT, "sandbox %s ended before it was %s", sandbox->record.id,
              sandbox->change == SANDBOX_FREEZING ? "frozen" : "thawed");
    leave_change(sandbox, &err);
}

/* As it was, and told so. */
static void undo_change(struct sandbox *sandbox, const struct error *why)
{
    struct error err = ERROR_INIT;
    bool before = sandbox->change == SANDBOX_THAWING;
    if (ask_kernel(sandbox, before, &err) < 0 || note_frozen(sandbox, before, &err) < 0)
        log_error("sandbox %s: %s", sandbox->record.id, err.message);
    leave_change(sandbox, why);
}

/* Version 1 can miss a process that is just being made, and is then never done: asked anew it looks
 * at all of them again, but only after a thaw. */
static void ask_anew(struct sandbox *sandbox, bool wanted)
{
    struct error err = ERROR_INIT;
    if (clock_monotonic_ms() - sandbox->change_since_ms < CHANGE_ANEW_MS)
        return;
    if (ask_kernel(sandbox, !wanted, &err) < 0 || ask_kernel(sandbox, wanted, &err) < 0)
        log_warn("sandbox %s: %s", sandbox->record.id, err.message);
}

/* Whether it is there by now. */
static void look_at_change(struct sandbox *sandbox)
{
    bool frozen = false;
    bool wanted = sandbox->change == SANDBOX_FREEZING;
    struct error err = ERROR_INIT;
    int r = cgroup_frozen(&sandbox->launcher->cgroups, sandbox->record.cgroup, &frozen);
    if (r == 0 && frozen == wanted) {
        leave_change(sandbox, NULL);
        return;
    }
    if (r < 0)
        error_set_errno(&err, -r, "cannot tell whether sandbox %s is frozen", sandbox->record.id);
    else if (clock_monotonic_ms() - sandbox->change_since_ms >= CHANGE_MAX_MS)
        error_set(&err, ERR_TIMEOUT, "sandbox %s could not be %s within %u seconds",
                  sandbox->record.id, wanted ? "frozen" : "thawed", CHANGE_MAX_MS / 1000);
    if (err.code != ERR_OK)
        undo_change(sandbox, &err);
    else
        ask_anew(sandbox, wanted);
}

/* The longer it takes, the rarer the looks. */
static void look_again_later(struct sandboxes *table)
{
    uint64_t now = clock_monotonic_ms();
    uint64_t wait = CHANGE_LOOK_MS;
    for (struct sandbox *at = table->changing; at != NULL; at = at->change_next)
        wait = MIN(wait, (now - at->change_since_ms) / 4 + 1);
    if (table->changing != NULL)
        loop_timer_set(&table->change_timer, wait);
}

static void change_fired(struct loop_timer *timer)
{
    struct sandboxes *table = CONTAINER_OF(timer, struct sandboxes, change_timer);
    struct sandbox *next;
    for (struct sandbox *at = table->changing; at != NULL; at = next) {
        next = at->change_next;
        look_at_change(at);
    }
    look_again_later(table);
}

static void enter_change(struct sandbox *sandbox, enum sandbox_change change,
                         struct peer_reply reply)
{
    struct sandboxes *table = &sandbox->launcher->sandboxes;
    sandbox->change = change;
    sandbox->change_reply = reply;
    sandbox->change_since_ms = clock_monotonic_ms();
    sandbox->change_next = table->changing;
    table->changing = sandbox;
    look_at_change(sandbox); /* mostly it is there at once */
    look_again_later(table);
}

/* The record first: once the kernel was asked, the next launcher must know that it was. */
void sandbox_freeze(struct launcher *launcher, const char *id, bool frozen, struct peer_reply reply)
{
    struct sandbox *sandbox = sandbox_find_changeable(launcher, id, reply);
    if (sandbox == NULL)
        return;
    struct error err = ERROR_INIT;
    if (sandbox->change != SANDBOX_STEADY) {
        error_set(&err, ERR_CONFLICT, "sandbox %s is just being %s", id,
                  sandbox->change == SANDBOX_FREEZING ? "frozen" : "thawed");
    } else if (sandbox->record.frozen != frozen && note_frozen(sandbox, frozen, &err) == 0) {
        if (ask_kernel(sandbox, frozen, &err) == 0) {
            enter_change(sandbox, frozen ? SANDBOX_FREEZING : SANDBOX_THAWING, reply);
            return;
        }
        struct error undo = ERROR_INIT;
        if (note_frozen(sandbox, !frozen, &undo) < 0)
            log_error("sandbox %s: %s", id, undo.message);
    }
    peer_answer(launcher, reply, &err, NULL);
}

/* A new launcher. */

static void restore_limits(const struct sandbox *sandbox)
{
    const struct record *record = &sandbox->record;
    struct error err = ERROR_INIT;
    int r = set_cgroup_limits(sandbox, &record->limits);
    if (r < 0)
        log_error("sandbox %s: cannot set its limits: %s", record->id, strerror(-r));
    if (set_disk_limit(sandbox, &record->limits, &err) < 0)
        log_error("sandbox %s: %s", record->id, err.message);
    /* A former launcher may have been killed while it lowered them, which needs groups. */
    uint32_t files = nofile_effective(record->limits.open_files);
    if (sandbox->launcher->cgroups.count > 0 &&
        nofile_change(&sandbox->launcher->cgroups, record->cgroup, record->pid,
                      powers_first_id(&sandbox->launcher->powers, record->range), nofile_max(),
                      files, &err) < 0)
        log_error("sandbox %s: %s", record->id, err.message);
}

void sandbox_restore(struct sandbox *sandbox)
{
    const struct record *record = &sandbox->record;
    struct error err = ERROR_INIT;
    if (record->limits_known)
        restore_limits(sandbox);
    if (ask_kernel(sandbox, record->frozen, &err) < 0) {
        if (record->frozen) /* to thaw what cannot be frozen has to fail */
            log_error("sandbox %s: %s", record->id, err.message);
    } else if (record->frozen) {
        enter_change(sandbox, SANDBOX_FREEZING, (struct peer_reply){0});
    }
}

void sandbox_change_init(struct sandboxes *table, struct loop *loop)
{
    loop_timer_add(loop, &table->deadline_timer, deadline_fired);
    loop_timer_add(loop, &table->change_timer, change_fired);
}
