/* Inside the store: prepared statements, bound values, rows. A statement is prepared once, when it
 * is first needed, and lives as long as the connection. */
#pragma once

#include <sqlite3.h>
#include <stdint.h>

#include "base/error.h"

/* Text of each statement; see statement.c. */
enum statement_id {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK,
    STATEMENT_INSERT_SANDBOX,
    STATEMENT_INSERT_LABEL,
    STATEMENT_GET_SANDBOX,
    STATEMENT_GET_LABELS,
    STATEMENT_GET_ACCESS,
    STATEMENT_UPDATE_STATE,
    STATEMENT_DELETE_SANDBOX,
    STATEMENT_COUNT_SANDBOXES,
    STATEMENT_LIST_SANDBOXES,
    STATEMENT_LIST_IDS,
    STATEMENT_NEXT_EXPIRY,
    STATEMENT_LIST_EXPIRED,
};
#define STATEMENT_COUNT 15

struct statement_cache {
    sqlite3 *db;
    sqlite3_stmt *prepared[STATEMENT_COUNT];
};

void statement_cache_done(struct statement_cache *cache);

/* A statement ready to bind and step, reset and without bindings. NULL with err. */
sqlite3_stmt *statement_get(struct statement_cache *cache, enum statement_id id, struct error *err);

/* For CLEANUP(): ends the statement's read lock and forgets what was bound. */
void statement_reset_ptr(sqlite3_stmt **statement);
#define AUTO_RESET CLEANUP(statement_reset_ptr)

/* Positions are 1-based, as in SQL. NULL text binds NULL. Text must stay until the reset. */
void statement_bind_text(sqlite3_stmt *statement, int position, const char *text);
void statement_bind_int(sqlite3_stmt *statement, int position, int64_t value);
void statement_bind_int_or_null(sqlite3_stmt *statement, int position, int64_t value); /* 0: NULL */

char *statement_column_dup(sqlite3_stmt *statement, int column); /* 0-based; NULL stays NULL */

/* SQLITE_ROW gives 1, SQLITE_DONE 0, anything else negative with err. */
int statement_step(struct statement_cache *cache, sqlite3_stmt *statement, struct error *err);

/* Run one that has no rows. */
int statement_run(struct statement_cache *cache, enum statement_id id, struct error *err);

int statement_fail(sqlite3 *db, const char *what, struct error *err);
