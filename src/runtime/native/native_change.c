/* Operations of one message and one result. */
#include <string.h>

#include "base/mem.h"
#include "runtime/native/native_op.h"

void native_remove(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = native_op_new(native, OP_REMOVE, id, ctx);
    op->done = done;
    if (native_op_may_begin(op))
        native_op_ask_removal(op, OP_ASKED);
}

static void ask_change(struct runtime *self, union message *message, const char *id,
                       runtime_done_fn *done, void *ctx)
{
    struct native *native = CONTAINER_OF(self, struct native, runtime);
    struct op *op = native_op_new(native, OP_CHANGE, id, ctx);
    op->done = done;
    /* The id is at the same place in all of them. */
    strncpy(message->target.id, id, sizeof(message->target.id) - 1);
    if (native_op_may_begin(op))
        native_op_ask(op, OP_ASKED, message);
}

struct message_limits native_limits(const struct limits *limits)
{
    return (struct message_limits){
        .memory_bytes = limits->memory_bytes,
        .disk_bytes = limits->disk_bytes,
        .io_read_bps = limits->io_read_bps,
        .io_write_bps = limits->io_write_bps,
        .io_read_iops = limits->io_read_iops,
        .io_write_iops = limits->io_write_iops,
        .cpu_millis = limits->cpu_millis,
        .pids = limits->pids,
        .open_files = limits->open_files,
    };
}

void native_set_limits(struct runtime *self, const char *id, const struct limits *limits,
                       runtime_done_fn *done, void *ctx)
{
    union message message;
    message_init(&message, MESSAGE_LIMITS, 0);
    message.limits.limits = native_limits(limits);
    ask_change(self, &message, id, done, ctx);
}

void native_set_deadline(struct runtime *self, const char *id, int64_t deadline_unix_ms,
                         runtime_done_fn *done, void *ctx)
{
    union message message;
    message_init(&message, MESSAGE_DEADLINE, 0);
    message.deadline.deadline_unix_ms = (uint64_t)deadline_unix_ms;
    ask_change(self, &message, id, done, ctx);
}

void native_freeze(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx)
{
    union message message;
    message_init(&message, MESSAGE_FREEZE, 0);
    ask_change(self, &message, id, done, ctx);
}

void native_thaw(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx)
{
    union message message;
    message_init(&message, MESSAGE_THAW, 0);
    ask_change(self, &message, id, done, ctx);
}
