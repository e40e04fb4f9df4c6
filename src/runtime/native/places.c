#include "runtime/native/places.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"

struct place {
    struct place *next; /* in the same bucket */
    char id[ID_UUID_LEN + 1];
    char path[108];
};

/* Ids are random and made by us: nobody can choose them to collide. */
static size_t bucket_of(const struct places *places, const char *id)
{
    uint64_t hash = 14695981039346656037ull;
    for (const char *p = id; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211ull;
    return (size_t)hash & (places->bucket_count - 1);
}

static struct place **find_link(const struct places *places, const char *id)
{
    struct place **link = &places->buckets[bucket_of(places, id)];
    while (*link != NULL && strcmp((*link)->id, id) != 0)
        link = &(*link)->next;
    return link;
}

static void grow(struct places *places)
{
    struct places bigger = {.count = places->count};
    bigger.bucket_count = places->bucket_count > 0 ? places->bucket_count * 2 : 64;
    bigger.buckets = mem_alloc_array(bigger.bucket_count, sizeof(struct place *));
    for (size_t i = 0; i < places->bucket_count; i++) {
        struct place *next;
        for (struct place *place = places->buckets[i]; place != NULL; place = next) {
            next = place->next;
            struct place **bucket = &bigger.buckets[bucket_of(&bigger, place->id)];
            place->next = *bucket;
            *bucket = place;
        }
    }
    free(places->buckets);
    *places = bigger;
}

void places_done(struct places *places)
{
    for (size_t i = 0; i < places->bucket_count; i++) {
        struct place *next;
        for (struct place *place = places->buckets[i]; place != NULL; place = next) {
            next = place->next;
            free(place);
        }
    }
    free(places->buckets);
    *places = (struct places){0};
}

void places_set(struct places *places, const char *id, const char *path)
{
    if (places->count >= places->bucket_count)
        grow(places);
    struct place **link = find_link(places, id);
    if (*link == NULL) {
        *link = mem_alloc(sizeof(**link));
        strncpy((*link)->id, id, sizeof((*link)->id) - 1);
        places->count++;
    }
    strncpy((*link)->path, path, sizeof((*link)->path) - 1);
}

const char *places_find(const struct places *places, const char *id)
{
    if (places->count == 0)
        return NULL;
    const struct place *place = *find_link(places, id);
    return place != NULL ? place->path : NULL;
}

void places_remove(struct places *places, const char *id)
{
    if (places->count == 0)
        return;
    struct place **link = find_link(places, id);
    struct place *place = *link;
    if (place == NULL)
        return;
    *link = place->next;
    free(place);
    places->count--;
}
