#include "execd/walk_names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* Longer than any file system of Linux has (FUSE: 1,024); such a name could not be used anyway. */
#define NAME_BYTES 1025

static const char *name_at(const struct execd_walk_names *names, uint32_t begin)
{
    return names->bytes + begin + 1;
}

/* For qsort_r: `bytes` is where the entries are. */
static int compare(const void *a, const void *b, void *bytes)
{
    const char *base = bytes;
    return strcmp(base + *(const uint32_t *)a + 1, base + *(const uint32_t *)b + 1);
}

static void sort(struct execd_walk_names *names)
{
    if (names->count > 1)
        qsort_r(names->order, names->count, sizeof(*names->order), compare, names->bytes);
}

static void add(struct execd_walk_names *names, unsigned char type, const char *name)
{
    size_t length = strlen(name) + 1;
    if (names->used + 1 + length > names->room) {
        names->room = MAX(2 * names->room, names->used + 1 + length);
        names->bytes = mem_resize_array(names->bytes, names->room, 1);
    }
    if (names->count == names->order_room) {
        names->order_room = MAX(2 * names->order_room, (size_t)8);
        names->order = mem_resize_array(names->order, names->order_room, sizeof(*names->order));
    }
    names->order[names->count++] = (uint32_t)names->used;
    names->bytes[names->used] = (char)type;
    memcpy(names->bytes + names->used + 1, name, length);
    names->used += 1 + length;
}

/* Keep what is less than `bound`, in the order of arrival. */
static void drop_from(struct execd_walk_names *names, const char *bound)
{
    size_t used = 0;
    size_t count = 0;
    for (size_t at = 0; at < names->used;) {
        size_t length = 1 + strlen(names->bytes + at + 1) + 1;
        if (strcmp(names->bytes + at + 1, bound) < 0) {
            names->order[count++] = (uint32_t)used;
            memmove(names->bytes + used, names->bytes + at, length);
            used += length;
        }
        at += length;
    }
    names->used = used;
    names->count = count;
}

/* Memory is full: the larger half goes, and from now on only names below it are of interest. */
static void halve(struct execd_walk_names *names, char bound[NAME_BYTES])
{
    sort(names);
    const char *middle = name_at(names, names->order[names->count / 2]);
    memcpy(bound, middle, strlen(middle) + 1);
    drop_from(names, bound);
    names->complete = false;
}

static bool is_wanted(const char *name, const char *after, const char *bound)
{
    if (strlen(name) >= NAME_BYTES)
        return false;
    if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
        return false;
    return (after == NULL || strcmp(name, after) > 0) &&
           (bound[0] == '\0' || strcmp(name, bound) < 0);
}

int execd_walk_names_fill(struct execd_walk_names *names, int fd, const char *after,
                          size_t limit_bytes, char *scratch, const atomic_bool *gone)
{
    char bound[NAME_BYTES] = "";
    names->used = names->count = names->next = 0;
    names->complete = true;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        if (atomic_load_explicit(gone, memory_order_relaxed))
            return -ECANCELED;
        ssize_t n = getdents64(fd, scratch, EXECD_WALK_READ_BYTES);
        if (n < 0 && errno != ENOENT) /* removed meanwhile: empty */
            return -errno;
        if (n <= 0)
            break;
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(scratch + at);
            at += entry->d_reclen;
            if (!is_wanted(entry->d_name, after, bound))
                continue;
            add(names, entry->d_type, entry->d_name);
            if (names->used + names->count * sizeof(*names->order) > limit_bytes)
                halve(names, bound);
        }
    }
    sort(names);
    return 0;
}

bool execd_walk_names_next(struct execd_walk_names *names, struct execd_walk_name *ret)
{
    if (names->next == names->count)
        return false;
    uint32_t begin = names->order[names->next++];
    ret->type = (unsigned char)names->bytes[begin];
    ret->name = name_at(names, begin);
    return true;
}

size_t execd_walk_names_bytes(const struct execd_walk_names *names)
{
    return names->room + names->order_room * sizeof(*names->order);
}

void execd_walk_names_done(struct execd_walk_names *names)
{
    free(names->bytes);
    free(names->order);
    *names = (struct execd_walk_names){0};
}
