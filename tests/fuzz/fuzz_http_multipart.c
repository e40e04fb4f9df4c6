/* A multipart body: byte 0 chooses the header, bytes 1 to 4 the sizes of the pieces. Whole and in
 * pieces the parts must be the same. With bit 0 the first line of the input is the Content-Type. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "http/multipart.h"

#define PREFIX 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct log {
    struct buf text;
    bool in_part;
    size_t data;
};

static int on_part(void *ctx, const struct http_multipart_part *part, struct error *err)
{
    struct log *log = ctx;
    (void)err;
    if (log->in_part || part->name == NULL)
        abort();
    log->in_part = true;
    buf_printf(&log->text, "part %s|%s|%s\n", part->name,
               part->filename == NULL ? "-" : part->filename,
               part->type == NULL ? "-" : part->type);
    return 0;
}

static int on_data(void *ctx, const char *bytes, size_t length, struct error *err)
{
    struct log *log = ctx;
    (void)err;
    if (!log->in_part || length == 0)
        abort();
    log->data += length;
    buf_add(&log->text, bytes, length);
    return 0;
}

static int on_part_end(void *ctx, struct error *err)
{
    struct log *log = ctx;
    (void)err;
    if (!log->in_part)
        abort();
    log->in_part = false;
    buf_add_str(&log->text, "\nend\n");
    return 0;
}

static void run(struct log *log, const char *type, const uint8_t *data, size_t size,
                const uint8_t *sizes, size_t sizes_count)
{
    static const struct http_multipart_events events = {on_part, on_data, on_part_end};
    struct error err = ERROR_INIT;
    buf_init(&log->text, 16 << 20);
    struct http_multipart *multipart = http_multipart_new(type, &events, log, &err);
    if (multipart == NULL)
        return;
    int r = 0;
    for (size_t at = 0, turn = 0; at < size && r == 0; turn++) {
        size_t piece = sizes_count == 0 ? size : (size_t)sizes[turn % sizes_count] + 1;
        piece = MIN(piece, size - at);
        char *copy = malloc(piece);
        memcpy(copy, data + at, piece);
        r = http_multipart_feed(multipart, copy, piece, &err);
        free(copy);
        at += piece;
    }
    if (r == 0)
        r = http_multipart_end(multipart, &err);
    if (r == 0 && log->in_part)
        abort();
    buf_printf(&log->text, "result %d", r < 0 ? (int)err.code : 0);
    http_multipart_free(multipart);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX)
        return 0;
    const uint8_t *body = data + PREFIX;
    size_t length = size - PREFIX;
    AUTO_FREE char *type = mem_dup("multipart/form-data; boundary=XX");
    const uint8_t *line_end = memchr(body, '\n', length);
    if (data[0] & 1 && line_end != NULL) {
        free(type);
        type = mem_dup_n((const char *)body, (size_t)(line_end - body));
        length -= (size_t)(line_end - body) + 1;
        body = line_end + 1;
    }
    struct log whole = {0};
    struct log pieces = {0};
    run(&whole, type, body, length, NULL, 0);
    run(&pieces, type, body, length, data + 1, PREFIX - 1);
    if (whole.data > length || whole.text.length != pieces.text.length ||
        memcmp(whole.text.data, pieces.text.data, whole.text.length) != 0)
        abort();
    buf_done(&whole.text);
    buf_done(&pieces.text);
    return 0;
}
