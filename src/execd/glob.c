/* Reading a pattern: recursive descent, with a bound on depth, into an array of nodes. */
#include "execd/glob.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/glob_internal.h"

struct reader {
    struct execd_glob *glob;
    const char *pattern;
    size_t at;
    unsigned depth;
    bool negating; /* inside "!(" */
    struct error *err;
};

uint32_t glob_character(const char *text, size_t length, size_t *ret_length)
{
    uint32_t character;
    *ret_length = str_utf8_next(text, length, &character);
    if (*ret_length > 0)
        return character;
    *ret_length = 1;
    return 0x110000 + (unsigned char)text[0]; /* above all of Unicode */
}

static int fail(struct reader *reader, const char *what)
{
    return error_set(reader->err, ERR_INVALID, "pattern \"%.200s\": %s at byte %zu",
                     reader->pattern, what, reader->at + 1);
}

static struct glob_node *add_node(struct reader *reader, enum glob_kind kind, uint16_t **tail)
{
    struct execd_glob *glob = reader->glob;
    struct glob_node *node = &glob->nodes[glob->count];
    *node =
        (struct glob_node){.kind = (uint8_t)kind, .next = GLOB_NOTHING, .branches = GLOB_NOTHING};
    **tail = (uint16_t)glob->count++;
    *tail = &node->next;
    return node;
}

/* The next character of the pattern, after a '\' the one behind it. */
static int read_character(struct reader *reader, uint32_t *ret)
{
    if (reader->pattern[reader->at] == '\\') {
        reader->at++;
        if (reader->pattern[reader->at] == '\0')
            return fail(reader, "nothing follows the \"\\\"");
    }
    size_t length;
    const char *text = reader->pattern + reader->at;
    *ret = glob_character(text, strlen(text), &length);
    reader->at += length;
    return 0;
}

/* --- sets ------------------------------------------------------------------------------------- */

/* Up to its ']'; a ']' directly after the beginning stands for itself. */
static int read_set_members(struct reader *reader, size_t begin)
{
    const char *pattern = reader->pattern;
    while (pattern[reader->at] != ']' || reader->at == begin) {
        uint32_t first = 0;
        uint32_t last = 0;
        if (pattern[reader->at] == '\0')
            return fail(reader, "the \"[\" is not closed");
        if (read_character(reader, &first) < 0)
            return -1;
        if (pattern[reader->at] != '-' || pattern[reader->at + 1] == ']' ||
            pattern[reader->at + 1] == '\0')
            continue;
        reader->at++;
        if (read_character(reader, &last) < 0)
            return -1;
        if (last < first)
            return fail(reader, "a range in \"[...]\" is backwards");
    }
    return 0;
}

static int read_set(struct reader *reader, uint16_t **tail)
{
    struct glob_node *node = add_node(reader, GLOB_SET, tail);
    reader->at++;
    char c = reader->pattern[reader->at];
    node->negated = c == '!' || c == '^';
    reader->at += node->negated;
    node->begin = (uint16_t)reader->at;
    if (read_set_members(reader, reader->at) < 0)
        return -1;
    node->end = (uint16_t)reader->at;
    reader->at++;
    return 0;
}

/* --- sequences -------------------------------------------------------------------------------- */

static int read_sequence(struct reader *reader, const char *ends, uint16_t *ret_first);

/* The patterns between brackets, apart from each other by `separator`. The bracket is read. */
static int read_branches(struct reader *reader, enum glob_kind kind, const char *ends,
                         uint16_t **tail)
{
    if (reader->depth >= EXECD_GLOB_DEPTH_MAX)
        return fail(reader, "brackets are nested too deep");
    reader->depth++;
    struct glob_node *node = add_node(reader, kind, tail);
    uint16_t *branch_tail = &node->branches;
    const char *pattern = reader->pattern;
    for (;;) {
        struct glob_node *branch = add_node(reader, GLOB_BRANCH, &branch_tail);
        if (read_sequence(reader, ends, &branch->branches) < 0)
            return -1;
        if (pattern[reader->at] == '\0')
            return fail(reader,
                        kind == GLOB_ONE_OF ? "a \"{\" is not closed" : "a \"!(\" is not closed");
        bool last = pattern[reader->at] == ends[1];
        reader->at++;
        if (last)
            break;
    }
    reader->depth--;
    return 0;
}

