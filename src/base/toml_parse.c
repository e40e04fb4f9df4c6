/* The grammar of TOML: headers, key paths, arrays, inline tables. One pass, no tokens in between;
 * the tree grows as lines are read, and is thrown away whole when one of them is wrong.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/toml.h"
#include "base/toml_lexer.h"
#include "base/toml_value.h"

struct parser {
    struct toml_lexer lx;
    struct toml *doc;
    struct toml_value *table; /* of the last header */
    size_t values;
};

static int parse_value(struct parser *p, struct toml_value *value);

/* Every value of the document is made here, so here are the limits. */
static int add_value(struct parser *p, struct toml_value *parent, char **key,
                     enum toml_origin origin, struct toml_value **ret)
{
    if (parent->depth >= TOML_MAX_DEPTH)
        return toml_lexer_fail(&p->lx, p->lx.line, "nested deeper than %d", TOML_MAX_DEPTH);
    if (++p->values > TOML_MAX_VALUES)
        return toml_lexer_fail(&p->lx, p->lx.line, "more than %d values", TOML_MAX_VALUES);
    *ret = toml_value_add(parent, key != NULL ? TAKE_PTR(*key) : NULL, p->lx.line);
    (*ret)->origin = origin;
    return 0;
}

static int fail_defined(struct parser *p, const struct toml_value *value)
{
    struct buf CLEANUP(buf_done) path;
    buf_init(&path, TOML_PATH_MAX);
    toml_value_path(value, &path);
    return toml_lexer_fail(&p->lx, p->lx.line, "'%s' is already defined on line %d", path.data,
                           value->line);
}

/* [a.b.c]: the step to a and to b. Goes through tables however they were made, except inline ones,
 * and into the last element of [[a]]. */
static int enter_by_header(struct parser *p, struct toml_value **table, char **key)
{
    struct toml_value *next = toml_value_find(*table, *key);
    if (next == NULL)
        return add_value(p, *table, key, TOML_BY_PATH, table);
    if (next->type == TOML_ARRAY && next->origin == TOML_BY_HEADER)
        next = next->items[next->count - 1];
    if (next->type != TOML_TABLE || next->origin == TOML_BY_VALUE)
        return fail_defined(p, next);
    *table = next;
    return 0;
}

/* a.b.c = 1: the step to a and to b. Only tables made in this way may be added to: the rest was
 * defined under a header of its own. */
static int enter_by_dots(struct parser *p, struct toml_value **table, char **key)
{
    struct toml_value *next = toml_value_find(*table, *key);
    if (next == NULL)
        return add_value(p, *table, key, TOML_BY_DOTS, table);
    if (next->type != TOML_TABLE || next->origin != TOML_BY_DOTS)
        return fail_defined(p, next);
    *table = next;
    return 0;
}

/* The last key of [a.b.c]. */
static int define_table(struct parser *p, struct toml_value *parent, char **key)
{
    struct toml_value *table = toml_value_find(parent, *key);
    if (table == NULL)
        return add_value(p, parent, key, TOML_BY_HEADER, &p->table);
    if (table->type != TOML_TABLE || table->origin != TOML_BY_PATH)
        return fail_defined(p, table);
    table->origin = TOML_BY_HEADER;
    table->line = p->lx.line;
    p->table = table;
    return 0;
}

/* The last key of [[a.b.c]]. */
static int define_element(struct parser *p, struct toml_value *parent, char **key)
{
    struct toml_value *array = toml_value_find(parent, *key);
    if (array == NULL) {
        int r = add_value(p, parent, key, TOML_BY_HEADER, &array);
        if (r < 0)
            return r;
        assert(array != NULL);
        array->type = TOML_ARRAY;
    }
    if (array->type != TOML_ARRAY || array->origin != TOML_BY_HEADER)
        return fail_defined(p, array);
    return add_value(p, array, NULL, TOML_BY_HEADER, &p->table);
}

static int parse_header(struct parser *p)
{
    struct toml_lexer *lx = &p->lx;
    toml_lexer_accept(lx, '[');
    bool element = toml_lexer_accept(lx, '[');
    struct toml_value *parent = p->doc->root;
    for (;;) {
        AUTO_FREE char *key = NULL;
        toml_lexer_skip_blanks(lx);
        int r = toml_lexer_key(lx, &key);
        if (r < 0)
            return r;
        toml_lexer_skip_blanks(lx);
        if (!toml_lexer_accept(lx, '.')) {
            r = toml_lexer_expect(lx, ']', "after the name of a table");
            if (r == 0 && element)
                r = toml_lexer_expect(lx, ']', "after the name of an array of tables");
            if (r < 0)
                return r;
            return element ? define_element(p, parent, &key) : define_table(p, parent, &key);
        }
        r = enter_by_header(p, &parent, &key);
        if (r < 0)
            return r;
    }
}

