#include "http/websocket_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MESSAGE_MAX 70000

/* What the reader said, in words: "text hello|ping abc|close 1000 bye|error 1002". */
static struct buf said;

static void add_frame(struct buf *out, uint8_t first, const char *payload, size_t length)
{
    uint8_t head[HTTP_WEBSOCKET_HEAD_MAX];
    size_t head_length = http_websocket_write_head(HTTP_WEBSOCKET_TEXT, length, head);
    head[0] = first;
    head[1] |= 0x80;
    static const uint8_t mask[4] = {0x12, 0xfe, 0x00, 0x77};
    buf_add(out, head, head_length);
    buf_add(out, mask, sizeof(mask));
    for (size_t i = 0; i < length; i++)
        buf_add_char(out, (char)((uint8_t)payload[i] ^ mask[i % 4]));
}

static void add_text_frame(struct buf *out, uint8_t first, const char *payload)
{
    add_frame(out, first, payload, strlen(payload));
}

static void say(const struct http_websocket_event *event)
{
    static const char *const names[] = {
        [HTTP_WEBSOCKET_TEXT] = "text",   [HTTP_WEBSOCKET_BINARY] = "binary",
        [HTTP_WEBSOCKET_CLOSE] = "close", [HTTP_WEBSOCKET_PING] = "ping",
        [HTTP_WEBSOCKET_PONG] = "pong",
    };
    assert_int_equal(event->bytes[event->length], '\0');
    buf_printf(&said, "%s ", names[event->opcode]);
    if (event->opcode == HTTP_WEBSOCKET_CLOSE)
        buf_printf(&said, "%d ", event->code);
    if (event->length > 200)
        buf_printf(&said, "(%zu)", event->length);
    else
        buf_add(&said, event->bytes, event->length);
    buf_add_char(&said, '|');
}

static void read_pieces(const struct buf *input, size_t piece)
{
    struct http_websocket_reader reader;
    http_websocket_reader_init(&reader, MESSAGE_MAX);
    buf_done(&said);
    for (size_t i = 0; i < input->length; i += piece) {
        /* A copy of its own, so that a sanitizer sees reads beyond the piece. */
        size_t length = MIN(piece, input->length - i);
        AUTO_FREE char *copy = mem_dup_n(input->data + i, length);
        const char *at = copy;
        struct http_websocket_event event;
        int r;
        while ((r = http_websocket_reader_next(&reader, &at, &length, &event)) > 0)
            say(&event);
        if (r < 0) {
            buf_printf(&said, "error %d|", -r);
            assert_true(http_websocket_reader_next(&reader, &at, &length, &event) < 0);
            break;
        }
        assert_int_equal(length, 0);
    }
    http_websocket_reader_done(&reader);
}

/* Whole, byte by byte, and in pieces between. */
static void check(struct buf *input, const char *expected)
{
    static const size_t pieces[] = {1000000, 1, 2, 3, 7, 64};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        read_pieces(input, pieces[i]);
        assert_string_equal(said.data, expected);
    }
    buf_clear(input);
}

static void check_raw(const char *bytes, size_t length, const char *expected)
{
    struct buf input;
    buf_init(&input, 1000);
    buf_add(&input, bytes, length);
    check(&input, expected);
    buf_done(&input);
}

static int setup(void **state)
{
    struct buf *input = mem_alloc(sizeof(*input));
    buf_init(input, 10 * 1024 * 1024);
    buf_init(&said, 10 * 1024 * 1024);
    *state = input;
    return 0;
}

static int teardown(void **state)
{
    buf_done(*state);
    buf_done(&said);
    free(*state);
    return 0;
}

static void test_messages(void **state)
{
    struct buf *in = *state;
    add_text_frame(in, 0x81, "hello");
    add_text_frame(in, 0x81, "");
    add_text_frame(in, 0x82, "\xff raw");
    add_text_frame(in, 0x89, "are you there");
    add_text_frame(in, 0x8a, "");
    add_text_frame(in, 0x88,
                   "\x03\xe8"
                   "bye");
    check(in, "text hello|text |binary \xff raw|ping are you there|pong |close 1000 bye|");
}

static void test_fragments(void **state)
{
    struct buf *in = *state;
    add_text_frame(in, 0x01, "one ");
    add_text_frame(in, 0x89, "between");
    add_text_frame(in, 0x00, "");
    add_text_frame(in, 0x00, "two ");
    add_text_frame(in, 0x80, "three");
    add_text_frame(in, 0x82, "next");
    check(in, "ping between|text one two three|binary next|");
}

static void test_lengths(void **state)
{
    struct buf *in = *state;
    AUTO_FREE char *payload = mem_alloc(MESSAGE_MAX + 1);
    memset(payload, 'x', MESSAGE_MAX);
    static const size_t sizes[] = {125, 126, 127, 65535, 65536, MESSAGE_MAX};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char expected[64];
        add_frame(in, 0x82, payload, sizes[i]);
        if (sizes[i] > 200) {
            snprintf(expected, sizeof(expected), "binary (%zu)|", sizes[i]);
            check(in, expected);
        } else {
            read_pieces(in, 50);
            assert_int_equal(said.length, strlen("binary |") + sizes[i]);
            buf_clear(in);
        }
    }
}

