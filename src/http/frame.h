/* How a piece of a body looks on the wire: one vector, so that it costs one system call. */
#pragma once

#include <stddef.h>
#include <uv.h>

#include "base/buf.h"
#include "http/message.h"

#define HTTP_FRAME_PARTS_MAX 4

struct http_frame {
    uv_buf_t parts[HTTP_FRAME_PARTS_MAX];
    unsigned count;
    char chunk_size[20]; /* 16 digits and CRLF */
};

/* `head` goes in front unless it is empty. Everything is borrowed. `length` must not be 0. */
void http_frame_piece(struct http_frame *frame, const struct buf *head, enum http_framing framing,
                      const void *bytes, size_t length);
/* What ends the body; the frame may be empty. */
void http_frame_end(struct http_frame *frame, const struct buf *head, enum http_framing framing);
