#include "launcher/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/fields.h"
#include "launcher/launcher.h"
#include "launcher/link.h"
#include "launcher/process.h"

#define SAVE_MS   60000u
#define PORTION   8u /* sandboxes read in one go: under a millisecond */
#define MIB_SHIFT 20

/* The integral and the numbers. */

static void integrate(struct meter *meter, uint64_t bytes, uint64_t now_ms)
{
    if (meter->read_ms != 0 && now_ms > meter->read_ms) {
        /* Wider than 64 bits: a petabyte for a day would not fit. */
        unsigned __int128 area = (unsigned __int128)meter->usage.memory_bytes + bytes;
        area = area * (now_ms - meter->read_ms) / 2 + meter->memory_rest;
        unsigned __int128 total = (area >> MIB_SHIFT) + meter->memory_mib_ms;
        meter->memory_mib_ms = total > UINT64_MAX ? UINT64_MAX : (uint64_t)total;
        meter->memory_rest = (uint64_t)area & ((1u << MIB_SHIFT) - 1);
    }
    meter->read_ms = now_ms;
}

/* What only grows must not fall when a control group cannot be read for a moment. */
static void keep_greatest(uint64_t *kept, uint64_t now)
{
    *kept = MAX(*kept, now);
}

void meter_add(struct meter *meter, const struct cgroup_usage *usage, uint64_t now_ms)
{
    struct cgroup_usage *kept = &meter->usage;
    integrate(meter, usage->memory_bytes, now_ms);
    kept->memory_bytes = usage->memory_bytes;
    kept->pids = usage->pids;
    keep_greatest(&kept->cpu_ns, usage->cpu_ns);
    keep_greatest(&kept->memory_peak_bytes, MAX(usage->memory_peak_bytes, usage->memory_bytes));
    keep_greatest(&kept->io_read_bytes, usage->io_read_bytes);
    keep_greatest(&kept->io_write_bytes, usage->io_write_bytes);
    keep_greatest(&kept->io_read_ops, usage->io_read_ops);
    keep_greatest(&kept->io_write_ops, usage->io_write_ops);
    keep_greatest(&kept->oom_kills, usage->oom_kills);
    keep_greatest(&kept->memory_refused, usage->memory_refused);
    keep_greatest(&kept->pids_refused, usage->pids_refused);
    keep_greatest(&kept->cpu_throttled, usage->cpu_throttled);
}

unsigned meter_hits(const struct meter *meter)
{
    const struct cgroup_usage *usage = &meter->usage;
    unsigned hits = 0;
    if (usage->memory_refused > 0 || usage->oom_kills > 0)
        hits |= MESSAGE_HIT_MEMORY;
    if (usage->pids_refused > 0)
        hits |= MESSAGE_HIT_PIDS;
    if (usage->cpu_throttled > 0)
        hits |= MESSAGE_HIT_CPU;
    return hits;
}

/* The file. */

void meter_format(const struct meter *meter, struct buf *text)
{
    const struct cgroup_usage *usage = &meter->usage;
    buf_printf(text,
               "opensandbox-usage 2\nread %" PRIu64 "\nread-unix %" PRIu64 "\nmib-ms %" PRIu64
               "\nrest %" PRIu64 "\ncpu-ns %" PRIu64 "\nmemory %" PRIu64 "\npeak %" PRIu64 "\n",
               meter->read_ms, meter->read_unix_ms, meter->memory_mib_ms, meter->memory_rest,
               usage->cpu_ns, usage->memory_bytes, usage->memory_peak_bytes);
    buf_printf(text,
               "read-bytes %" PRIu64 "\nwrite-bytes %" PRIu64 "\nread-ops %" PRIu64
               "\nwrite-ops %" PRIu64 "\noom %" PRIu64 "\nmemory-refused %" PRIu64
               "\npids-refused %" PRIu64 "\nthrottled %" PRIu64 "\npids %" PRIu32
               "\nnet-rx %" PRIu64 "\nnet-tx %" PRIu64 "\n",
               usage->io_read_bytes, usage->io_write_bytes, usage->io_read_ops, usage->io_write_ops,
               usage->oom_kills, usage->memory_refused, usage->pids_refused, usage->cpu_throttled,
               usage->pids, meter->net_rx_bytes, meter->net_tx_bytes);
}

