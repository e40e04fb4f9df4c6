/* Matching: a set of positions in the text, one bit each, goes through the pattern node by node. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/glob_internal.h"

/* Live at once: three sets for each level of nesting, the sequence itself being one. */
#define SETS_PER_LEVEL 4
#define SETS_MAX       (SETS_PER_LEVEL * (EXECD_GLOB_DEPTH_MAX + 1))

struct matcher {
    const struct execd_glob *glob;
    const char *text;
    size_t length;
    size_t words; /* of a set */
    uint64_t *free_sets;
};

static bool has(const uint64_t *set, size_t position)
{
    return (set[position / 64] >> position % 64 & 1) != 0;
}

static void add(uint64_t *set, size_t position)
{
    set[position / 64] |= UINT64_C(1) << position % 64;
}

static uint64_t *take_set(struct matcher *matcher)
{
    uint64_t *set = matcher->free_sets;
    matcher->free_sets += matcher->words;
    memset(set, 0, matcher->words * sizeof(*set));
    return set;
}

/* The first member from `position` on; length + 1 when there is none. */
static size_t next_member(const struct matcher *matcher, const uint64_t *set, size_t position)
{
    size_t word = position / 64;
    if (word >= matcher->words)
        return matcher->length + 1;
    uint64_t bits = set[word] & ~UINT64_C(0) << position % 64;
    while (bits == 0) {
        if (++word == matcher->words)
            return matcher->length + 1;
        bits = set[word];
    }
    return word * 64 + (size_t)__builtin_ctzll(bits);
}

#define FOR_MEMBERS(matcher, set, position)                                             \
    for (size_t position = next_member(matcher, set, 0); position <= (matcher)->length; \
         position = next_member(matcher, set, position + 1))

/* --- one character ---------------------------------------------------------------------------- */

static uint32_t set_character(const char *pattern, size_t end, size_t *at)
{
    size_t length;
    *at += pattern[*at] == '\\';
    uint32_t character = glob_character(pattern + *at, end - *at, &length);
    *at += length;
    return character;
}

static bool is_in_set(const struct matcher *matcher, const struct glob_node *node,
                      uint32_t character)
{
    const char *pattern = matcher->glob->pattern;
    for (size_t at = node->begin; at < node->end;) {
        uint32_t first = set_character(pattern, node->end, &at);
        uint32_t last = first;
        if (at + 1 < node->end && pattern[at] == '-') {
            at++;
            last = set_character(pattern, node->end, &at);
        }
        if (character >= first && character <= last)
            return true;
    }
    return false;
}

static bool takes(const struct matcher *matcher, const struct glob_node *node, uint32_t character)
{
    if (node->kind == GLOB_CHAR)
        return character == node->character;
    if (character == '/')
        return false;
    return node->kind == GLOB_ANY || is_in_set(matcher, node, character) != node->negated;
}

static void pass_character(const struct matcher *matcher, const struct glob_node *node,
                           const uint64_t *from, uint64_t *to)
{
    FOR_MEMBERS(matcher, from, position)
    {
        if (position == matcher->length)
            return;
        size_t length;
        uint32_t character =
            glob_character(matcher->text + position, matcher->length - position, &length);
        if (takes(matcher, node, character))
            add(to, position + length);
    }
}

/* Behind the character at `position`: nothing ever stops inside one. */
static size_t step(const struct matcher *matcher, size_t position)
{
    size_t length;
    glob_character(matcher->text + position, matcher->length - position, &length);
    return position + length;
}

/* --- many characters -------------------------------------------------------------------------- */

/* Each member and everything behind it, up to the next '/' unless `over_slashes`. */
static void pass_star(const struct matcher *matcher, bool over_slashes, const uint64_t *from,
                      uint64_t *to)
{
    for (size_t position = next_member(matcher, from, 0); position <= matcher->length;
         position = next_member(matcher, from, position)) {
        for (;; position = step(matcher, position)) {
            add(to, position);
            if (position == matcher->length || (!over_slashes && matcher->text[position] == '/'))
                break;
        }
        position++;
    }
}

