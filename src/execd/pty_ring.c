#include "execd/pty_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_BYTES (4 * 1024)

void execd_pty_ring_init(struct execd_pty_ring *ring)
{
    *ring = (struct execd_pty_ring){0};
}

void execd_pty_ring_done(struct execd_pty_ring *ring)
{
    free(ring->bytes);
    execd_pty_ring_init(ring);
}

static void store(char *to, size_t capacity, uint64_t offset, const char *bytes, size_t length)
{
    size_t at = (size_t)(offset % capacity);
    size_t first = MIN(length, capacity - at);
    memcpy(to + at, bytes, first);
    memcpy(to, bytes + first, length - first);
}

uint64_t execd_pty_ring_get(const struct execd_pty_ring *ring, uint64_t since, uv_buf_t ret[2])
{
    uint64_t oldest = ring->end - ring->length;
    uint64_t from = MIN(MAX(since, oldest), ring->end);
    size_t length = (size_t)(ring->end - from);
    ret[0] = ret[1] = uv_buf_init(NULL, 0);
    if (length == 0)
        return from;
    size_t at = (size_t)(from % ring->capacity);
    size_t first = MIN(length, ring->capacity - at);
    ret[0] = uv_buf_init(ring->bytes + at, (unsigned)first);
    ret[1] = uv_buf_init(ring->bytes, (unsigned)(length - first));
    return from;
}

static void grow(struct execd_pty_ring *ring, size_t wanted)
{
    size_t capacity = MAX(ring->capacity, (size_t)FIRST_BYTES);
    while (capacity < wanted && capacity < EXECD_PTY_RING_MAX)
        capacity *= 2;
    if (capacity == ring->capacity)
        return;
    char *bytes = mem_alloc(capacity);
    uv_buf_t pieces[2];
    uint64_t offset = execd_pty_ring_get(ring, 0, pieces);
    for (size_t i = 0; i < ARRAY_LEN(pieces) && pieces[i].len > 0; i++) {
        store(bytes, capacity, offset, pieces[i].base, pieces[i].len);
        offset += pieces[i].len;
    }
    free(ring->bytes);
    ring->bytes = bytes;
    ring->capacity = capacity;
}

void execd_pty_ring_add(struct execd_pty_ring *ring, const char *bytes, size_t length)
{
    if (length == 0)
        return;
    grow(ring, ring->length + length);
    size_t skipped = length > ring->capacity ? length - ring->capacity : 0;
    store(ring->bytes, ring->capacity, ring->end + skipped, bytes + skipped, length - skipped);
    ring->end += length;
    ring->length = MIN(ring->length + length, ring->capacity);
}
