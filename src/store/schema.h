/* Inside the store: tables, and how an older file becomes a newer one. */
#pragma once

#include <sqlite3.h>

#include "base/error.h"

/* Runs the migrations that PRAGMA user_version has not seen, each in its own transaction. */
int schema_migrate(sqlite3 *db, struct error *err);
