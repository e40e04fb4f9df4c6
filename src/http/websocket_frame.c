#include "http/websocket_frame.h"

#include <string.h>

#include "base/str.h"

#define FIN         0x80
#define RESERVED    0x70
#define OPCODE      0x0f
#define MASKED      0x80
#define LENGTH      0x7f
#define MASK_LEN    4
#define KEPT_BYTES  4096 /* of memory between messages */
#define LENGTH_16   126
#define LENGTH_64   127
#define SHORTEST_16 126
#define SHORTEST_64 65536

void http_websocket_reader_init(struct http_websocket_reader *reader, size_t message_max)
{
    *reader = (struct http_websocket_reader){0};
    buf_init(&reader->message, message_max);
    buf_init(&reader->control, HTTP_WEBSOCKET_CONTROL_MAX);
}

void http_websocket_reader_done(struct http_websocket_reader *reader)
{
    buf_done(&reader->message);
    buf_done(&reader->control);
}

static enum http_websocket_opcode opcode_of(const struct http_websocket_reader *reader)
{
    return reader->head[0] & OPCODE;
}

static bool is_control(enum http_websocket_opcode opcode)
{
    return opcode >= HTTP_WEBSOCKET_CLOSE;
}

static struct buf *payload_of(struct http_websocket_reader *reader)
{
    return is_control(opcode_of(reader)) ? &reader->control : &reader->message;
}

static size_t length_bytes(uint8_t second)
{
    switch (second & LENGTH) {
    case LENGTH_16:
        return 2;
    case LENGTH_64:
        return 8;
    default:
        return 0;
    }
}

