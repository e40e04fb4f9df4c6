#include "store/store.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/schema.h"
#include "store/statement.h"

/* Pages in the log when a checkpoint is due (SQLite's own default), and when it cannot wait. */
#define LOG_PAGES_DUE 1000
#define LOG_PAGES_MAX 20000

struct store {
    struct statement_cache cache;
    store_due_fn *on_due; /* may be NULL */
    void *due_ctx;
};

/* --- opening ---------------------------------------------------------------------------------- */

static int configure(sqlite3 *db, struct error *err)
{
    /* The server is the only user of the file; the time-out is for an operator's sqlite3 shell. */
    sqlite3_busy_timeout(db, 2000);
    sqlite3_extended_result_codes(db, 0);
    static const char pragmas[] = "PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = NORMAL;"
                                  "PRAGMA foreign_keys = ON;"
                                  "PRAGMA temp_store = MEMORY;" /* no files elsewhere */
                                  "PRAGMA trusted_schema = OFF;"
                                  "PRAGMA secure_delete = FAST;"; /* zeroes what costs no write */
    if (sqlite3_exec(db, pragmas, NULL, NULL, NULL) != SQLITE_OK)
        return statement_fail(db, "cannot configure the database", err);
    return schema_migrate(db, err);
}

static int on_commit(void *ctx, sqlite3 *db, const char *name, int log_pages)
{
    struct store *store = ctx;
    if (log_pages >= LOG_PAGES_MAX)
        return sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (log_pages >= LOG_PAGES_DUE && store->on_due != NULL)
        store->on_due(store->due_ctx);
    return SQLITE_OK;
}

int store_open(const char *path, struct store **ret, struct error *err)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int r = 0;
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK)
        r = error_set(err, ERR_INTERNAL, "%s", sqlite3_errmsg(db));
    else
        r = configure(db, err);
    if (r < 0) {
        sqlite3_close(db);
        return error_wrap(err, "cannot open database %s", path);
    }
    struct store *store = mem_alloc(sizeof(*store));
    store->cache.db = db;
    sqlite3_wal_hook(db, on_commit, store); /* instead of SQLite's own checkpoints */
    *ret = store;
    return 0;
}

void store_on_checkpoint_due(struct store *store, store_due_fn *on_due, void *ctx)
{
    store->on_due = on_due;
    store->due_ctx = ctx;
}

struct store_checkpointer {
    sqlite3 *db;
};

int store_checkpointer_open(const char *path, struct store_checkpointer **ret, struct error *err)
{
    struct store_checkpointer *checkpointer = mem_alloc(sizeof(*checkpointer));
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    int r = 0;
    if (sqlite3_open_v2(path, &checkpointer->db, flags, NULL) != SQLITE_OK ||
        sqlite3_exec(checkpointer->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL) !=
            SQLITE_OK)
        r = statement_fail(checkpointer->db, "cannot open the database for checkpoints", err);
    if (r == 0)
        r = store_checkpointer_run(checkpointer, err); /* opens the log's files, too */
    if (r < 0) {
        store_checkpointer_close(checkpointer);
        return r;
    }
    *ret = checkpointer;
    return 0;
}

int store_checkpointer_run(struct store_checkpointer *checkpointer, struct error *err)
{
    sqlite3 *db = checkpointer->db;
    if (sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) != SQLITE_OK)
        return statement_fail(db, "cannot move the log into the database", err);
    return 0;
}

struct store_checkpointer *store_checkpointer_close(struct store_checkpointer *checkpointer)
{
    if (checkpointer != NULL)
        sqlite3_close(checkpointer->db);
    free(checkpointer);
    return NULL;
}

