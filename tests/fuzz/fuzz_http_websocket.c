/* Frames of a client: bytes 0 to 3 are the sizes of the pieces. Whole and in pieces the events must
 * be the same, and both must agree with a second decoder, written for clarity on the whole input at
 * once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/websocket_frame.h"

#define PREFIX      4
#define MESSAGE_MAX 300 /* small, so that inputs reach it */
#define LOG_MAX     (4 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void log_event(struct buf *log, int opcode, int code, const char *bytes, size_t length)
{
    require(buf_printf(log, "%d %d %zu:", opcode, code, length) == 0);
    require(buf_add(log, bytes, length) == 0);
}

/* Each piece in memory of its own size, so that a read beyond it is seen. */
static void run_reader(const uint8_t *data, size_t size, const uint8_t *pieces, struct buf *log)
{
    struct http_websocket_reader reader;
    http_websocket_reader_init(&reader, MESSAGE_MAX);
    int r = 0;
    for (size_t at = 0, turn = 0; at < size && r >= 0; turn++) {
        size_t length = pieces == NULL ? size : MIN(size - at, pieces[turn % PREFIX] % 32 + 1UL);
        AUTO_FREE char *copy = malloc(length);
        require(copy != NULL);
        memcpy(copy, data + at, length);
        at += length;
        const char *bytes = copy;
        struct http_websocket_event event;
        while ((r = http_websocket_reader_next(&reader, &bytes, &length, &event)) > 0) {
            require(event.bytes[event.length] == '\0');
            require(event.length <= MESSAGE_MAX);
            log_event(log, event.opcode, event.code, event.bytes, event.length);
        }
        require(r < 0 || length == 0);
    }
    if (r < 0)
        log_event(log, -1, -r, "", 0);
    http_websocket_reader_done(&reader);
}

/* --- the second decoder ----------------------------------------------------------------------- */

struct frame {
    bool fin;
    int opcode;
    uint64_t length;
    const uint8_t *mask;
    const uint8_t *payload;
};

/* Bytes of the head, 0 when more are needed, negative for an error. */
static int read_head(const uint8_t *at, size_t left, bool inside, struct frame *ret)
{
    if (left < 2)
        return 0;
    *ret = (struct frame){.fin = at[0] >> 7, .opcode = at[0] & 15, .length = at[1] & 127};
    bool control = ret->opcode >= 8;
    bool known = ret->opcode <= 2 || (control && ret->opcode <= 10);
    bool wrong_place = !control && (ret->opcode == 0) != inside;
    if ((at[0] & 0x70) != 0 || at[1] < 128 || !known || wrong_place ||
        (control && (!ret->fin || ret->length > 125)))
        return -1002;
    size_t extra = ret->length == 126 ? 2 : ret->length == 127 ? 8 : 0;
    if (left < 2 + extra + 4)
        return 0;
    if (extra > 0) {
        ret->length = 0;
        for (size_t i = 0; i < extra; i++)
            ret->length = ret->length * 256 + at[2 + i];
        if (ret->length < (extra == 2 ? 126 : 65536) || ret->length >> 63 != 0)
            return -1002;
    }
    ret->mask = at + 2 + extra;
    ret->payload = ret->mask + 4;
    return (int)(2 + extra + 4);
}

static int read_close(struct buf *log, const struct buf *body)
{
    int code = 1005;
    size_t skip = MIN(body->length, (size_t)2);
    if (body->length == 1)
        return -1002;
    if (body->length >= 2)
        code = (uint8_t)body->data[0] * 256 + (uint8_t)body->data[1];
    bool sent = (code >= 1000 && code < 1015 && code != 1004 && code != 1005 && code != 1006) ||
                (code >= 3000 && code < 5000);
    if (body->length > 0 && !sent)
        return -1002;
    if (!str_is_utf8(body->data + skip, body->length - skip))
        return -1007;
    log_event(log, 8, code, body->data + skip, body->length - skip);
    return 0;
}

static int decode(const uint8_t *data, size_t size, struct buf *message, struct buf *control,
                  struct buf *log)
{
    int kind = 0; /* of the message that is not complete */
    for (size_t at = 0; at < size;) {
        struct frame frame;
        int head = read_head(data + at, size - at, kind != 0, &frame);
        if (head <= 0)
            return head;
        struct buf *body = frame.opcode >= 8 ? control : message;
        if (frame.opcode >= 8)
            buf_clear(control);
        if (frame.length > body->max - body->length)
            return -1009;
        if (frame.opcode == 1 || frame.opcode == 2)
            kind = frame.opcode;
        at += (size_t)head;
        if (size - at < frame.length)
            return 0;
        for (size_t i = 0; i < frame.length; i++)
            buf_add_char(body, (char)(frame.payload[i] ^ frame.mask[i % 4]));
        at += frame.length;
        if (frame.opcode == 8) {
            int r = read_close(log, control);
            if (r < 0)
                return r;
        } else if (frame.opcode >= 8) {
            log_event(log, frame.opcode, 0, control->data, control->length);
        } else if (frame.fin) {
            if (kind == 1 && !str_is_utf8(message->data, message->length))
                return -1007;
            log_event(log, kind, 0, message->data, message->length);
            buf_clear(message);
            kind = 0;
        }
    }
    return 0;
}

static void compare(const struct buf *a, const struct buf *b)
{
    require(a->length == b->length && memcmp(a->data, b->data, a->length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX)
        return 0;
    struct buf logs[3];
    for (size_t i = 0; i < ARRAY_LEN(logs); i++)
        buf_init(&logs[i], LOG_MAX);
    run_reader(data + PREFIX, size - PREFIX, NULL, &logs[0]);
    run_reader(data + PREFIX, size - PREFIX, data, &logs[1]);
    struct buf message;
    struct buf control;
    buf_init(&message, MESSAGE_MAX);
    buf_init(&control, 125);
    int r = decode(data + PREFIX, size - PREFIX, &message, &control, &logs[2]);
    if (r < 0)
        log_event(&logs[2], -1, -r, "", 0);
    compare(&logs[0], &logs[1]);
    compare(&logs[0], &logs[2]);
    for (size_t i = 0; i < ARRAY_LEN(logs); i++)
        buf_done(&logs[i]);
    buf_done(&message);
    buf_done(&control);
    return 0;
}
