/* A runtime without sandboxes: it writes down what it is asked, and answers when the test says so.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/runtime.h"
#include "server/lifecycle.h"
#include "store/store.h"

#define FAKE_CALLS_MAX 600

struct fake_call {
    char what; /* 'c'reate, 'r'emove, 'l'ist */
    char id[40];
    int64_t deadline_ms;
    runtime_done_fn *done;
    runtime_list_fn *list_done;
    void *ctx;
};

struct fake_runtime {
    struct runtime runtime;
    struct fake_call calls[FAKE_CALLS_MAX]; /* not answered yet, oldest first */
    size_t count;
    char history[4096]; /* "c r l " */
};

/* The wall clock of the tests. */
static int64_t fake_now_ms = 1000000;

static inline int64_t fake_now(void)
{
    return fake_now_ms;
}

static inline struct fake_call *fake_add(struct runtime *self, char what, const char *id, void *ctx)
{
    struct fake_runtime *fake = CONTAINER_OF(self, struct fake_runtime, runtime);
    struct fake_call *call = &fake->calls[fake->count++];
    *call = (struct fake_call){.what = what, .ctx = ctx};
    snprintf(call->id, sizeof(call->id), "%s", id);
    size_t length = strlen(fake->history);
    if (length + 3 < sizeof(fake->history))
        snprintf(fake->history + length, 3, "%c ", what);
    return call;
}

static inline void fake_create(struct runtime *self, const struct runtime_spec *spec,
                               runtime_done_fn *done, void *ctx)
{
    struct fake_call *call = fake_add(self, 'c', spec->id, ctx);
    call->done = done;
    call->deadline_ms = spec->deadline_unix_ms;
}

static inline void fake_remove(struct runtime *self, const char *id, runtime_done_fn *done,
                               void *ctx)
{
    fake_add(self, 'r', id, ctx)->done = done;
}

static inline const char *fake_lacks(struct runtime *self)
{
    (void)self;
    return "";
}

static inline void fake_list(struct runtime *self, runtime_list_fn *done, void *ctx)
{
    fake_add(self, 'l', "", ctx)->list_done = done;
}

static inline void fake_runtime_init(struct fake_runtime *fake)
{
    *fake = (struct fake_runtime){
        .runtime = {
            .create = fake_create, .remove = fake_remove, .list = fake_list, .lacks = fake_lacks}};
}

static inline struct fake_call fake_take(struct fake_runtime *fake)
{
    struct fake_call call = fake->calls[0];
    fake->count--;
    memmove(fake->calls, fake->calls + 1, fake->count * sizeof(call));
    return call;
}

/* Answer the oldest call; code ERR_OK is success. */
static inline void fake_answer(struct fake_runtime *fake, enum error_code code)
{
    struct fake_call call = fake_take(fake);
    struct error err = {.code = code, .message = "the fake runtime says no"};
    call.done(code == ERR_OK ? NULL : &err, call.ctx);
}

static inline void fake_answer_list(struct fake_runtime *fake, const struct runtime_sandbox *items,
                                    size_t count)
{
    struct fake_call call = fake_take(fake);
    call.list_done(NULL, items, count, call.ctx);
}

/* --- a store in a file of its own
 * ------------------------------------------------------------------ */

struct fake_store {
    char dir[64];
    struct store *store;
};

static inline void fake_store_open(struct fake_store *fake)
{
    strcpy(fake->dir, "/tmp/osb-server-XXXXXX");
    if (mkdtemp(fake->dir) == NULL)
        abort();
    AUTO_FREE char *path = mem_printf("%s/db", fake->dir);
    if (store_open(path, &fake->store, NULL) < 0)
        abort();
}

static inline void fake_store_close(struct fake_store *fake)
{
    store_close(fake->store);
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        AUTO_FREE char *path = mem_printf("%s/db%s", fake->dir, suffixes[i]);
        unlink(path);
    }
    rmdir(fake->dir);
}

/* Put a sandbox into the store as it would be after some life. */
static inline void fake_store_add(struct store *store, const char *id, enum sandbox_state state,
                                  int64_t expires_at_ms)
{
    struct sandbox sandbox = {
        .image = mem_dup("host"),
        .created_at_ms = fake_now_ms,
        .last_transition_at_ms = fake_now_ms,
        .expires_at_ms = expires_at_ms,
        .state = state,
    };
    snprintf(sandbox.id, sizeof(sandbox.id), "%s", id);
    string_list_add(&sandbox.entrypoint, "true");
    if (store_insert_sandbox(store, &sandbox, NULL) < 0)
        abort();
    sandbox_done(&sandbox);
}

/* "Running" ..., or "gone". */
static inline const char *fake_store_state(struct store *store, const char *id)
{
    struct store_access access;
    if (store_get_access(store, id, &access, NULL) < 0)
        return "gone";
    return sandbox_state_name(access.state);
}
