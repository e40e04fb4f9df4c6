/* The names in a directory in order, however many there are, in bounded memory: as many of the next
 * ones as fit are kept, and when they are used up the directory is read again. A huge directory
 * costs several readings, not memory. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXECD_WALK_READ_BYTES (32 * 1024)

struct execd_walk_names {
    char *bytes; /* entries one after the other: a byte for the type (DT_*), the name, a NUL */
    size_t used;
    size_t room;
    uint32_t *order; /* where the entries begin; by name once read */
    size_t count;
    size_t order_room;
    size_t next;   /* in `order` */
    bool complete; /* no more names follow those kept */
};

/* A name and its type. The name is borrowed until the next fill() or done(). */
struct execd_walk_name {
    unsigned char type;
    const char *name;
};

/* Read the directory `fd` from its start and keep the first names that are greater than `after`
 * (NULL: all), in not much more than limit_bytes, which is at least 4 KiB. `scratch` has
 * EXECD_WALK_READ_BYTES. 0 or -errno; -ECANCELED when *gone. */
int execd_walk_names_fill(struct execd_walk_names *names, int fd, const char *after,
                          size_t limit_bytes, char *scratch, const atomic_bool *gone);

/* The next name kept; false when there is none. */
bool execd_walk_names_next(struct execd_walk_names *names, struct execd_walk_name *ret);

/* How much memory they take. */
size_t execd_walk_names_bytes(const struct execd_walk_names *names);

void execd_walk_names_done(struct execd_walk_names *names); /* empty and usable again */
