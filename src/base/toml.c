/* The document as a tree, and reading from it.
 *
 * Members are found by walking the table: with at most TOML_MAX_VALUES of them that is cheaper than
 * any index worth writing. Values are handed out const, but carry the mark that somebody has asked
 * for them; they were never const objects, so setting it through a cast is defined.
 */
#include "base/toml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/toml_value.h"

static bool has_items(const struct toml_value *value)
{
    return value->type == TOML_ARRAY || value->type == TOML_TABLE;
}

struct toml_value *toml_value_add(struct toml_value *parent, char *key, int line)
{
    struct toml_value *value = mem_alloc(sizeof(*value));
    value->type = TOML_TABLE;
    value->line = line;
    value->key = key;
    value->parent = parent;
    if (parent == NULL)
        return value;
    value->depth = parent->depth + 1;
    if (parent->count == parent->capacity) {
        parent->capacity = parent->capacity > 0 ? 2 * parent->capacity : 4;
        parent->items = mem_resize_array(parent->items, parent->capacity, sizeof(parent->items[0]));
    }
    parent->items[parent->count++] = value;
    return value;
}

/* Recursion: TOML_MAX_DEPTH deep at most. */
void toml_value_free(struct toml_value *value)
{
    if (has_items(value)) {
        for (size_t i = 0; i < value->count; i++)
            toml_value_free(value->items[i]);
        free(value->items);
    } else if (value->type == TOML_STRING) {
        free(value->string);
    }
    free(value->key);
    free(value);
}

struct toml_value *toml_value_find(const struct toml_value *table, const char *key)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->items[i]->key, key) == 0)
            return table->items[i];
    }
    return NULL;
}

/* A key too long for the buffer is cut, between two characters. Keys are UTF-8 by construction. */
static void add_key(struct buf *buf, const char *key)
{
    static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (*key != '\0' && key[strspn(key, bare)] == '\0') {
        buf_add(buf, key, MIN(strlen(key), buf->max - buf->length));
        return;
    }
    buf_add_char(buf, '"');
    int r = 0;
    uint32_t code;
    for (size_t size; r == 0 && *key != '\0'; key += size) {
        size = str_utf8_next(key, strlen(key), &code);
        if (code < 0x20 || code == 0x7f)
            r = buf_printf(buf, "\\u%04x", (unsigned int)code);
        else
            r = buf_printf(buf, "%s%.*s", code == '"' || code == '\\' ? "\\" : "", (int)size, key);
    }
    buf_add_char(buf, '"');
}

void toml_value_path(const struct toml_value *value, struct buf *ret)
{
    const struct toml_value *parent = value->parent;
    if (parent == NULL)
        return;
    toml_value_path(parent, ret);
    if (parent->type == TOML_ARRAY) {
        size_t index = 0;
        while (parent->items[index] != value)
            index++;
        buf_printf(ret, "[%zu]", index);
        return;
    }
    if (parent->parent != NULL)
        buf_add_char(ret, '.');
    add_key(ret, value->key);
}

struct toml *toml_free(struct toml *doc)
{
    if (doc != NULL) {
        toml_value_free(doc->root);
        free(doc->name);
        free(doc);
    }
    return NULL;
}

const struct toml_value *toml_root(const struct toml *doc)
{
    return doc->root;
}

enum toml_type toml_type(const struct toml_value *value)
{
    return value->type;
}

int toml_line(const struct toml_value *value)
{
    return value->line;
}

static const struct toml_value *mark_used(const struct toml_value *value)
{
    if (value != NULL)
        ((struct toml_value *)value)->used = true;
    return value;
}

const struct toml_value *toml_find(const struct toml_value *table, const char *key)
{
    if (table == NULL || table->type != TOML_TABLE)
        return NULL;
    return mark_used(toml_value_find(table, key));
}

const char *toml_table_key(const struct toml_value *table, size_t index)
{
    if (table == NULL || table->type != TOML_TABLE || index >= table->count)
        return NULL;
    return table->items[index]->key;
}

size_t toml_array_count(const struct toml_value *array)
{
    return array != NULL && array->type == TOML_ARRAY ? array->count : 0;
}

const struct toml_value *toml_array_at(const struct toml_value *array, size_t index)
{
    return index < toml_array_count(array) ? mark_used(array->items[index]) : NULL;
}

const char *toml_string(const struct toml_value *value)
{
    return value != NULL && value->type == TOML_STRING ? value->string : NULL;
}