bool http_websocket_code_is_valid(int code)
{
    /* 1004 is reserved, 1005, 1006 and 1015 are names for what was not sent. */
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/* --- heads ------------------------------------------------------------------------------------ */

/* What the first two bytes must obey. */
static int check_start(const struct http_websocket_reader *reader)
{
    uint8_t first = reader->head[0];
    uint8_t second = reader->head[1];
    bool inside = reader->message_opcode != HTTP_WEBSOCKET_CONTINUATION;
    if ((first & RESERVED) != 0 || (second & MASKED) == 0)
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    switch (opcode_of(reader)) {
    case HTTP_WEBSOCKET_CONTINUATION:
        return inside ? 0 : -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    case HTTP_WEBSOCKET_TEXT:
    case HTTP_WEBSOCKET_BINARY:
        return inside ? -HTTP_WEBSOCKET_PROTOCOL_ERROR : 0;
    case HTTP_WEBSOCKET_CLOSE:
    case HTTP_WEBSOCKET_PING:
    case HTTP_WEBSOCKET_PONG:
        if ((first & FIN) != 0 && (second & LENGTH) <= HTTP_WEBSOCKET_CONTROL_MAX)
            return 0;
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    default:
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    }
}

/* The head is whole: the length, and whether there is room for it. */
static int begin_payload(struct http_websocket_reader *reader)
{
    size_t extra = length_bytes(reader->head[1]);
    uint64_t length = extra == 0 ? reader->head[1] & LENGTH : 0;
    for (size_t i = 0; i < extra; i++)
        length = length << 8 | reader->head[2 + i];
    if ((extra == 2 && length < SHORTEST_16) || (extra == 8 && length < SHORTEST_64) ||
        length > INT64_MAX)
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    const struct buf *payload = payload_of(reader);
    if (length > payload->max - payload->length)
        return -HTTP_WEBSOCKET_TOO_LARGE;
    if (!is_control(opcode_of(reader)) && opcode_of(reader) != HTTP_WEBSOCKET_CONTINUATION)
        reader->message_opcode = opcode_of(reader);
    reader->left = length;
    reader->mask_at = 0;
    reader->in_payload = true;
    return 0;
}

static int read_head(struct http_websocket_reader *reader, const char **bytes, size_t *length)
{
    while (*length > 0) {
        reader->head[reader->head_length++] = (uint8_t) * *bytes;
        (*bytes)++;
        (*length)--;
        if (reader->head_length == 2) {
            int r = check_start(reader);
            if (r < 0)
                return r;
        }
        if (reader->head_length >= 2 &&
            reader->head_length == 2 + length_bytes(reader->head[1]) + MASK_LEN)
            return begin_payload(reader);
    }
    return 0;
}

/* --- payloads --------------------------------------------------------------------------------- */

static void read_payload(struct http_websocket_reader *reader, const char **bytes, size_t *length)
{
    struct buf *payload = payload_of(reader);
    const uint8_t *mask = reader->head + reader->head_length - MASK_LEN;
    size_t count = (size_t)MIN(reader->left, (uint64_t)*length);
    if (count == 0)
        return;
    buf_reserve(payload, count); /* begin_payload() has looked at the maximum */
    char *out = payload->data + payload->length;
    for (size_t i = 0; i < count; i++)
        out[i] = (char)((uint8_t)(*bytes)[i] ^ mask[(reader->mask_at + i) % MASK_LEN]);
    buf_commit(payload, count);
    reader->mask_at = (reader->mask_at + count) % MASK_LEN;
    reader->left -= count;
    *bytes += count;
    *length -= count;
}

static int end_close(const struct http_websocket_reader *reader, struct http_websocket_event *ret)
{
    const struct buf *control = &reader->control;
    *ret = (struct http_websocket_event){.opcode = HTTP_WEBSOCKET_CLOSE, .bytes = ""};
    ret->code = HTTP_WEBSOCKET_NO_CODE;
    if (control->length == 0)
        return 1;
    if (control->length == 1)
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    ret->code = (uint8_t)control->data[0] << 8 | (uint8_t)control->data[1];
    ret->bytes = control->data + 2;
    ret->length = control->length - 2;
    if (!http_websocket_code_is_valid(ret->code))
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    return str_is_utf8(ret->bytes, ret->length) ? 1 : -HTTP_WEBSOCKET_BAD_TEXT;
}

/* The frame's payload is whole. 0: its message goes on. */
static int end_frame(struct http_websocket_reader *reader, struct http_websocket_event *ret)
{
    enum http_websocket_opcode opcode = opcode_of(reader);
    bool last = (reader->head[0] & FIN) != 0;
    reader->in_payload = false;
    reader->head_length = 0;
    if (opcode == HTTP_WEBSOCKET_CLOSE)
        return end_close(reader, ret);
    if (is_control(opcode)) {
        *ret = (struct http_websocket_event){
            .opcode = opcode, .bytes = reader->control.data, .length = reader->control.length};
        return 1;
    }
    if (!last)
        return 0;
    *ret = (struct http_websocket_event){.opcode = reader->message_opcode,
                                         .bytes = reader->message.data,
                                         .length = reader->message.length};
    reader->message_opcode = HTTP_WEBSOCKET_CONTINUATION;
    if (ret->opcode == HTTP_WEBSOCKET_TEXT && !str_is_utf8(ret->bytes, ret->length))
        return -HTTP_WEBSOCKET_BAD_TEXT;
    return 1;
}

/* What the last event pointed to is no longer needed. */
static void forget_last(struct http_websocket_reader *reader)
{
    bool control = reader->head_length > 0 && is_control(opcode_of(reader));
    if (!control)
        buf_clear(&reader->control);
    if (reader->message_opcode != HTTP_WEBSOCKET_CONTINUATION)
        return;
    if (reader->message.capacity > KEPT_BYTES)
        buf_done(&reader->message);
    else
        buf_clear(&reader->message);
}

int http_websocket_reader_next(struct http_websocket_reader *reader, const char **bytes,
                               size_t *length, struct http_websocket_event *ret)
{
    if (reader->failed)
        return -HTTP_WEBSOCKET_PROTOCOL_ERROR;
    forget_last(reader);
    int r = 0;
    while (r == 0) {
        if (!reader->in_payload)
            r = read_head(reader, bytes, length);
        if (r < 0 || !reader->in_payload)
            break;
        read_payload(reader, bytes, length);
        if (reader->left > 0)
            break;
        r = end_frame(reader, ret);
    }
    reader->failed = r < 0;
    return r;
}

/* --- writing ---------------------------------------------------------------------------------- */

size_t http_websocket_write_head(enum http_websocket_opcode opcode, uint64_t length,
                                 uint8_t ret[HTTP_WEBSOCKET_HEAD_MAX])
{
    size_t extra = length < SHORTEST_16 ? 0 : length < SHORTEST_64 ? 2 : 8;
    ret[0] = (uint8_t)(FIN | opcode);
    ret[1] = extra == 0 ? (uint8_t)length : extra == 2 ? LENGTH_16 : LENGTH_64;
    for (size_t i = 0; i < extra; i++)
        ret[2 + i] = (uint8_t)(length >> 8 * (extra - 1 - i));
    return 2 + extra;
}