int meter_parse(const char *text, size_t length, struct meter *ret, struct error *err)
{
    struct meter meter;
    memset(&meter, 0, sizeof(meter));
    struct cgroup_usage *usage = &meter.usage;
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {
        {"read", &meter.read_ms},
        {"read-unix", &meter.read_unix_ms},
        {"mib-ms", &meter.memory_mib_ms},
        {"rest", &meter.memory_rest},
        {"cpu-ns", &usage->cpu_ns},
        {"memory", &usage->memory_bytes},
        {"peak", &usage->memory_peak_bytes},
        {"read-bytes", &usage->io_read_bytes},
        {"write-bytes", &usage->io_write_bytes},
        {"read-ops", &usage->io_read_ops},
        {"write-ops", &usage->io_write_ops},
        {"oom", &usage->oom_kills},
        {"memory-refused", &usage->memory_refused},
        {"pids-refused", &usage->pids_refused},
        {"throttled", &usage->cpu_throttled},
    };
    const char *at = text;
    uint32_t version = 0;
    bool taken = fields_take_u32(&at, "opensandbox-usage", 2, &version) && version >= 1;
    for (size_t i = 0; i < ARRAY_LEN(numbers) && taken; i++)
        taken = fields_take_number(&at, numbers[i].name, UINT64_MAX, numbers[i].value);
    taken = taken && fields_take_u32(&at, "pids", UINT32_MAX, &usage->pids);
    if (version > 1)
        taken = taken && fields_take_number(&at, "net-rx", UINT64_MAX, &meter.net_rx_bytes) &&
                fields_take_number(&at, "net-tx", UINT64_MAX, &meter.net_tx_bytes);
    if (!taken || at != text + length || meter.memory_rest >> MIB_SHIFT != 0)
        return error_set(err, ERR_INVALID, "the file of its usage is damaged");
    *ret = meter;
    return 0;
}

static int write_file(int dir_fd, const struct meter *meter, struct error *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, METER_FILE_MAX);
    meter_format(meter, &text);
    /* By rename, as the record, and as little synced. */
    AUTO_CLOSE int fd =
        openat(dir_fd, "usage.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : file_write_all(fd, text.data, text.length);
    if (r == 0 && renameat(dir_fd, "usage.new", dir_fd, "usage") < 0)
        r = -errno;
    return r < 0 ? error_set_errno(err, -r, "cannot write its usage") : 0;
}

void meter_save(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, &err);
    if (dir >= 0)
        write_file(dir, &sandbox->meter, &err);
    if (err.code != ERR_OK)
        log_error("sandbox %s: %s", sandbox->record.id, err.message);
    sandbox->meter.saved_ms = clock_monotonic_ms();
}

static int read_file(struct sandbox *sandbox, struct error *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, METER_FILE_MAX);
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, err);
    if (dir < 0)
        return dir;
    int r = file_read_at(dir, "usage", &text, err);
    return r < 0 ? r : meter_parse(text.data, text.length, &sandbox->meter, err);
}

void meter_start(struct meter *meter)
{
    *meter = (struct meter){
        .read_ms = clock_monotonic_ms(),
        .read_unix_ms = (uint64_t)clock_unix_ms(),
        .saved_ms = clock_monotonic_ms(),
    };
}

void meter_load(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    if (read_file(sandbox, &err) == 0) {
        sandbox->meter.saved_ms = clock_monotonic_ms();
        return;
    }
    if (err.code != ERR_NOT_FOUND)
        log_warn("sandbox %s: %s; counting its memory over time from now on", sandbox->record.id,
                 err.message);
    meter_start(&sandbox->meter);
}