struct store *store_close(struct store *store)
{
    if (store == NULL)
        return NULL;
    statement_cache_done(&store->cache);
    sqlite3_close(store->cache.db);
    free(store);
    return NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

static char *entrypoint_to_text(const struct string_list *entrypoint)
{
    json_t *array = json_array();
    for (size_t i = 0; i < entrypoint->count; i++)
        json_array_append_new(array, json_string(entrypoint->items[i]));
    char *text = json_dumps(array, JSON_COMPACT);
    json_decref(array);
    return text;
}

static int entrypoint_from_text(const char *text, struct string_list *ret, struct error *err)
{
    json_t *array = json_loads(text, 0, NULL);
    size_t index;
    json_t *item;
    json_array_foreach(array, index, item)
    {
        if (json_is_string(item))
            string_list_add(ret, json_string_value(item));
    }
    json_decref(array);
    if (ret->count == 0)
        return error_set(err, ERR_INTERNAL, "the database holds a damaged entrypoint");
    return 0;
}

static int read_state(sqlite3_stmt *row, int column, enum sandbox_state *ret, struct error *err)
{
    const char *name = (const char *)sqlite3_column_text(row, column);
    if (name == NULL || sandbox_state_parse(name, ret) < 0)
        return error_set(err, ERR_INTERNAL, "the database holds the unknown state '%s'",
                         name != NULL ? name : "");
    return 0;
}

static void copy_text(sqlite3_stmt *row, int column, char *to, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    snprintf(to, size, "%s", text != NULL ? text : "");
}

static int read_labels(struct store *store, struct sandbox *sandbox, struct error *err)
{
    AUTO_RESET sqlite3_stmt *labels = statement_get(&store->cache, STATEMENT_GET_LABELS, err);
    if (labels == NULL)
        return -EIO;
    statement_bind_text(labels, 1, sandbox->id);
    int r;
    while ((r = statement_step(&store->cache, labels, err)) > 0)
        labels_set(&sandbox->metadata, (const char *)sqlite3_column_text(labels, 0),
                   (const char *)sqlite3_column_text(labels, 1));
    return r;
}

static struct limits read_limits(sqlite3_stmt *row)
{
    return (struct limits){
        .memory_bytes = (uint64_t)sqlite3_column_int64(row, 5),
        .cpu_millis = (uint32_t)sqlite3_column_int64(row, 6),
        .pids = (uint32_t)sqlite3_column_int64(row, 7),
        .disk_bytes = (uint64_t)sqlite3_column_int64(row, 15),
        .io_read_bps = (uint64_t)sqlite3_column_int64(row, 16),
        .io_write_bps = (uint64_t)sqlite3_column_int64(row, 17),
        .io_read_iops = (uint32_t)sqlite3_column_int64(row, 18),
        .io_write_iops = (uint32_t)sqlite3_column_int64(row, 19),
        .open_files = (uint32_t)sqlite3_column_int64(row, 20),
    };
}

static void bind_limits(sqlite3_stmt *row, const struct limits *limits)
{
    statement_bind_int_or_null(row, 6, (int64_t)limits->memory_bytes);
    statement_bind_int_or_null(row, 7, limits->cpu_millis);
    statement_bind_int_or_null(row, 8, limits->pids);
    statement_bind_int_or_null(row, 16, (int64_t)limits->disk_bytes);
    statement_bind_int_or_null(row, 17, (int64_t)limits->io_read_bps);
    statement_bind_int_or_null(row, 18, (int64_t)limits->io_write_bps);
    statement_bind_int_or_null(row, 19, limits->io_read_iops);
    statement_bind_int_or_null(row, 20, limits->io_write_iops);
    statement_bind_int_or_null(row, 21, limits->open_files);
}

/* The columns in the order of SANDBOX_COLUMNS. */
static int read_sandbox(struct store *store, sqlite3_stmt *row, struct sandbox *ret,
                        struct error *err)
{
    struct sandbox sandbox = {
        .image = statement_column_dup(row, 1),
        .platform_os = statement_column_dup(row, 3),
        .platform_arch = statement_column_dup(row, 4),
        .limits = read_limits(row),
        .created_at_ms = sqlite3_column_int64(row, 8),
        .expires_at_ms = sqlite3_column_int64(row, 9),
        .reason = statement_column_dup(row, 11),
        .message = statement_column_dup(row, 12),
        .last_transition_at_ms = sqlite3_column_int64(row, 13),
    };
    copy_text(row, 0, sandbox.id, sizeof(sandbox.id));
    copy_text(row, 14, sandbox.execd_token, sizeof(sandbox.execd_token));
    int r =
        entrypoint_from_text((const char *)sqlite3_column_text(row, 2), &sandbox.entrypoint, err);
    if (r == 0)
        r = read_state(row, 10, &sandbox.state, err);
    if (r == 0)
        r = read_labels(store, &sandbox, err);
    if (r < 0) {
        sandbox_done(&sandbox);
        return r;
    }
    *ret = sandbox;
    return 0;
}

static int not_found(const char *id, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "there is no sandbox %s", id);
}

