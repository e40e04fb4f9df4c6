/* What servers are told of sandboxes. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "launcher/launcher.h"
#include "launcher/meter.h"
#include "launcher/sandbox.h"

void sandbox_socket_path(const struct sandbox *sandbox, char ret[SANDBOX_SOCKET_MAX])
{
    snprintf(ret, SANDBOX_SOCKET_MAX, "%s/%s.sock", sandbox->launcher->state.run_path,
             sandbox->record.id);
}

/* While it is still on its way to stand still it runs. */
static enum message_state shown_state(const struct sandbox *sandbox)
{
    if (sandbox->state == SANDBOX_EXITED)
        return MESSAGE_EXITED;
    bool frozen = sandbox->record.frozen && sandbox->change != SANDBOX_FREEZING;
    return frozen ? MESSAGE_FROZEN : MESSAGE_RUNNING;
}

/* Of one that runs: as of the last reading. */
unsigned sandbox_limits_hit(const struct sandbox *sandbox)
{
    return sandbox->record.limits_hit | meter_hits(&sandbox->meter);
}

uint32_t sandbox_oom_kills(const struct sandbox *sandbox)
{
    uint64_t read = MIN(sandbox->meter.usage.oom_kills, (uint64_t)UINT32_MAX);
    return MAX(sandbox->record.oom_kills, (uint32_t)read);
}

void sandbox_describe(const struct sandbox *sandbox, struct message_sandbox *ret)
{
    memcpy(ret->id, sandbox->record.id, sizeof(sandbox->record.id));
    ret->state = shown_state(sandbox);
    ret->exit_reason = sandbox->record.exit_reason;
    ret->exit_status = sandbox->record.exit_status;
    ret->oom_kills = sandbox_oom_kills(sandbox);
    ret->limits_hit = sandbox_limits_hit(sandbox);
    ret->created_unix_ms = sandbox->record.created_unix_ms;
    sandbox_socket_path(sandbox, ret->socket);
}

void sandbox_list(struct launcher *launcher, const char *after, struct message_sandboxes *page)
{
    const struct sandboxes *table = &launcher->sandboxes;
    for (size_t at = sandbox_position_after(launcher, after); at < table->count; at++) {
        if (table->items[at]->state < SANDBOX_RUNNING)
            continue;
        if (page->count == MESSAGE_SANDBOXES_MAX) {
            page->more = 1;
            break;
        }
        sandbox_describe(table->items[at], &page->items[page->count++]);
    }
}

static void describe_usage(const struct sandbox *sandbox, struct message_usage *ret)
{
    const struct meter *meter = &sandbox->meter;
    const struct cgroup_usage *usage = &meter->usage;
    bool exited = sandbox->state == SANDBOX_EXITED;
    *ret = (struct message_usage){
        .state = shown_state(sandbox),
        .limits_hit = sandbox_limits_hit(sandbox),
        .read_unix_ms = meter->read_unix_ms,
        .cpu_ns = usage->cpu_ns,
        .memory_bytes = exited ? 0 : usage->memory_bytes,
        .memory_peak_bytes = usage->memory_peak_bytes,
        .memory_mib_ms = meter->memory_mib_ms,
        .disk_bytes = meter->disk_bytes,
        .io_read_bytes = usage->io_read_bytes,
        .io_write_bytes = usage->io_write_bytes,
        .io_read_ops = usage->io_read_ops,
        .io_write_ops = usage->io_write_ops,
        .net_rx_bytes = meter->net_rx_bytes,
        .net_tx_bytes = meter->net_tx_bytes,
        .oom_kills = usage->oom_kills,
        .memory_refused = usage->memory_refused,
        .pids_refused = usage->pids_refused,
        .cpu_throttled = usage->cpu_throttled,
        .pids = exited ? 0 : usage->pids,
    };
    memcpy(ret->id, sandbox->record.id, sizeof(sandbox->record.id));
}

void sandbox_stat(struct launcher *launcher, const char *after, struct message_usage_page *page)
{
    const struct sandboxes *table = &launcher->sandboxes;
    for (size_t at = sandbox_position_after(launcher, after); at < table->count; at++) {
        struct sandbox *sandbox = table->items[at];
        if (sandbox->state < SANDBOX_RUNNING)
            continue;
        if (page->count == MESSAGE_USAGE_MAX) {
            page->more = 1;
            break;
        }
        if (sandbox->state == SANDBOX_RUNNING)
            meter_read(sandbox);
        describe_usage(sandbox, &page->items[page->count++]);
    }
}
