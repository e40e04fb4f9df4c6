/* A parsed pattern. Private to execd/glob*.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "execd/glob.h"

enum glob_kind {
    GLOB_CHAR,    /* `character` */
    GLOB_ANY,     /* ? */
    GLOB_STAR,    /* * */
    GLOB_ALL,     /* ** at the end of a path */
    GLOB_FOLDERS, /* ** and the '/' behind it */
    GLOB_SET,     /* the text of the set is pattern[begin, end) */
    GLOB_ONE_OF,  /* { }: `branches` */
    GLOB_NONE_OF, /* !( ): `branches` */
    GLOB_BRANCH,  /* one of them: `branches` is its sequence, `next` the next branch */
};

#define GLOB_NOTHING UINT16_MAX /* the end of a list */

struct glob_node {
    uint8_t kind;
    bool negated;      /* GLOB_SET */
    uint16_t next;     /* in the sequence */
    uint16_t branches; /* GLOB_BRANCH: the first node of its sequence */
    uint16_t begin;
    uint16_t end;
    uint32_t character;
};

struct execd_glob {
    char *pattern;
    bool has_slash;
    uint16_t first;
    size_t count;
    struct glob_node *nodes;
    uint64_t *scratch; /* of matching: sets of positions */
    size_t scratch_words;
};

/* The character at the front of text (length > 0) and how many bytes it has. Bytes that are not
 * UTF-8 get numbers of their own. */
uint32_t glob_character(const char *text, size_t length, size_t *ret_length);