/* --- one sandbox ------------------------------------------------------------------------------ */

static int insert_row(struct store *store, const struct sandbox *sandbox, struct error *err)
{
    AUTO_FREE char *entrypoint = entrypoint_to_text(&sandbox->entrypoint);
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_INSERT_SANDBOX, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, sandbox->id);
    statement_bind_text(row, 2, sandbox->image);
    statement_bind_text(row, 3, entrypoint);
    statement_bind_text(row, 4, sandbox->platform_os);
    statement_bind_text(row, 5, sandbox->platform_arch);
    bind_limits(row, &sandbox->limits);
    statement_bind_int(row, 9, sandbox->created_at_ms);
    statement_bind_int_or_null(row, 10, sandbox->expires_at_ms);
    statement_bind_text(row, 11, sandbox_state_name(sandbox->state));
    statement_bind_text(row, 12, sandbox->reason);
    statement_bind_text(row, 13, sandbox->message);
    statement_bind_int(row, 14, sandbox->last_transition_at_ms);
    statement_bind_text(row, 15, sandbox->execd_token);
    return statement_step(&store->cache, row, err);
}

static int insert_labels(struct store *store, const struct sandbox *sandbox, struct error *err)
{
    for (size_t i = 0; i < sandbox->metadata.count; i++) {
        AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_INSERT_LABEL, err);
        if (row == NULL)
            return -EIO;
        statement_bind_text(row, 1, sandbox->id);
        statement_bind_text(row, 2, sandbox->metadata.items[i].key);
        statement_bind_text(row, 3, sandbox->metadata.items[i].value);
        int r = statement_step(&store->cache, row, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int store_insert_sandbox(struct store *store, const struct sandbox *sandbox, struct error *err)
{
    int r = statement_run(&store->cache, STATEMENT_BEGIN, err);
    if (r < 0)
        return r;
    r = insert_row(store, sandbox, err);
    if (r == 0)
        r = insert_labels(store, sandbox, err);
    if (r == 0)
        r = statement_run(&store->cache, STATEMENT_COMMIT, err);
    if (r < 0)
        statement_run(&store->cache, STATEMENT_ROLLBACK, NULL);
    return r;
}

int store_get_sandbox(struct store *store, const char *id, struct sandbox *ret, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_GET_SANDBOX, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, id);
    int r = statement_step(&store->cache, row, err);
    if (r < 0)
        return r;
    return r == 0 ? not_found(id, err) : read_sandbox(store, row, ret, err);
}

int store_get_access(struct store *store, const char *id, struct store_access *ret,
                     struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_GET_ACCESS, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, id);
    int r = statement_step(&store->cache, row, err);
    if (r < 0)
        return r;
    if (r == 0)
        return not_found(id, err);
    struct store_access access = {0};
    r = read_state(row, 0, &access.state, err);
    if (r < 0)
        return r;
    copy_text(row, 1, access.execd_token, sizeof(access.execd_token));
    *ret = access;
    return 0;
}

int store_update_state(struct store *store, const struct sandbox *sandbox, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_UPDATE_STATE, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, sandbox->id);
    statement_bind_text(row, 2, sandbox_state_name(sandbox->state));
    statement_bind_text(row, 3, sandbox->reason);
    statement_bind_text(row, 4, sandbox->message);
    statement_bind_int(row, 5, sandbox->last_transition_at_ms);
    int r = statement_step(&store->cache, row, err);
    if (r == 0 && sqlite3_changes(store->cache.db) == 0)
        r = not_found(sandbox->id, err);
    return r;
}

int store_delete_sandbox(struct store *store, const char *id, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_DELETE_SANDBOX, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, id);
    int r = statement_step(&store->cache, row, err);
    if (r == 0 && sqlite3_changes(store->cache.db) == 0)
        r = not_found(id, err);
    return r;
}

/* --- many ------------------------------------------------------------------------------------- */

