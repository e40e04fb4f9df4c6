/* What should exist, in SQLite: sandboxes and their labels.
 *
 * One connection, used from the loop thread. WAL with synchronous=NORMAL: a commit costs some ten
 * microseconds and survives a kill of the server; a power failure may lose the last ones, which the
 * reconcile at start repairs. Calls therefore are synchronous.
 *
 * Failures other than ERR_NOT_FOUND are ERR_INTERNAL (ERR_CONFLICT for an id that is there already)
 * with SQLite's words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/sandbox.h"
#include "model/string_list.h"

struct store;

/* Opens or creates the file, and brings an older schema up to date. A newer schema than this
 * program knows is refused. */
int store_open(const char *path, struct store **ret, struct error *err);
struct store *store_close(struct store *store); /* accepts NULL, returns NULL */

/* Commits gather in a log file; moving them into the database waits for the disk, which must not
 * happen on the loop's thread. `on_due` is called after a commit that left the log long: run the
 * checkpointer soon, on another thread. Until then the log only grows, and from a far larger size
 * on the store moves it by itself. */
typedef void store_due_fn(void *ctx);
void store_on_checkpoint_due(struct store *store, store_due_fn *on_due, void *ctx);

/* A second connection to the file, for checkpoints only. It stays open: SQLite cannot close a file
 * that another connection of the process has locked, so one per checkpoint would pile up. */
struct store_checkpointer;
int store_checkpointer_open(const char *path, struct store_checkpointer **ret, struct error *err);
int store_checkpointer_run(struct store_checkpointer *checkpointer, struct error *err); /* blocks */
struct store_checkpointer *store_checkpointer_close(struct store_checkpointer *checkpointer);

int store_insert_sandbox(struct store *store, const struct sandbox *sandbox, struct error *err);

/* ERR_NOT_FOUND when there is none. Release with sandbox_done(). */
int store_get_sandbox(struct store *store, const char *id, struct sandbox *ret, struct error *err);

/* Only what a proxied request needs to know; cheaper than the whole. */
struct store_access {
    enum sandbox_state state;
    char execd_token[ID_TOKEN_LEN + 1];
};
int store_get_access(struct store *store, const char *id, struct store_access *ret,
                     struct error *err);

/* Writes state, reason, message and last_transition_at. */
int store_update_state(struct store *store, const struct sandbox *sandbox, struct error *err);
int store_delete_sandbox(struct store *store, const char *id, struct error *err);

/* Which sandboxes to list. Newest first. */
struct store_filter {
    bool by_state;        /* states counts: */
    unsigned states;      /* bits 1 << enum sandbox_state; 0 matches nothing */
    struct labels labels; /* all of them must be there with these values; UTF-8 */
    int64_t page;         /* 1 ... */
    int64_t page_size;
};

struct store_page {
    struct sandbox *items;
    size_t count;
    int64_t total; /* over all pages */
};

int store_list_sandboxes(struct store *store, const struct store_filter *filter,
                         struct store_page *ret, struct error *err);
void store_page_done(struct store_page *page);

int store_list_ids(struct store *store, struct string_list *ret, struct error *err);

/* The earliest expires_at of all, 0 when nothing expires. */
int store_next_expiry(struct store *store, int64_t *ret_unix_ms, struct error *err);
/* At most `max` ids whose time has come, the longest overdue first. */
int store_list_expired(struct store *store, int64_t now_unix_ms, size_t max,
                       struct string_list *ret, struct error *err);
