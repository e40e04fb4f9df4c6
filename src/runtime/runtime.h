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
#include "model/limits.h"
#include "model/volumes.h"

struct runtime;

struct runtime_spec {
    const char *id;
    const char *image;
    const char *const *entrypoint; /* NULL-terminated, at least one */
    const char *const *env;        /* NULL-terminated NAME=VALUE */
    const char *user;    /* as whom everything runs: "name", "uid", "uid:gid"; NULL: root */
    const char *workdir; /* absolute; made when it is missing; NULL: / */
    bool read_only_root;
    const struct volumes *volumes; /* NULL: none */
    bool nat; /* reaches the world beyond the host; else nothing but its own loopback interface */
    struct limits limits;
    int64_t deadline_unix_ms; /* 0: none */
};

/* What there is to choose from besides no network. */
struct runtime_networks {
    bool nat;
    char nat_reason[256]; /* why not; "" when there is */
};

enum runtime_exit_reason {
    RUNTIME_EXIT_NONE, /* still running */
    RUNTIME_EXIT_STATUS,
    RUNTIME_EXIT_SIGNAL,
    RUNTIME_EXIT_KILLED,
    RUNTIME_EXIT_DEADLINE,
    RUNTIME_EXIT_LOST,
};

/* Limits that a sandbox ran into at least once. */
#define RUNTIME_HIT_MEMORY 1u
#define RUNTIME_HIT_PIDS   2u
#define RUNTIME_HIT_DISK   4u
#define RUNTIME_HIT_CPU    8u

struct runtime_sandbox {
    char id[40];
    bool frozen;
    enum runtime_exit_reason exit_reason;
    int exit_status;
    unsigned oom_kills;
    unsigned limits_hit; /* RUNTIME_HIT_* */
};

/* What a sandbox has used since it was made, and what it holds now. */
struct runtime_usage {
    char id[40];
    bool running; /* also when it is frozen */
    bool frozen;
    unsigned limits_hit;
    int64_t read_unix_ms; /* when these numbers were read */
    uint64_t cpu_ns;
    uint64_t memory_bytes; /* now */
    uint64_t memory_peak_bytes;
    uint64_t memory_mib_ms; /* memory over time, in mebibyte-milliseconds */
    uint64_t disk_bytes;    /* now; 0 where there is no disk limit */
    uint64_t io_read_bytes;
    uint64_t io_write_bytes;
    uint64_t io_read_ops;
    uint64_t io_write_ops;
    uint64_t net_rx_bytes;
    uint64_t net_tx_bytes;
    uint64_t oom_kills;
    uint64_t memory_refused; /* times the memory limit was hit */
    uint64_t pids_refused;   /* forks refused */
    uint64_t cpu_throttled;  /* periods in which the cpu limit stopped it */
    uint32_t pids;           /* now */
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
typedef void runtime_usage_fn(const struct error *err, const struct runtime_usage *items,
                              size_t count, void *ctx);

struct runtime {
    /* Make it and start the entrypoint; done when execd has answered. On failure nothing is left.
     * Of volumes: ERR_DENIED is a host path that may not be given away, ERR_NOT_FOUND a named one
     * that is not there, ERR_INVALID with sys a sub-path that cannot be used. */
    void (*create)(struct runtime *self, const struct runtime_spec *spec, runtime_done_fn *done,
                   void *ctx);
    void (*remove)(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
    void (*list)(struct runtime *self, runtime_list_fn *done, void *ctx);
    /* Of one that runs or is frozen, else ERR_CONFLICT. Limits replace all it has: on failure those
     * are kept. A deadline of 0 is none; one that has passed ends it now. Freezing is done when
     * everything stands still, thawing when it goes on; to do it twice is success. */
    void (*set_limits)(struct runtime *self, const char *id, const struct limits *limits,
                       runtime_done_fn *done, void *ctx);
    void (*set_deadline)(struct runtime *self, const char *id, int64_t deadline_unix_ms,
                         runtime_done_fn *done, void *ctx);
    void (*freeze)(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
    void (*thaw)(struct runtime *self, const char *id, runtime_done_fn *done, void *ctx);
    /* One call with what all of them have used; borrowed. */
    void (*stat)(struct runtime *self, runtime_usage_fn *done, void *ctx);
    /* As of now; may change when the runtime has been away. */
    void (*networks)(struct runtime *self, struct runtime_networks *ret);
    /* How to reach a port inside. ERR_UNSUPPORTED when this runtime cannot, ERR_NOT_FOUND. Whether
     * somebody listens there is found out by connecting; the address is good until free(). */
    int (*address)(struct runtime *self, const char *id, int port, struct http_address *ret,
                   struct error *err);
    /* What its sandboxes lack of what is promised, and why, in sentences for people; "" when
     * nothing. Borrowed until the loop runs again. */
    const char *(*lacks)(struct runtime *self);
    void (*free)(struct runtime *self);
};
