#include "store/statement.h"

#include "base/mem.h"

#define SANDBOX_COLUMNS                                                                   \
    "id, image, entrypoint, platform_os, platform_arch, memory_bytes, cpu_millis, pids, " \
    "created_at, expires_at, state, reason, message, last_transition_at, execd_token, "   \
    "disk_bytes, io_read_bps, io_write_bps, io_read_iops, io_write_iops, open_files"

/* ?1 is NULL or a JSON array of state names, ?2 a JSON array of [key, value] pairs: one fixed text
 * for every filter, with all that a client chose bound as values. */
#define FILTER                                                                 \
    " WHERE (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))"        \
    " AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS want WHERE NOT EXISTS ("  \
    "SELECT 1 FROM sandbox_label AS label WHERE label.sandbox_id = sandbox.id" \
    " AND label.key = json_extract(want.value, '$[0]')"                        \
    " AND label.value = json_extract(want.value, '$[1]')))"

static const char *const texts[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_ROLLBACK] = "ROLLBACK",
    [STATEMENT_INSERT_SANDBOX] =
        "INSERT INTO sandbox (" SANDBOX_COLUMNS
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, "
        "?16, ?17, ?18, ?19, ?20, ?21)",
    [STATEMENT_INSERT_LABEL] =
        "INSERT INTO sandbox_label (sandbox_id, key, value) VALUES (?1, ?2, ?3)",
    [STATEMENT_GET_SANDBOX] = "SELECT " SANDBOX_COLUMNS " FROM sandbox WHERE id = ?1",
    [STATEMENT_GET_LABELS] =
        "SELECT key, value FROM sandbox_label WHERE sandbox_id = ?1 ORDER BY key",
    [STATEMENT_GET_ACCESS] = "SELECT state, execd_token FROM sandbox WHERE id = ?1",
    [STATEMENT_UPDATE_STATE] = "UPDATE sandbox SET state = ?2, reason = ?3, message = ?4, "
                               "last_transition_at = ?5 WHERE id = ?1",
    [STATEMENT_DELETE_SANDBOX] = "DELETE FROM sandbox WHERE id = ?1",
    [STATEMENT_COUNT_SANDBOXES] = "SELECT count(*) FROM sandbox" FILTER,
    [STATEMENT_LIST_SANDBOXES] = "SELECT " SANDBOX_COLUMNS " FROM sandbox" FILTER
                                 " ORDER BY created_at DESC, id DESC LIMIT ?3 OFFSET ?4",
    [STATEMENT_LIST_IDS] = "SELECT id FROM sandbox ORDER BY id",
    [STATEMENT_NEXT_EXPIRY] = "SELECT min(expires_at) FROM sandbox WHERE expires_at IS NOT NULL",
    [STATEMENT_LIST_EXPIRED] = "SELECT id FROM sandbox WHERE expires_at IS NOT NULL"
                               " AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2",
};

void statement_cache_done(struct statement_cache *cache)
{
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(cache->prepared[i]);
}

int statement_fail(sqlite3 *db, const char *what, struct error *err)
{
    enum error_code code = sqlite3_errcode(db) == SQLITE_CONSTRAINT ? ERR_CONFLICT : ERR_INTERNAL;
    return error_set(err, code, "%s: %s", what, sqlite3_errmsg(db));
}

sqlite3_stmt *statement_get(struct statement_cache *cache, enum statement_id id, struct error *err)
{
    if (cache->prepared[id] == NULL &&
        sqlite3_prepare_v3(cache->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT,
                           &cache->prepared[id], NULL) != SQLITE_OK) {
        statement_fail(cache->db, "cannot prepare a statement", err);
        return NULL;
    }
    return cache->prepared[id];
}

void statement_reset_ptr(sqlite3_stmt **statement)
{
    if (*statement == NULL)
        return;
    sqlite3_reset(*statement);
    sqlite3_clear_bindings(*statement);
}

/* Binding fails only for a position the text does not have or when memory is out; the step that
 * follows then misses a value or fails by itself. */
void statement_bind_text(sqlite3_stmt *statement, int position, const char *text)
{
    sqlite3_bind_text(statement, position, text, -1, SQLITE_STATIC);
}

void statement_bind_int(sqlite3_stmt *statement, int position, int64_t value)
{
    sqlite3_bind_int64(statement, position, value);
}

void statement_bind_int_or_null(sqlite3_stmt *statement, int position, int64_t value)
{
    if (value != 0)
        sqlite3_bind_int64(statement, position, value);
    else
        sqlite3_bind_null(statement, position);
}

char *statement_column_dup(sqlite3_stmt *statement, int column)
{
    return mem_dup((const char *)sqlite3_column_text(statement, column));
}

int statement_step(struct statement_cache *cache, sqlite3_stmt *statement, struct error *err)
{
    switch (sqlite3_step(statement)) {
    case SQLITE_ROW:
        return 1;
    case SQLITE_DONE:
        return 0;
    default:
        return statement_fail(cache->db, "database", err);
    }
}

int statement_run(struct statement_cache *cache, enum statement_id id, struct error *err)
{
    AUTO_RESET sqlite3_stmt *statement = statement_get(cache, id, err);
    if (statement == NULL)
        return -1;
    int r = statement_step(cache, statement, err);
    return r < 0 ? r : 0;
}
