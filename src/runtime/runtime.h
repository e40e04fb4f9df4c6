/* What every runtime gives the server: sandboxes that can be made, reached and removed. One struct
 * of functions per runtime; the server knows nothing else of it.
 *
 * Everything is asynchronous on the server's loop: a start function never calls back from inside,
 * each callback runs exactly once. Requests cannot be cancelled: what was begun is finished, and
 * the caller that lost interest removes the sandbox afterwards. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "http/client.h"
#include "http/stream.h"

struct runtime;

struct runtime_limits {
    uint64_t memory_bytes; /* 0: none */
    uint32_t cpu_millis;   /* 0: none */
    uint32_t pids;         /* 0: the runtime's default */
};

struct runtime_spec {
    const char *id;
    const char *image;
    const char *const *entrypoint; /* NULL-terminated, at least one */
    const char *const *env;        /* NULL-terminated NAME=VALUE */
    const char *user;    /* as whom everything runs: "name", "uid", "uid:gid"; NULL: root */
    const char *workdir; /* absolute; made when it is missing; NULL: / */
    bool read_only_root;
    struct runtime_limits limits;
    int64_t deadline_unix_ms; /* 0: none */
};

enum runtime_exit_reason {
    RUNTIME_EXIT_NONE, /* still running */
    RUNTIME_EXIT_STATUS,
    RUNTIME_EXIT_SIGNAL,
    RUNTIME_EXIT_KILLED,
    RUNTIME_EXIT_DEADLINE,
    RUNTIME_EXIT_LOST,
};

struct runtime_sandbox {
    char id[40];
    enum runtime_exit_reason exit_reason;
    int exit_status;
    unsigned oom_kills;
};

struct runtime_events {
    /* A sandbox ended by itself, by its deadline or was lost; not called for remove(). */
    void (*on_exit)(const struct runtime_sandbox *sandbox, void *ctx);
    /* The runtime itself went away (launcher died) or came back. While away, requests fail with
     * ERR_UNAVAILABLE. After coming back the server lists and reconciles. */
    void (*on_state)(bool available, void *ctx);
};

typedef void runtime_done_fn(const struct error *err, void *ctx); /* err NULL on success */
/* One call with all sandboxes the runtime has; borrowed. */
typedef void runtime_list_fn(const struct error *err, const struct runtime_sandbox *items,
                             size_t count, void *ctx);

struct runtime {
    /* Make it and start the entrypoint; done when execd has answered. On failure nothing is left.
     */
    void (*create)(struct runtime *self, const struct runtime_spec *spec, runtime_done_fn *done,
                   void *ctx);
    void (*remove)(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
    void (*list)(struct runtime *self, runtime_list_fn *done, void *ctx);
    /* How to reach a port inside. ERR_UNSUPPORTED when this runtime cannot, ERR_NOT_FOUND. */
    int (*address)(struct runtime *self, const char *id, int port, struct http_address *ret,
                   struct error *err);
    void (*free)(struct runtime *self);
};
