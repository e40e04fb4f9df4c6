/* Incremental multipart/form-data parser: bytes in, events out, no I/O, constant memory. Accepts
 * quoted and unquoted parameters, parts without Content-Type, extra parameters (filename*=), a
 * preamble and an epilogue. Bounded: boundary 1..70 bytes, part heads 8 KiB and 16 fields, parts
 * 10,000. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct http_multipart;

struct http_multipart_part {
    const char *name;     /* "" when absent */
    const char *filename; /* NULL when absent */
    const char *type;     /* Content-Type, NULL when absent */
};

/* Each returns 0, or negative with err filled to stop: feed() then returns that. */
struct http_multipart_events {
    int (*on_part)(void *ctx, const struct http_multipart_part *part, struct error *err);
    int (*on_data)(void *ctx, const char *bytes, size_t length, struct error *err);
    int (*on_part_end)(void *ctx, struct error *err);
};

/* From a Content-Type header value; NULL with ERR_INVALID when it is not multipart/form-data or its
 * boundary is missing or malformed. */
struct http_multipart *http_multipart_new(const char *content_type,
                                          const struct http_multipart_events *events, void *ctx,
                                          struct error *err);
struct http_multipart *http_multipart_free(struct http_multipart *multipart);

int http_multipart_feed(struct http_multipart *multipart, const char *bytes, size_t length,
                        struct error *err);
/* The body ended: 0 when the closing delimiter was seen. */
int http_multipart_end(struct http_multipart *multipart, struct error *err);