static void test_too_large(void **state)
{
    struct buf *in = *state;
    AUTO_FREE char *payload = mem_alloc(MESSAGE_MAX + 2);
    memset(payload, 'x', MESSAGE_MAX + 1);
    add_frame(in, 0x82, payload, MESSAGE_MAX + 1);
    check(in, "error 1009|");
    /* Fragments together, and refused before a byte of the last has come. */
    add_frame(in, 0x02, payload, MESSAGE_MAX - 1);
    add_frame(in, 0x00, payload, 1);
    add_frame(in, 0x80, payload, 0);
    check(in, "binary (70000)|");
    add_frame(in, 0x02, payload, MESSAGE_MAX - 1);
    add_frame(in, 0x80, payload, 2);
    in->length -= 2;
    check(in, "error 1009|");
    check_raw("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff"
              "mask",
              14, "error 1009|");
}

static void test_protocol_errors(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *bytes;
        size_t length;
    } cases[] = {
        {"not masked", "\x81\x05hello", 7},
        {"RSV1", "\xc1\x80mask", 6},
        {"RSV2", "\xa1\x80mask", 6},
        {"RSV3", "\x91\x80mask", 6},
        {"opcode 3", "\x83\x80mask", 6},
        {"opcode 7", "\x87\x80mask", 6},
        {"opcode 11", "\x8b\x80mask", 6},
        {"opcode 15", "\x8f\x80mask", 6},
        {"continuation of nothing", "\x80\x80mask", 6},
        {"text inside text", "\x01\x80mask\x81\x80mask", 12},
        {"binary inside text", "\x01\x80mask\x02\x80mask", 12},
        {"fragmented ping", "\x09\x80mask", 6},
        {"fragmented close", "\x08\x80mask", 6},
        {"long ping", "\x89\xfe\x00\x7e", 4},
        {"16 bits for 125", "\x82\xfe\x00\x7dmask", 8},
        {"64 bits for 65535", "\x82\xff\x00\x00\x00\x00\x00\x00\xff\xffmask", 14},
        {"top bit of the length", "\x82\xff\x80\x00\x00\x00\x00\x01\x00\x00mask", 14},
        {"close of one byte", "\x88\x81\x00\x00\x00\x00\x03", 7},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        print_message("# %s\n", cases[i].what);
        check_raw(cases[i].bytes, cases[i].length, "error 1002|");
    }
}

static void test_close_codes(void **state)
{
    struct buf *in = *state;
    for (int code = 0; code < 65536; code++) {
        char payload[2] = {(char)(code >> 8), (char)(code & 0xff)};
        bool good = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
                    (code >= 3000 && code < 5000);
        assert_int_equal(http_websocket_code_is_valid(code), good);
        if (code > 1100 && code % 500 != 0)
            continue;
        char expected[32];
        snprintf(expected, sizeof(expected), good ? "close %d |" : "error 1002|", code);
        add_frame(in, 0x88, payload, 2);
        check(in, expected);
    }
    add_text_frame(in, 0x88, "");
    check(in, "close 1005 |");
    add_text_frame(in, 0x88, "\x0f\xa0\xc3");
    check(in, "error 1007|");
}

static void test_text_is_utf8(void **state)
{
    struct buf *in = *state;
    add_text_frame(in, 0x01, "\xe2\x82");
    add_text_frame(in, 0x89, "x");
    add_text_frame(in, 0x80, "\xac!");
    check(in, "ping x|text \xe2\x82\xac!|");
    add_text_frame(in, 0x81, "\xe2\x82");
    check(in, "error 1007|");
    add_text_frame(in, 0x81, "\xc0\xaf");
    check(in, "error 1007|");
    add_text_frame(in, 0x81, "\xed\xa0\x80");
    check(in, "error 1007|");
    add_text_frame(in, 0x01, "\xf4");
    add_text_frame(in, 0x80, "\x90\x80\x80");
    check(in, "error 1007|");
}

/* Much memory is not kept between messages. */
static void test_memory(void **state)
{
    struct buf *in = *state;
    AUTO_FREE char *payload = mem_alloc(60000);
    add_frame(in, 0x82, payload, 60000);
    add_text_frame(in, 0x8a, "");
    struct http_websocket_reader reader;
    struct http_websocket_event event;
    http_websocket_reader_init(&reader, MESSAGE_MAX);
    const char *at = in->data;
    size_t length = in->length;
    assert_int_equal(http_websocket_reader_next(&reader, &at, &length, &event), 1);
    assert_true(reader.message.capacity >= 60000);
    assert_int_equal(http_websocket_reader_next(&reader, &at, &length, &event), 1);
    assert_int_equal(reader.message.capacity, 0);
    http_websocket_reader_done(&reader);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_messages),        TEST(test_fragments),   TEST(test_lengths),
        TEST(test_too_large),       TEST(test_memory),      TEST(test_text_is_utf8),
        TEST(test_protocol_errors), TEST(test_close_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