static int read_negation(struct reader *reader, uint16_t **tail)
{
    if (reader->negating)
        return fail(reader, "a \"!(\" stands in another one");
    reader->negating = true;
    reader->at += 2;
    int r = read_branches(reader, GLOB_NONE_OF, "|)", tail);
    reader->negating = false;
    return r;
}

/* Stars: two or more that are a whole segment reach over '/'. */
static void read_stars(struct reader *reader, size_t begin, const char *ends, uint16_t **tail)
{
    const char *pattern = reader->pattern;
    bool at_start = reader->at == begin || pattern[reader->at - 1] == '/';
    size_t count = strspn(pattern + reader->at, "*");
    reader->at += count;
    char after = pattern[reader->at];
    bool whole = count > 1 && at_start && !reader->negating;
    if (whole && after == '/') {
        reader->at++;
        add_node(reader, GLOB_FOLDERS, tail);
        reader->glob->has_slash = true;
    } else if (whole && (after == '\0' || strchr(ends, after) != NULL)) {
        add_node(reader, GLOB_ALL, tail);
    } else {
        add_node(reader, GLOB_STAR, tail);
    }
}

static int read_item(struct reader *reader, size_t begin, const char *ends, uint16_t **tail)
{
    const char *at = reader->pattern + reader->at;
    switch (*at) {
    case '*':
        read_stars(reader, begin, ends, tail);
        return 0;
    case '?':
        add_node(reader, GLOB_ANY, tail);
        reader->at++;
        return 0;
    case '[':
        return read_set(reader, tail);
    case '{':
        reader->at++;
        return read_branches(reader, GLOB_ONE_OF, ",}", tail);
    default:
        break;
    }
    if (at[0] == '!' && at[1] == '(')
        return read_negation(reader, tail);
    uint32_t character = 0;
    if (read_character(reader, &character) < 0)
        return -1;
    if (character == '/' && reader->negating)
        return fail(reader, "a \"/\" stands in \"!(...)\"");
    reader->glob->has_slash |= character == '/';
    add_node(reader, GLOB_CHAR, tail)->character = character;
    return 0;
}

/* Up to the end of the pattern or one of the characters in `ends`. */
static int read_sequence(struct reader *reader, const char *ends, uint16_t *ret_first)
{
    size_t begin = reader->at;
    uint16_t *tail = ret_first;
    *ret_first = GLOB_NOTHING;
    for (;;) {
        char c = reader->pattern[reader->at];
        if (c == '\0' || strchr(ends, c) != NULL)
            return 0;
        if (read_item(reader, begin, ends, &tail) < 0)
            return -1;
    }
}

int execd_glob_parse(const char *pattern, struct execd_glob **ret, struct error *err)
{
    size_t length = strlen(pattern);
    if (length > EXECD_GLOB_MAX)
        return error_set(err, ERR_INVALID, "the pattern has %zu bytes, %d are allowed", length,
                         EXECD_GLOB_MAX);
    struct execd_glob *glob = mem_alloc(sizeof(*glob));
    glob->pattern = mem_dup(pattern);
    /* Every byte makes a node at most, but a bracket makes itself and its first branch. */
    glob->nodes = mem_alloc_array(2 * length + 1, sizeof(*glob->nodes));
    struct reader reader = {.glob = glob, .pattern = glob->pattern, .err = err};
    if (read_sequence(&reader, "", &glob->first) < 0) {
        execd_glob_free(glob);
        return -1;
    }
    *ret = glob;
    return 0;
}

void execd_glob_free(struct execd_glob *glob)
{
    if (glob == NULL)
        return;
    free(glob->pattern);
    free(glob->nodes);
    free(glob->scratch);
    free(glob);
}

bool execd_glob_has_slash(const struct execd_glob *glob)
{
    return glob->has_slash;
}
