/* A strict reader for the part of TOML 1.0 that a configuration needs.
 *
 * Read: comments, bare and quoted keys, dotted keys, [tables], [[arrays of tables]], basic and
 * literal strings (single-line and multi-line), integers (decimal, 0x, 0o, 0b, underscores),
 * floats, booleans, arrays, inline tables. Refused with line and reason: dates, duplicate keys, a
 * table defined twice, anything after a value, control characters, invalid UTF-8, nesting deeper
 * than 16, documents over 1 MiB, more than 10,000 values.
 *
 * Use: parse, read what you know with the toml_get_* functions, then toml_check_unused(): whatever
 * was never asked for is a typo and is reported with its line. The document owns all strings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TOML_MAX_BYTES (1024 * 1024)

struct toml;       /* a parsed document */
struct toml_value; /* a value inside one; borrowed, lives as long as the document */

enum toml_type { TOML_STRING, TOML_INTEGER, TOML_FLOAT, TOML_BOOLEAN, TOML_ARRAY, TOML_TABLE };

/* `name` is used in messages ("config.toml:12: ..."). NUL bytes in the text are refused. */
int toml_parse(const char *name, const char *text, size_t length, struct toml **ret,
               struct error *err);
struct toml *toml_free(struct toml *doc); /* accepts NULL, returns NULL */

const struct toml_value *toml_root(const struct toml *doc); /* a table, never NULL */

enum toml_type toml_type(const struct toml_value *value);
int toml_line(const struct toml_value *value);

/* Members of tables. NULL when absent or when `table` is NULL, so that look-ups chain. Marks the
 * member as used. */
const struct toml_value *toml_find(const struct toml_value *table, const char *key);

/* The name of the index-th member in the order of the text, for tables with free keys; NULL past
 * the end and for anything that is not a table. Marks nothing. */
const char *toml_table_key(const struct toml_value *table, size_t index);

/* Elements of arrays: count is 0 for anything that is not an array. Marks the element as used. */
size_t toml_array_count(const struct toml_value *array);
const struct toml_value *toml_array_at(const struct toml_value *array, size_t index);

/* Typed members with a default: return 0 and leave *ret alone when absent, 0 and set *ret when
 * present, negative with "name:line: 'table.key' must be ..." when of another type or out of range,
 * or when `table` is not a table at all. */
int toml_get_string(const struct toml *doc, const struct toml_value *table, const char *key,
                    const char **ret, struct error *err);
int toml_get_int(const struct toml *doc, const struct toml_value *table, const char *key,
                 int64_t min, int64_t max, int64_t *ret, struct error *err);
int toml_get_float(const struct toml *doc, const struct toml_value *table, const char *key,
                   double min, double max, double *ret, struct error *err); /* takes integers too */
int toml_get_bool(const struct toml *doc, const struct toml_value *table, const char *key,
                  bool *ret, struct error *err);

/* For values already found: NULL or false-like answer when the type differs. */
const char *toml_string(const struct toml_value *value);

/* Error naming line and full key of the first member nobody looked up. */
int toml_check_unused(const struct toml *doc, struct error *err);
