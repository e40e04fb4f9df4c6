#include "execd/replace.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FRESH_BYTES (64 * 1024)

void execd_replace_init(struct execd_replace *replace)
{
    /* At least as much new text as old in the window, so that preparing a search pays off. */
    replace->room = replace->old_length + MAX(replace->old_length, (size_t)FRESH_BYTES);
    replace->window = mem_alloc(replace->room);
}

void execd_replace_done(struct execd_replace *replace)
{
    free(TAKE_PTR(replace->window));
}

/* Everything in the window that is decided goes out. */
static int pass(struct execd_replace *replace)
{
    const char *at = replace->window;
    size_t left = replace->filled;
    const char *found;
    int r = 0;
    while (r == 0 && (found = memmem(at, left, replace->old_text, replace->old_length)) != NULL) {
        size_t before = (size_t)(found - at);
        if (before > 0)
            r = replace->out(replace->ctx, at, before);
        replace->count++;
        if (r == 0)
            r = replace->out(replace->ctx, replace->new_text, replace->new_length);
        at = found + replace->old_length;
        left -= before + replace->old_length;
    }
    /* No occurrence can begin before the last old_length - 1 bytes. */
    size_t kept = MIN(left, replace->old_length - 1);
    if (r == 0 && left > kept)
        r = replace->out(replace->ctx, at, left - kept);
    memmove(replace->window, at + left - kept, kept);
    replace->filled = kept;
    return r;
}

int execd_replace_feed(struct execd_replace *replace, const char *bytes, size_t length)
{
    int r = 0;
    while (r == 0 && length > 0) {
        size_t part = MIN(length, replace->room - replace->filled);
        memcpy(replace->window + replace->filled, bytes, part);
        replace->filled += part;
        bytes += part;
        length -= part;
        if (replace->filled == replace->room)
            r = pass(replace);
    }
    return r;
}

int execd_replace_finish(struct execd_replace *replace)
{
    int r = pass(replace);
    if (r == 0 && replace->filled > 0)
        r = replace->out(replace->ctx, replace->window, replace->filled);
    replace->filled = 0;
    return r;
}
