/* Frames of RFC 6455 as a server reads and writes them. Pure: no sockets, no clock.
 *
 * The reader takes bytes in pieces of any size and gives whole messages (fragments are joined, up
 * to a maximum) and control frames. It accepts only what a client may send: masked, no reserved
 * bits or opcodes, lengths in their shortest form, control frames whole and of at most 125 bytes,
 * text that is UTF-8, close codes that may be sent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum http_websocket_opcode {
    HTTP_WEBSOCKET_CONTINUATION = 0,
    HTTP_WEBSOCKET_TEXT = 1,
    HTTP_WEBSOCKET_BINARY = 2,
    HTTP_WEBSOCKET_CLOSE = 8,
    HTTP_WEBSOCKET_PING = 9,
    HTTP_WEBSOCKET_PONG = 10,
};

enum http_websocket_code {
    HTTP_WEBSOCKET_NORMAL = 1000,
    HTTP_WEBSOCKET_GOING_AWAY = 1001,
    HTTP_WEBSOCKET_PROTOCOL_ERROR = 1002,
    HTTP_WEBSOCKET_NO_CODE = 1005,   /* never on the wire: a close frame without a code */
    HTTP_WEBSOCKET_NO_CLOSE = 1006,  /* never on the wire: the connection ended without one */
    HTTP_WEBSOCKET_BAD_TEXT = 1007,  /* text that is not UTF-8 */
    HTTP_WEBSOCKET_TOO_LARGE = 1009, /* a message over the maximum */
};

#define HTTP_WEBSOCKET_CONTROL_MAX 125

struct http_websocket_event {
    enum http_websocket_opcode opcode; /* TEXT and BINARY: a whole message */
    const char *bytes;                 /* valid until the reader is used again; NUL-terminated */
    size_t length;
    int code; /* CLOSE: then bytes are the reason */
};

struct http_websocket_reader {
    uint8_t head[14];
    size_t head_length; /* of `head`, as far as it has arrived */
    uint64_t left;      /* payload bytes of this frame still to come */
    size_t mask_at;
    bool in_payload;
    enum http_websocket_opcode message_opcode; /* CONTINUATION: between messages */
    struct buf message;                        /* fragments so far */
    struct buf control;
    bool failed;
};

void http_websocket_reader_init(struct http_websocket_reader *reader, size_t message_max);
void http_websocket_reader_done(struct http_websocket_reader *reader);

/* Take bytes from the front of the input, up to the end of the next message or control frame.
 * 1: *ret holds it, and there may be more in the input; 0: all is taken, more is needed; negative:
 * the peer broke a rule, and the number is minus the close code that says which. After that
 * nothing more can be read. */
int http_websocket_reader_next(struct http_websocket_reader *reader, const char **bytes,
                               size_t *length, struct http_websocket_event *ret);

/* The head of an unmasked, unfragmented frame. Returns its length. */
#define HTTP_WEBSOCKET_HEAD_MAX 10
size_t http_websocket_write_head(enum http_websocket_opcode opcode, uint64_t length,
                                 uint8_t ret[HTTP_WEBSOCKET_HEAD_MAX]);

/* May a close frame carry this code? */
bool http_websocket_code_is_valid(int code);
