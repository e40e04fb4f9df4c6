/* The store goes on changing while the runtime makes its list. Only sandboxes that were in the
 * store and at rest when the list was asked for can be judged by it; those begun later are left
 * alone. */
#include "server/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

struct reconcile {
    struct server_reconcile_config config;
    struct string_list known; /* in the store and at rest when the list was asked for */
    struct error err;
    runtime_done_fn *done;
    void *ctx;
};

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct runtime_sandbox *)a)->id, ((const struct runtime_sandbox *)b)->id);
}

static const struct runtime_sandbox *find(const struct runtime_sandbox *items, size_t count,
                                          const char *id)
{
    struct runtime_sandbox key = {0};
    strncpy(key.id, id, sizeof(key.id) - 1);
    return count > 0 ? bsearch(&key, items, count, sizeof(*items), compare_ids) : NULL;
}

static bool is_final(enum sandbox_state state)
{
    return state == SANDBOX_TERMINATED || state == SANDBOX_FAILED;
}

/* Half made, half removed, or over its time: no client has a use for it. */
static bool is_to_go(const struct sandbox *sandbox, int64_t now_ms)
{
    return sandbox->state == SANDBOX_PENDING || sandbox->state == SANDBOX_STOPPING ||
           (sandbox->expires_at_ms != 0 && sandbox->expires_at_ms <= now_ms);
}

static int settle(struct reconcile *reconcile, const struct sandbox *sandbox,
                  const struct runtime_sandbox *found, struct error *err)
{
    struct server_lifecycle *lifecycle = reconcile->config.lifecycle;
    if (is_to_go(sandbox, reconcile->config.now_ms())) {
        if (found != NULL)
            return server_lifecycle_remove(lifecycle, sandbox->id, NULL, NULL, err);
        return store_delete_sandbox(reconcile->config.store, sandbox->id, err);
    }
    if (is_final(sandbox->state))
        return 0;
    if (found == NULL) {
        struct runtime_sandbox lost = {.exit_reason = RUNTIME_EXIT_LOST};
        memcpy(lost.id, sandbox->id, sizeof(sandbox->id));
        server_lifecycle_exited(lifecycle, &lost);
    } else if (found->exit_reason != RUNTIME_EXIT_NONE) {
        server_lifecycle_exited(lifecycle, found);
    }
    return 0;
}

static void settle_known(struct reconcile *reconcile, const struct runtime_sandbox *items,
                         size_t count)
{
    for (size_t i = 0; i < reconcile->known.count; i++) {
        const char *id = reconcile->known.items[i];
        if (server_lifecycle_is_busy(reconcile->config.lifecycle, id))
            continue;
        struct sandbox sandbox = {0};
        struct error err = ERROR_INIT;
        int r = store_get_sandbox(reconcile->config.store, id, &sandbox, &err);
        if (r == 0)
            r = settle(reconcile, &sandbox, find(items, count, id), &err);
        if (r < 0 && err.code != ERR_NOT_FOUND) { /* removed meanwhile is fine */
            log_error("cannot settle sandbox %s: %s", id, err.message);
            reconcile->err = err;
        }
        sandbox_done(&sandbox);
    }
}

/* --- what only the runtime has ------------------------------------------------------------------
 */

/* Removed one after the other: there may be more of them than the runtime takes at once. */
struct strays {
    struct runtime *runtime;
    struct string_list ids;
    size_t next;
};

static void on_stray_removed(const struct error *err, void *ctx);

static void remove_next_stray(struct strays *strays)
{
    if (strays->next == strays->ids.count) {
        string_list_done(&strays->ids);
        free(strays);
        return;
    }
    const char *id = strays->ids.items[strays->next++];
    log_warn("removing sandbox %s, which is not in the database", id);
    strays->runtime->remove(strays->runtime, id, on_stray_removed, strays);
}

static void on_stray_removed(const struct error *err, void *ctx)
{
    struct strays *strays = ctx;
    if (err != NULL)
        log_error("cannot remove sandbox %s: %s", strays->ids.items[strays->next - 1],
                  err->message);
    if (err != NULL && err->code == ERR_UNAVAILABLE)
        strays->next = strays->ids.count; /* the next reconcile finds the rest */
    remove_next_stray(strays);
}

static void remove_strays(struct reconcile *reconcile, const struct runtime_sandbox *items,
                          size_t count)
{
    struct strays *strays = mem_alloc(sizeof(*strays));
    strays->runtime = reconcile->config.runtime;
    for (size_t i = 0; i < count; i++) {
        struct store_access access;
        struct error err = ERROR_INIT;
        if (!server_lifecycle_is_busy(reconcile->config.lifecycle, items[i].id) &&
            store_get_access(reconcile->config.store, items[i].id, &access, &err) < 0 &&
            err.code == ERR_NOT_FOUND)
            string_list_add(&strays->ids, items[i].id);
    }
    remove_next_stray(strays);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void finish(struct reconcile *reconcile)
{
    reconcile->done(reconcile->err.code != ERR_OK ? &reconcile->err : NULL, reconcile->ctx);
    string_list_done(&reconcile->known);
    free(reconcile);
}

static void on_list(const struct error *err, const struct runtime_sandbox *items, size_t count,
                    void *ctx)
{
    struct reconcile *reconcile = ctx;
    if (err != NULL) {
        reconcile->err = *err;
        finish(reconcile);
        return;
    }
    AUTO_FREE struct runtime_sandbox *sorted = mem_alloc_array(count + 1, sizeof(*sorted));
    if (count > 0) {
        memcpy(sorted, items, count * sizeof(*sorted));
        qsort(sorted, count, sizeof(*sorted), compare_ids);
    }
    settle_known(reconcile, sorted, count);
    remove_strays(reconcile, sorted, count);
    finish(reconcile);
}

static void drop_busy(struct reconcile *reconcile, struct string_list *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        if (!server_lifecycle_is_busy(reconcile->config.lifecycle, ids->items[i]))
            string_list_add(&reconcile->known, ids->items[i]);
    string_list_done(ids);
}

void server_reconcile_start(const struct server_reconcile_config *config, runtime_done_fn *done,
                            void *ctx)
{
    struct reconcile *reconcile = mem_alloc(sizeof(*reconcile));
    reconcile->config = *config;
    reconcile->done = done;
    reconcile->ctx = ctx;
    struct string_list ids = {0};
    if (store_list_ids(config->store, &ids, &reconcile->err) == 0)
        drop_busy(reconcile, &ids);
    /* A store that cannot be read is reported with the list's answer: never from inside this call,
     * and nothing is known then, so nothing is judged. */
    config->runtime->list(config->runtime, on_list, reconcile);
}