/* "name:line: 'full.key' <problem>" */
static int refuse(const struct toml *doc, const struct toml_value *value, struct error *err,
                  const char *problem)
{
    struct buf CLEANUP(buf_done) path;
    buf_init(&path, TOML_PATH_MAX);
    toml_value_path(value, &path);
    return error_set(err, ERR_INVALID, "%s:%d: '%s' %s", doc->name, value->line, path.data,
                     problem);
}

static int refuse_type(const struct toml *doc, const struct toml_value *value, const char *wanted,
                       struct error *err)
{
    static const char *const names[] = {
        [TOML_STRING] = "a string",       [TOML_INTEGER] = "an integer", [TOML_FLOAT] = "a float",
        [TOML_BOOLEAN] = "true or false", [TOML_ARRAY] = "an array",     [TOML_TABLE] = "a table",
    };
    AUTO_FREE char *problem = mem_printf("must be %s, not %s", wanted, names[value->type]);
    return refuse(doc, value, err, problem);
}

/* The member or NULL when absent; negative when `table` is a value of another kind: to take
 * `server = 5` for an absent [server] would hide the mistake. */
static int get_member(const struct toml *doc, const struct toml_value *table, const char *key,
                      const struct toml_value **ret, struct error *err)
{
    if (table != NULL && table->type != TOML_TABLE)
        return refuse_type(doc, table, "a table", err);
    *ret = toml_find(table, key);
    return 0;
}

int toml_get_string(const struct toml *doc, const struct toml_value *table, const char *key,
                    const char **ret, struct error *err)
{
    const struct toml_value *value;
    int r = get_member(doc, table, key, &value, err);
    if (r < 0 || value == NULL)
        return r;
    if (value->type != TOML_STRING)
        return refuse_type(doc, value, "a string", err);
    *ret = value->string;
    return 0;
}

int toml_get_int(const struct toml *doc, const struct toml_value *table, const char *key,
                 int64_t min, int64_t max, int64_t *ret, struct error *err)
{
    const struct toml_value *value;
    int r = get_member(doc, table, key, &value, err);
    if (r < 0 || value == NULL)
        return r;
    AUTO_FREE char *wanted = mem_printf("an integer from %" PRId64 " to %" PRId64, min, max);
    if (value->type != TOML_INTEGER)
        return refuse_type(doc, value, wanted, err);
    if (value->integer < min || value->integer > max) {
        AUTO_FREE char *problem = mem_printf("must be %s, not %" PRId64, wanted, value->integer);
        return refuse(doc, value, err, problem);
    }
    *ret = value->integer;
    return 0;
}

int toml_get_float(const struct toml *doc, const struct toml_value *table, const char *key,
                   double min, double max, double *ret, struct error *err)
{
    const struct toml_value *value;
    int r = get_member(doc, table, key, &value, err);
    if (r < 0 || value == NULL)
        return r;
    AUTO_FREE char *wanted = mem_printf("a number from %g to %g", min, max);
    if (value->type != TOML_FLOAT && value->type != TOML_INTEGER)
        return refuse_type(doc, value, wanted, err);
    double number = value->type == TOML_FLOAT ? value->number : (double)value->integer;
    if (!(number >= min && number <= max)) { /* written so that nan is refused */
        AUTO_FREE char *problem = mem_printf("must be %s, not %g", wanted, number);
        return refuse(doc, value, err, problem);
    }
    *ret = number;
    return 0;
}

int toml_get_bool(const struct toml *doc, const struct toml_value *table, const char *key,
                  bool *ret, struct error *err)
{
    const struct toml_value *value;
    int r = get_member(doc, table, key, &value, err);
    if (r < 0 || value == NULL)
        return r;
    if (value->type != TOML_BOOLEAN)
        return refuse_type(doc, value, "true or false", err);
    *ret = value->boolean;
    return 0;
}

/* The unused value with the smallest line: tables may be written in pieces, so the order of the
 * tree is not that of the lines. */
static const struct toml_value *first_unused(const struct toml_value *value)
{
    if (!value->used)
        return value;
    const struct toml_value *first = NULL;
    for (size_t i = 0; has_items(value) && i < value->count; i++) {
        const struct toml_value *unused = first_unused(value->items[i]);
        if (unused != NULL && (first == NULL || unused->line < first->line))
            first = unused;
    }
    return first;
}

int toml_check_unused(const struct toml *doc, struct error *err)
{
    const struct toml_value *unused = first_unused(doc->root);
    if (unused == NULL)
        return 0;
    struct buf CLEANUP(buf_done) path;
    buf_init(&path, TOML_PATH_MAX);
    toml_value_path(unused, &path);
    return error_set(err, ERR_INVALID, "%s:%d: unknown key '%s'", doc->name, unused->line,
                     path.data);
}
