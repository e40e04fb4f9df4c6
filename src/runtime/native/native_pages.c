/* Operations answered in pages: LIST and STAT. Each page is asked for with the last id of the one
 * before, so what comes and goes meanwhile disturbs none of the others. */
#include <string.h>

#include "base/mem.h"
#include "runtime/native/native_op.h"

#define ITEMS_MAX 65536

static void ask_page(struct op *op, const char *after)
{
    union message message;
    message_init(&message, op->kind == OP_LIST ? MESSAGE_LIST : MESSAGE_STAT, 0);
    strncpy(message.list.after, after, sizeof(message.list.after) - 1);
    native_op_ask(op, OP_ASKED, &message);
}

/* The page ended with `last`; op->id is how far the list had come before. */
static void go_on(struct op *op, bool more, const char *last)
{
    if (!more) {
        native_op_finish(op);
    } else if (last == NULL || op->item_count > ITEMS_MAX || strcmp(last, op->id) <= 0) {
        error_set(&op->err, ERR_INTERNAL, "the launcher's list does not end");
        native_op_finish(op);
    } else {
        memcpy(op->id, last, sizeof(op->id));
        ask_page(op, op->id);
    }
}

void native_list(struct runtime *self, runtime_list_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = native_op_new(native, OP_LIST, NULL, ctx);
    op->list_done = done;
    if (native_op_may_begin(op))
        ask_page(op, "");
}

void native_stat(struct runtime *self, runtime_usage_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = native_op_new(native, OP_STAT, NULL, ctx);
    op->stat_done = done;
    if (native_op_may_begin(op))
        ask_page(op, "");
}

struct runtime_sandbox native_sandbox(const struct message_sandbox *from)
{
    static const enum runtime_exit_reason reasons[] = {
        [MESSAGE_EXIT_NONE] = RUNTIME_EXIT_NONE,
        [MESSAGE_EXIT_STATUS] = RUNTIME_EXIT_STATUS,
        [MESSAGE_EXIT_SIGNAL] = RUNTIME_EXIT_SIGNAL,
        [MESSAGE_EXIT_KILLED] = RUNTIME_EXIT_KILLED,
        [MESSAGE_EXIT_DEADLINE] = RUNTIME_EXIT_DEADLINE,
        [MESSAGE_EXIT_LOST] = RUNTIME_EXIT_LOST,
    };
    struct runtime_sandbox sandbox = {
        .frozen = from->state == MESSAGE_FROZEN,
        .exit_reason = reasons[from->exit_reason],
        .exit_status = from->exit_status,
        .oom_kills = from->oom_kills,
        .limits_hit = from->limits_hit,
    };
    memcpy(sandbox.id, from->id, sizeof(sandbox.id));
    return sandbox;
}

void native_list_page(struct op *op, const struct message_sandboxes *page)
{
    struct native *native = op->native;
    if (page->count > 0)
        op->items = mem_resize_array(op->items, op->item_count + page->count, sizeof(*op->items));
    for (size_t i = 0; i < page->count; i++) {
        const struct message_sandbox *item = &page->items[i];
        op->items[op->item_count++] = native_sandbox(item);
        if (item->socket[0] != '\0')
            places_set(&native->places, item->id, item->socket);
    }
    go_on(op, page->more != 0, page->count > 0 ? page->items[page->count - 1].id : NULL);
}

static struct runtime_usage usage_from_message(const struct message_usage *from)
{
    struct runtime_usage usage = {
        .running = from->state != MESSAGE_EXITED,
        .frozen = from->state == MESSAGE_FROZEN,
        .limits_hit = from->limits_hit,
        .read_unix_ms = (int64_t)from->read_unix_ms,
        .cpu_ns = from->cpu_ns,
        .memory_bytes = from->memory_bytes,
        .memory_peak_bytes = from->memory_peak_bytes,
        .memory_mib_ms = from->memory_mib_ms,
        .disk_bytes = from->disk_bytes,
        .io_read_bytes = from->io_read_bytes,
        .io_write_bytes = from->io_write_bytes,
        .io_read_ops = from->io_read_ops,
        .io_write_ops = from->io_write_ops,
        .net_rx_bytes = from->net_rx_bytes,
        .net_tx_bytes = from->net_tx_bytes,
        .oom_kills = from->oom_kills,
        .memory_refused = from->memory_refused,
        .pids_refused = from->pids_refused,
        .cpu_throttled = from->cpu_throttled,
        .pids = from->pids,
    };
    memcpy(usage.id, from->id, sizeof(usage.id));
    return usage;
}

void native_stat_page(struct op *op, const struct message_usage_page *page)
{
    if (page->count > 0)
        op->usages =
            mem_resize_array(op->usages, op->item_count + page->count, sizeof(*op->usages));
    for (size_t i = 0; i < page->count; i++)
        op->usages[op->item_count++] = usage_from_message(&page->items[i]);
    go_on(op, page->more != 0, page->count > 0 ? page->items[page->count - 1].id : NULL);
}
