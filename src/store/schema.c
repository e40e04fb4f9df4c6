#include "store/schema.h"

#include <stdio.h>

#include "store/statement.h"

/* migrations[n] leads from version n to n + 1. Released ones are never edited: append. */
static const char *const migrations[] = {
    /* Times are Unix milliseconds. A limit that was not asked for is NULL. */
    "CREATE TABLE sandbox ("
    "  id TEXT NOT NULL PRIMARY KEY,"
    "  image TEXT NOT NULL,"
    "  entrypoint TEXT NOT NULL," /* JSON array of strings */
    "  platform_os TEXT,"
    "  platform_arch TEXT,"
    "  memory_bytes INTEGER,"
    "  cpu_millis INTEGER,"
    "  pids INTEGER,"
    "  created_at INTEGER NOT NULL,"
    "  expires_at INTEGER,"
    "  state TEXT NOT NULL,"
    "  reason TEXT,"
    "  message TEXT,"
    "  last_transition_at INTEGER NOT NULL,"
    "  execd_token TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX sandbox_by_creation ON sandbox (created_at DESC, id DESC);"
    "CREATE INDEX sandbox_by_expiry ON sandbox (expires_at) WHERE expires_at IS NOT NULL;"
    "CREATE TABLE sandbox_label ("
    "  sandbox_id TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,"
    "  key TEXT NOT NULL,"
    "  value TEXT NOT NULL,"
    "  PRIMARY KEY (sandbox_id, key)"
    ") STRICT, WITHOUT ROWID;",
    "ALTER TABLE sandbox ADD COLUMN disk_bytes INTEGER;"
    "ALTER TABLE sandbox ADD COLUMN io_read_bps INTEGER;"
    "ALTER TABLE sandbox ADD COLUMN io_write_bps INTEGER;"
    "ALTER TABLE sandbox ADD COLUMN io_read_iops INTEGER;"
    "ALTER TABLE sandbox ADD COLUMN io_write_iops INTEGER;"
    "ALTER TABLE sandbox ADD COLUMN open_files INTEGER;",
};

static int read_version(sqlite3 *db, int *ret, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        sqlite3_finalize(statement);
        return statement_fail(db, "cannot read the schema version", err);
    }
    *ret = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return 0;
}

static int migrate_one(sqlite3 *db, int version, struct error *err)
{
    char set_version[64]; /* a pragma takes no bound values */
    snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %d", version + 1);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, migrations[version], NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, set_version, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    int r = statement_fail(db, "cannot update the schema", err);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

int schema_migrate(sqlite3 *db, struct error *err)
{
    int version = 0;
    int r = read_version(db, &version, err);
    if (r < 0)
        return r;
    const int newest = (int)ARRAY_LEN(migrations);
    if (version < 0 || version > newest)
        return error_set(err, ERR_UNSUPPORTED,
                         "the database has schema version %d, this program knows up to %d: it was "
                         "written by a newer version, run that one",
                         version, newest);
    for (; version < newest; version++) {
        r = migrate_one(db, version, err);
        if (r < 0)
            return r;
    }
    return 0;
}
