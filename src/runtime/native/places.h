/* Where each sandbox's execd listens: sandbox id to unix socket path. A hash table that grows with
 * the number of sandboxes. */
#pragma once

#include <stddef.h>

struct place;

struct places {
    struct place **buckets;
    size_t bucket_count; /* 0 or a power of two */
    size_t count;
};

void places_done(struct places *places); /* frees; empty and usable again */
void places_set(struct places *places, const char *id, const char *path);
const char *places_find(const struct places *places, const char *id); /* or NULL */
void places_remove(struct places *places, const char *id);            /* absent is fine */
