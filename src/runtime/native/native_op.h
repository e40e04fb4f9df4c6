/* Inside the native runtime: operations and what its files share. See native.c. */
#pragma once

#include <sys/queue.h>

#include "base/id.h"
#include "runtime/native/channel.h"
#include "runtime/native/message.h"
#include "runtime/native/native.h"
#include "runtime/native/native_connect.h"
#include "runtime/native/places.h"

enum op_kind {
    OP_CREATE,
    OP_REMOVE,
    OP_CHANGE, /* of limits, deadline or the frozen state: one message, one result */
    OP_LIST,
    OP_STAT,
    OP_SOCKET, /* not counted: the connector bounds them */
};

enum op_state {
    OP_NEW,
    OP_ASKED,    /* waits for the launcher's answer */
    OP_STARTING, /* create: waits for execd's answer */
    OP_UNDOING,  /* create: waits for the launcher's answer to REMOVE */
    OP_FAILED,   /* failed inside the call that made it: the loop will tell */
};

/* The descriptor is the callee's; -1 on failure. */
typedef void native_socket_fn(const struct error *err, int fd, void *ctx);

struct op {
    TAILQ_ENTRY(op) link;
    struct native *native;
    enum op_kind kind;
    enum op_state state;
    uint32_t sequence;
    char id[ID_UUID_LEN + 1];
    struct error err; /* what the callback will be told; ERR_OK for success */
    runtime_done_fn *done;
    runtime_list_fn *list_done;
    runtime_usage_fn *stat_done;
    native_socket_fn *socket_done;
    void *ctx;
    int fd;           /* socket: what came with the result */
    char *start_body; /* create: holds env, wiped */
    struct http_call *call;
    struct runtime_sandbox exit;   /* create: it ended while its answer was on the way */
    struct runtime_sandbox *items; /* list */
    struct runtime_usage *usages;  /* stat */
    size_t item_count;
};

struct native {
    struct runtime runtime;
    struct native_channel *channel;
    struct http_client *client;
    char *socket_path;
    struct runtime_events events;
    void *ctx;
    size_t op_count;
    TAILQ_HEAD(op_list, op) ops;
    struct places places;
    struct native_connector connector;
    char lacks[MESSAGE_REASON_MAX + 256]; /* of the launcher's last answer */
    uv_async_t deferred; /* tells failures that were found inside the call that began something */
};

struct op *native_op_new(struct native *native, enum op_kind kind, const char *id, void *ctx);
void native_op_set_state(struct op *op, enum op_state state); /* aborts where it does not lead */

/* Tell the caller, exactly once, and forget. Never called inside the call that made the operation;
 * there it is failed later, with op->err. */
void native_op_finish(struct op *op);
void native_op_fail_later(struct op *op);
void native_op_on_deferred(uv_async_t *handle);

/* The one that waits for the answer with this number, or NULL. */
struct op *native_op_find(struct native *native, uint32_t sequence);

/* False, and the operation is on its way to fail, when it cannot be begun now. */
bool native_op_may_begin(struct op *op);
void native_op_ask(struct op *op, enum op_state state, union message *message);
void native_op_ask_removal(struct op *op, enum op_state state);
void native_forget_place(struct native *native, const char *id);

/* Of struct runtime. */
void native_remove(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
void native_set_limits(struct runtime *self, const char *id, const struct limits *limits,
                       runtime_done_fn *done, void *ctx);
void native_set_deadline(struct runtime *self, const char *id, int64_t deadline_unix_ms,
                         runtime_done_fn *done, void *ctx);
void native_freeze(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
void native_thaw(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
void native_list(struct runtime *self, runtime_list_fn *done, void *ctx);
void native_stat(struct runtime *self, runtime_usage_fn *done, void *ctx);

/* A page has come. */
void native_list_page(struct op *op, const struct message_sandboxes *page);
void native_stat_page(struct op *op, const struct message_usage_page *page);

struct message_limits native_limits(const struct limits *limits);
struct runtime_sandbox native_sandbox(const struct message_sandbox *from);
