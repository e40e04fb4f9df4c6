/* Replacing a text in a stream of bytes: every occurrence, from the front, without overlap, also
 * across the borders of what is fed. Memory depends on the length of the text searched for only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Called with the next bytes of the result, in order; a replacement comes as a call of its own,
 * also when it is empty. Negative stops. */
typedef int execd_replace_out_fn(void *ctx, const char *bytes, size_t length);

struct execd_replace {
    const char *old_text; /* borrowed */
    size_t old_length;    /* not 0 */
    const char *new_text; /* borrowed */
    size_t new_length;
    execd_replace_out_fn *out;
    void *ctx;
    uint64_t count; /* of replacements so far, the one being told included */
    char *window;   /* bytes that may be the beginning of an occurrence, and what follows them */
    size_t filled;
    size_t room;
};

/* The texts and out, ctx are set by the caller; the rest is zero. */
void execd_replace_init(struct execd_replace *replace);
void execd_replace_done(struct execd_replace *replace);

/* 0, or what `out` returned. */
int execd_replace_feed(struct execd_replace *replace, const char *bytes, size_t length);
int execd_replace_finish(struct execd_replace *replace); /* there are no more */
