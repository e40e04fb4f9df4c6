/* The tree behind struct toml. Private to base/toml*.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/toml.h"

#define TOML_MAX_DEPTH  16
#define TOML_MAX_VALUES 10000

/* How a table or an array came to be, which decides who may still add to it. */
enum toml_origin {
    TOML_BY_PATH,   /* passed through by [a.b]: may yet be defined, once, by [a] */
    TOML_BY_HEADER, /* [a] or [[a]]: closed for everything but further headers */
    TOML_BY_DOTS,   /* a.b = 1: more dotted keys may add, [a] may not */
    TOML_BY_VALUE,  /* a = {...} or a = [...]: closed */
};

struct toml_value {
    enum toml_type type;
    enum toml_origin origin;
    int line;
    int depth; /* 0 is the root */
    bool used;
    char *key; /* NULL in arrays */
    struct toml_value *parent;
    union {
        char *string;
        int64_t integer;
        double number;
        bool boolean;
        struct { /* arrays and tables */
            struct toml_value **items;
            size_t count;
            size_t capacity;
        };
    };
};

struct toml {
    char *name;
    struct toml_value *root;
};

/* The new value is an empty table. Takes the key (NULL in arrays). */
struct toml_value *toml_value_add(struct toml_value *parent, char *key, int line) NEVER_NULL;
void toml_value_free(struct toml_value *value);

/* toml_find() without the mark. */
struct toml_value *toml_value_find(const struct toml_value *table, const char *key);

/* The full key, as one would write it in the file: server."odd key".list[2] */
void toml_value_path(const struct toml_value *value, struct buf *ret);
#define TOML_PATH_MAX 256
