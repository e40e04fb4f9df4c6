/* The last part of a terminal's output, for clients that come back. Bytes are named by their
 * offset in all the output there ever was; the oldest give way to new ones. Memory grows with what
 * is kept, up to EXECD_PTY_RING_MAX. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define EXECD_PTY_RING_MAX (1024 * 1024)

/* The byte of offset n is at bytes[n % capacity]. */
struct execd_pty_ring {
    char *bytes;
    size_t capacity;
    size_t length; /* kept; at most capacity */
    uint64_t end;  /* offset of the next byte */
};

void execd_pty_ring_init(struct execd_pty_ring *ring);
void execd_pty_ring_done(struct execd_pty_ring *ring);

void execd_pty_ring_add(struct execd_pty_ring *ring, const char *bytes, size_t length);

/* What is kept from offset `since` on, in one or two pieces (the second may be empty), borrowed
 * until the next add. Returns the offset of the first byte: `since`, or that of the oldest byte
 * when `since` is gone, or the end when it is beyond (then there is nothing). */
uint64_t execd_pty_ring_get(const struct execd_pty_ring *ring, uint64_t since, uv_buf_t ret[2]);