/* key = value, in the body of a table or between the braces of an inline one. */
static int parse_pair(struct parser *p, struct toml_value *table)
{
    struct toml_lexer *lx = &p->lx;
    for (;;) {
        AUTO_FREE char *key = NULL;
        int r = toml_lexer_key(lx, &key);
        if (r < 0)
            return r;
        toml_lexer_skip_blanks(lx);
        if (!toml_lexer_accept(lx, '.')) {
            struct toml_value *value = toml_value_find(table, key);
            r = toml_lexer_expect(lx, '=', "after a key");
            if (r == 0)
                r = value != NULL ? fail_defined(p, value)
                                  : add_value(p, table, &key, TOML_BY_VALUE, &value);
            toml_lexer_skip_blanks(lx);
            return r < 0 ? r : parse_value(p, value);
        }
        toml_lexer_skip_blanks(lx);
        r = enter_by_dots(p, &table, &key);
        if (r < 0)
            return r;
    }
}

static int parse_array(struct parser *p, struct toml_value *array)
{
    struct toml_lexer *lx = &p->lx;
    array->type = TOML_ARRAY;
    toml_lexer_accept(lx, '[');
    for (;;) {
        toml_lexer_skip_lines(lx);
        if (toml_lexer_accept(lx, ']'))
            return 0;
        struct toml_value *element;
        int r = add_value(p, array, NULL, TOML_BY_VALUE, &element);
        if (r == 0)
            r = parse_value(p, element);
        if (r < 0)
            return r;
        toml_lexer_skip_lines(lx);
        if (!toml_lexer_accept(lx, ',') && toml_lexer_peek(lx, 0) != ']')
            return toml_lexer_fail_expected(lx, "',' or ']' in an array");
    }
}

static int parse_inline_table(struct parser *p, struct toml_value *table)
{
    struct toml_lexer *lx = &p->lx;
    toml_lexer_accept(lx, '{');
    toml_lexer_skip_blanks(lx);
    if (toml_lexer_accept(lx, '}'))
        return 0;
    for (;;) {
        int r = parse_pair(p, table);
        if (r < 0)
            return r;
        toml_lexer_skip_blanks(lx);
        if (toml_lexer_accept(lx, '}'))
            return 0;
        if (!toml_lexer_accept(lx, ','))
            return toml_lexer_fail_expected(lx, "',' or '}' in an inline table");
        toml_lexer_skip_blanks(lx);
    }
}

/* `value` is an empty table, as add_value() made it. */
static int parse_value(struct parser *p, struct toml_value *value)
{
    switch (toml_lexer_peek(&p->lx, 0)) {
    case '[':
        return parse_array(p, value);
    case '{':
        return parse_inline_table(p, value);
    case '"':
    case '\'': {
        char *string;
        int r = toml_lexer_string(&p->lx, &string);
        if (r < 0)
            return r;
        value->type = TOML_STRING;
        value->string = string;
        return 0;
    }
    default: {
        struct toml_scalar scalar;
        int r = toml_lexer_scalar(&p->lx, &scalar);
        if (r < 0)
            return r;
        value->type = scalar.type;
        if (scalar.type == TOML_INTEGER)
            value->integer = scalar.integer;
        else if (scalar.type == TOML_FLOAT)
            value->number = scalar.number;
        else
            value->boolean = scalar.boolean;
        return 0;
    }
    }
}

static int parse_document(struct parser *p)
{
    p->table = p->doc->root;
    for (;;) {
        toml_lexer_skip_lines(&p->lx);
        if (p->lx.at == p->lx.end)
            return 0;
        int r = toml_lexer_peek(&p->lx, 0) == '[' ? parse_header(p) : parse_pair(p, p->table);
        if (r == 0)
            r = toml_lexer_end_line(&p->lx);
        if (r < 0)
            return r;
    }
}

int toml_parse(const char *name, const char *text, size_t length, struct toml **ret,
               struct error *err)
{
    if (length > TOML_MAX_BYTES)
        return error_set(err, ERR_LIMIT, "%s: %zu bytes are more than the %d allowed", name, length,
                         TOML_MAX_BYTES);
    struct parser p = {0};
    int r = toml_lexer_init(&p.lx, name, length > 0 ? text : "", length, err);
    if (r < 0)
        return r;
    p.doc = mem_alloc(sizeof(*p.doc));
    p.doc->name = mem_dup(name);
    p.doc->root = toml_value_add(NULL, NULL, 1);
    p.doc->root->origin = TOML_BY_HEADER;
    p.doc->root->used = true;
    r = parse_document(&p);
    if (r < 0) {
        toml_free(p.doc);
        return r;
    }
    *ret = p.doc;
    return 0;
}
