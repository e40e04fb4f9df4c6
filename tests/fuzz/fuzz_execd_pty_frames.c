/* What a terminal's client sends: messages, each 't' or 'b' (text or binary) and its bytes, divided
 * by 0xff. They are made into masked frames, read back, and taken for what they ask for; whatever
 * comes out must be within its limits and nothing but what went in. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "execd/pty_message.h"
#include "http/websocket_frame.h"

#define MESSAGE_MAX (64 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Not inlined, so that a report names it. */
__attribute__((noinline)) static void check_binary(const struct execd_pty_message *message,
                                                   const char *bytes, size_t length)
{
    bool input = length > 0 && bytes[0] == '\0';
    require(message->type == (input ? EXECD_PTY_STDIN : EXECD_PTY_NOTHING));
    if (input)
        require(message->length == length - 1 &&
                memcmp(message->bytes, bytes + 1, message->length) == 0);
}

static void check_text(const struct execd_pty_message *message, size_t length)
{
    switch (message->type) {
    case EXECD_PTY_STDIN:
        require(message->length <= length && strlen(message->bytes) == message->length);
        require(str_is_utf8(message->bytes, message->length));
        break;
    case EXECD_PTY_RESIZE:
        require(message->cols >= 1 && message->cols <= EXECD_PTY_SIDE_MAX);
        require(message->rows >= 1 && message->rows <= EXECD_PTY_SIDE_MAX);
        break;
    case EXECD_PTY_SIGNAL:
        require(execd_pty_signal_name(message->signal) != NULL);
        require(message->signal != SIGSEGV && message->signal != SIGSTOP);
        break;
    case EXECD_PTY_NOTHING:
    case EXECD_PTY_PING:
    case EXECD_PTY_EOF:
        require(message->length == 0);
        break;
    }
}

static void take(bool text, const char *bytes, size_t length)
{
    struct execd_pty_message message;
    struct error err = ERROR_INIT;
    if (execd_pty_message_parse(text, bytes, length, &message, &err) < 0) {
        require(text && err.code == ERR_INVALID && err.message[0] != '\0');
        require(str_is_utf8(err.message, strlen(err.message))); /* it is sent as text */
        return;
    }
    if (text)
        check_text(&message, length);
    else
        check_binary(&message, bytes, length);
    execd_pty_message_done(&message);
}

static void add_frame(struct buf *out, bool text, const uint8_t *bytes, size_t length)
{
    uint8_t head[HTTP_WEBSOCKET_HEAD_MAX];
    size_t head_length =
        http_websocket_write_head(text ? HTTP_WEBSOCKET_TEXT : HTTP_WEBSOCKET_BINARY, length, head);
    head[1] |= 0x80;
    const uint8_t mask[4] = {(uint8_t)length, 0x5a, 0, 0xff};
    buf_add(out, head, head_length);
    buf_add(out, mask, sizeof(mask));
    for (size_t i = 0; i < length; i++)
        buf_add_char(out, (char)(bytes[i] ^ mask[i % 4]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MESSAGE_MAX)
        return 0;
    struct buf wire;
    buf_init(&wire, 16 * MESSAGE_MAX);
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, 0xff, size - at);
        size_t length = end != NULL ? (size_t)(end - data) - at : size - at;
        if (length > 0 && (data[at] == 't' || data[at] == 'b')) {
            add_frame(&wire, data[at] == 't', data + at + 1, length - 1);
            count++;
        }
        at += length + 1;
    }
    struct http_websocket_reader reader;
    struct http_websocket_event event;
    http_websocket_reader_init(&reader, MESSAGE_MAX);
    const char *bytes = wire.data;
    size_t length = wire.length;
    int r;
    while ((r = http_websocket_reader_next(&reader, &bytes, &length, &event)) > 0) {
        take(event.opcode == HTTP_WEBSOCKET_TEXT, event.bytes, event.length);
        count--;
    }
    require(r == 0 ? count == 0 : r == -HTTP_WEBSOCKET_BAD_TEXT);
    http_websocket_reader_done(&reader);
    buf_done(&wire);
    return 0;
}