/* Reading. */

/* That a disk was full once is remembered, though what filled it may be deleted since. */
static void read_disk(struct sandbox *sandbox)
{
    const struct launcher *launcher = sandbox->launcher;
    struct record *record = &sandbox->record;
    struct disk_usage usage;
    if (record->limits.disk_bytes == 0)
        return;
    AUTO_CLOSE int dir = sandbox_open_directory(sandbox, NULL);
    pid_t pid = record->exit_reason != MESSAGE_EXIT_NONE ? 0 : record->pid;
    if (dir < 0 ||
        disk_usage(&launcher->disks, &launcher->state, record->range, dir, pid, &usage) < 0)
        return;
    if (pid != 0 && process_signal(sandbox->pidfd, 0) < 0)
        return; /* the number may have been another's by then; its end is about to be told */
    sandbox->meter.disk_bytes = usage.used_bytes;
    if (disk_is_full(&usage))
        record->limits_hit |= MESSAGE_HIT_DISK;
}

/* Its own end of the device counts from its own point of view, and from zero: a network over which
 * somebody has talked is not given to another one. */
static void read_network(struct sandbox *sandbox)
{
    uint64_t rx, tx;
    if (sandbox->counters_fd < 0 || link_read_counters(sandbox->counters_fd, &rx, &tx) < 0)
        return;
    keep_greatest(&sandbox->meter.net_rx_bytes, rx);
    keep_greatest(&sandbox->meter.net_tx_bytes, tx);
}

void meter_read(struct sandbox *sandbox)
{
    struct cgroup_usage usage = {0};
    struct meter *meter = &sandbox->meter;
    if (cgroup_usage(&sandbox->launcher->cgroups, sandbox->record.cgroup, &usage) < 0)
        return; /* what was read before stands, with its time */
    read_disk(sandbox);
    read_network(sandbox);
    uint64_t now = clock_monotonic_ms();
    meter_add(meter, &usage, now);
    meter->read_unix_ms = (uint64_t)clock_unix_ms();
    if (now - meter->saved_ms >= SAVE_MS)
        meter_save(sandbox);
}

void meter_save_all(struct launcher *launcher)
{
    const struct sandboxes *table = &launcher->sandboxes;
    for (size_t i = 0; i < table->count; i++) {
        if (table->items[i]->state != SANDBOX_RUNNING)
            continue;
        meter_read(table->items[i]);
        meter_save(table->items[i]);
    }
}

static void timer_fired(struct loop_timer *timer)
{
    struct launcher *launcher = CONTAINER_OF(timer, struct launcher, meters.timer);
    const struct sandboxes *table = &launcher->sandboxes;
    struct meters *meters = &launcher->meters;
    unsigned done = 0;
    size_t at = sandbox_position_after(launcher, meters->cursor);
    for (; at < table->count && done < PORTION; at++) {
        struct sandbox *sandbox = table->items[at];
        memcpy(meters->cursor, sandbox->record.id, sizeof(sandbox->record.id));
        if (sandbox->state != SANDBOX_RUNNING)
            continue;
        meter_read(sandbox);
        done++;
    }
    if (at == table->count)
        meters->cursor[0] = '\0'; /* from the beginning */
    meter_wake(launcher);
}

void meter_wake(struct launcher *launcher)
{
    struct loop_timer *timer = &launcher->meters.timer;
    size_t running = launcher->sandboxes.running;
    if (launcher->options.meter_s == 0 || running == 0 || loop_timer_is_set(timer))
        return;
    /* Once around in the time that was asked for. */
    size_t portions = (running + PORTION - 1) / PORTION;
    loop_timer_set(timer, launcher->options.meter_s * 1000ull / portions);
}

void meter_init_all(struct launcher *launcher)
{
    launcher->meters = (struct meters){0};
    loop_timer_add(&launcher->loop, &launcher->meters.timer, timer_fired);
}
