#include "http/frame.h"

#include <stdint.h>
#include <stdio.h>

static void add_part(struct http_frame *frame, const void *bytes, size_t length)
{
    /* uv_buf_t is not const, but nothing ever writes through these. */
    frame->parts[frame->count++] = (uv_buf_t){.base = (char *)(uintptr_t)bytes, .len = length};
}

static void begin(struct http_frame *frame, const struct buf *head)
{
    frame->count = 0;
    if (head->length > 0)
        add_part(frame, head->data, head->length);
}

void http_frame_piece(struct http_frame *frame, const struct buf *head, enum http_framing framing,
                      const void *bytes, size_t length)
{
    begin(frame, head);
    if (framing == HTTP_CHUNKED) {
        int digits = snprintf(frame->chunk_size, sizeof(frame->chunk_size), "%zx\r\n", length);
        add_part(frame, frame->chunk_size, (size_t)digits);
    }
    add_part(frame, bytes, length);
    if (framing == HTTP_CHUNKED)
        add_part(frame, "\r\n", 2);
}

void http_frame_end(struct http_frame *frame, const struct buf *head, enum http_framing framing)
{
    begin(frame, head);
    if (framing == HTTP_CHUNKED)
        add_part(frame, "0\r\n\r\n", 5);
}