/* Each member and everything behind a '/' that is behind it. */
static void pass_folders(const struct matcher *matcher, const uint64_t *from, uint64_t *to)
{
    bool begun = false;
    for (size_t position = 0; position <= matcher->length; position++) {
        bool member = has(from, position);
        begun |= member;
        if (member || (begun && position > 0 && matcher->text[position - 1] == '/'))
            add(to, position);
    }
}

/* --- branches --------------------------------------------------------------------------------- */

static void pass_sequence(struct matcher *matcher, uint16_t first, const uint64_t *from,
                          uint64_t *to);

static void pass_branches(struct matcher *matcher, const struct glob_node *node,
                          const uint64_t *from, uint64_t *to)
{
    for (uint16_t i = node->branches; i != GLOB_NOTHING; i = matcher->glob->nodes[i].next)
        pass_sequence(matcher, matcher->glob->nodes[i].branches, from, to);
}

/* From each member alone: every end within the segment that no branch reaches. */
static void pass_negation(struct matcher *matcher, const struct glob_node *node,
                          const uint64_t *from, uint64_t *to)
{
    uint64_t *before = matcher->free_sets;
    uint64_t *start = take_set(matcher);
    uint64_t *reached = take_set(matcher);
    FOR_MEMBERS(matcher, from, position)
    {
        memset(start, 0, matcher->words * sizeof(*start));
        memset(reached, 0, matcher->words * sizeof(*reached));
        add(start, position);
        pass_branches(matcher, node, start, reached);
        for (size_t end = position;; end = step(matcher, end)) {
            if (!has(reached, end))
                add(to, end);
            if (end == matcher->length || matcher->text[end] == '/')
                break;
        }
    }
    matcher->free_sets = before;
}

static void pass_node(struct matcher *matcher, const struct glob_node *node, const uint64_t *from,
                      uint64_t *to)
{
    switch ((enum glob_kind)node->kind) {
    case GLOB_CHAR:
    case GLOB_ANY:
    case GLOB_SET:
        pass_character(matcher, node, from, to);
        break;
    case GLOB_STAR:
        pass_star(matcher, false, from, to);
        break;
    case GLOB_ALL:
        pass_star(matcher, true, from, to);
        break;
    case GLOB_FOLDERS:
        pass_folders(matcher, from, to);
        break;
    case GLOB_ONE_OF:
        pass_branches(matcher, node, from, to);
        break;
    case GLOB_NONE_OF:
        pass_negation(matcher, node, from, to);
        break;
    case GLOB_BRANCH:
        break; /* only ever in a list of branches */
    }
}

/* Adds to `to` all positions that the sequence can lead to. Recursion is as deep as brackets are
 * nested. */
static void pass_sequence(struct matcher *matcher, uint16_t first, const uint64_t *from,
                          uint64_t *to)
{
    uint64_t *before = matcher->free_sets;
    uint64_t *now = take_set(matcher);
    uint64_t *then = take_set(matcher);
    memcpy(now, from, matcher->words * sizeof(*now));
    for (uint16_t i = first; i != GLOB_NOTHING; i = matcher->glob->nodes[i].next) {
        memset(then, 0, matcher->words * sizeof(*then));
        pass_node(matcher, &matcher->glob->nodes[i], now, then);
        uint64_t *swap = now;
        now = then;
        then = swap;
    }
    for (size_t i = 0; i < matcher->words; i++)
        to[i] |= now[i];
    matcher->free_sets = before;
}

bool execd_glob_match(struct execd_glob *glob, const char *text, size_t length)
{
    size_t words = length / 64 + 1;
    if (words * SETS_MAX > glob->scratch_words) {
        glob->scratch_words = words * SETS_MAX;
        glob->scratch =
            mem_resize_array(glob->scratch, glob->scratch_words, sizeof(*glob->scratch));
    }
    struct matcher matcher = {
        .glob = glob,
        .text = text,
        .length = length,
        .words = words,
        .free_sets = glob->scratch,
    };
    uint64_t *start = take_set(&matcher);
    uint64_t *end = take_set(&matcher);
    add(start, 0);
    pass_sequence(&matcher, glob->first, start, end);
    return has(end, length);
}