/* The filter as the two JSON parameters of FILTER; *ret_states is NULL for "any state". A label
 * that is not UTF-8 cannot be asked for, and must not be left out of the question. */
static int filter_to_text(const struct store_filter *filter, char **ret_states, char **ret_labels,
                          struct error *err)
{
    *ret_states = NULL;
    if (filter->by_state) {
        json_t *states = json_array();
        for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
            if ((filter->states & (1u << i)) != 0)
                json_array_append_new(states, json_string(sandbox_state_name(i)));
        *ret_states = json_dumps(states, JSON_COMPACT);
        json_decref(states);
    }
    json_t *labels = json_array();
    int r = 0;
    for (size_t i = 0; r == 0 && i < filter->labels.count; i++)
        r = json_array_append_new(labels, json_pack("[s, s]", filter->labels.items[i].key,
                                                    filter->labels.items[i].value));
    *ret_labels = json_dumps(labels, JSON_COMPACT);
    json_decref(labels);
    return r < 0 ? error_set(err, ERR_INVALID, "a label to look for is not UTF-8") : 0;
}

static int count_sandboxes(struct store *store, const char *states, const char *labels,
                           int64_t *ret, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_COUNT_SANDBOXES, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, states);
    statement_bind_text(row, 2, labels);
    int r = statement_step(&store->cache, row, err);
    if (r < 0)
        return r;
    *ret = sqlite3_column_int64(row, 0);
    return 0;
}

static int read_page(struct store *store, const struct store_filter *filter, const char *states,
                     const char *labels, struct store_page *page, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_LIST_SANDBOXES, err);
    if (row == NULL)
        return -EIO;
    statement_bind_text(row, 1, states);
    statement_bind_text(row, 2, labels);
    statement_bind_int(row, 3, filter->page_size);
    statement_bind_int(row, 4, (filter->page - 1) * filter->page_size);
    page->items = mem_alloc_array((size_t)filter->page_size, sizeof(struct sandbox));
    int r;
    while ((r = statement_step(&store->cache, row, err)) > 0) {
        r = read_sandbox(store, row, &page->items[page->count], err);
        if (r < 0)
            return r;
        page->count++;
    }
    return r;
}

int store_list_sandboxes(struct store *store, const struct store_filter *filter,
                         struct store_page *ret, struct error *err)
{
    AUTO_FREE char *states = NULL;
    AUTO_FREE char *labels = NULL;
    struct store_page page = {0};
    int r = filter_to_text(filter, &states, &labels, err);
    if (r == 0)
        r = count_sandboxes(store, states, labels, &page.total, err);
    if (r == 0)
        r = read_page(store, filter, states, labels, &page, err);
    if (r < 0) {
        store_page_done(&page);
        return r;
    }
    *ret = page;
    return 0;
}

void store_page_done(struct store_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        sandbox_done(&page->items[i]);
    free(page->items);
    *page = (struct store_page){0};
}

static int read_ids(struct store *store, sqlite3_stmt *row, struct string_list *ret,
                    struct error *err)
{
    int r;
    while ((r = statement_step(&store->cache, row, err)) > 0)
        string_list_take(ret, statement_column_dup(row, 0));
    if (r < 0)
        string_list_done(ret);
    return r;
}

int store_list_ids(struct store *store, struct string_list *ret, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_LIST_IDS, err);
    return row != NULL ? read_ids(store, row, ret, err) : -EIO;
}

int store_next_expiry(struct store *store, int64_t *ret_unix_ms, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_NEXT_EXPIRY, err);
    if (row == NULL)
        return -EIO;
    int r = statement_step(&store->cache, row, err);
    if (r < 0)
        return r;
    *ret_unix_ms = sqlite3_column_int64(row, 0); /* NULL reads as 0 */
    return 0;
}

int store_list_expired(struct store *store, int64_t now_unix_ms, size_t max,
                       struct string_list *ret, struct error *err)
{
    AUTO_RESET sqlite3_stmt *row = statement_get(&store->cache, STATEMENT_LIST_EXPIRED, err);
    if (row == NULL)
        return -EIO;
    statement_bind_int(row, 1, now_unix_ms);
    statement_bind_int(row, 2, (int64_t)max);
    return read_ids(store, row, ret, err);
}
