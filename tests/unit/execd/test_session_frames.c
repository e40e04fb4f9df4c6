/* What bash tells execd: frames fed whole and byte by byte, and everything that is none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "execd/session_frames.h"

#define NONCE "0123456789abcdef0123456789abcdef"

/* Frames are collected as "kind:status:text;". */
static void collect(void *ctx, const struct execd_session_frame *frame)
{
    struct buf *out = ctx;
    assert_string_equal(frame->nonce, NONCE);
    assert_int_equal(buf_printf(out, "%c:%d:%s;", (char)frame->kind, frame->status,
                                frame->text != NULL ? frame->text : "(none)"),
                     0);
    if (frame->text != NULL)
        assert_int_equal(strlen(frame->text), frame->length);
}

static int feed_in_pieces(const char *bytes, size_t length, size_t piece, struct buf *out)
{
    struct execd_session_frames frames;
    int r = 0;
    execd_session_frames_init(&frames);
    for (size_t i = 0; i < length; i += piece) {
        size_t part = length - i < piece ? length - i : piece;
        r = execd_session_frames_feed(&frames, bytes + i, part, collect, out);
    }
    execd_session_frames_done(&frames);
    return r;
}

static void check(const char *bytes, size_t length, int expected, const char *frames)
{
    for (size_t piece = 1; piece <= length; piece++) {
        struct buf out;
        buf_init(&out, 64 * 1024);
        assert_int_equal(feed_in_pieces(bytes, length, piece, &out), expected);
        assert_string_equal(out.data, frames);
        buf_done(&out);
    }
}

#define CHECK(bytes, expected, frames) check(bytes, sizeof(bytes) - 1, expected, frames)

static void test_frames(void **state)
{
    (void)state;
    CHECK("B" NONCE "\0", 0, "B:0:(none);");
    CHECK("E" NONCE " 7 /tmp\0", 0, "E:7:/tmp;");
    CHECK("E" NONCE " 255 \0", 0, "E:255:;");
    CHECK("E" NONCE " 0 /a b\nc 7 d\0", 0, "E:0:/a b\nc 7 d;");
    CHECK("S" NONCE " \0", 0, "S:0:;");
    CHECK("B" NONCE "\0E" NONCE " 1 /\0S" NONCE " x=1\ny=2\n\0B" NONCE "\0", 0,
          "B:0:(none);E:1:/;S:0:x=1\ny=2\n;B:0:(none);");
    CHECK("S" NONCE " not ended", 0, "");
}

static void test_nonsense(void **state)
{
    (void)state;
    CHECK("\0", -EBADMSG, "");
    CHECK("nonsense", -EBADMSG, "");
    CHECK("\nB" NONCE "\0", -EBADMSG, "");
    CHECK("B\0", -EBADMSG, "");
    CHECK("B" NONCE " \0", -EBADMSG, "");
    CHECK("B" NONCE "0\0", -EBADMSG, "");
    CHECK("S" NONCE "\0", -EBADMSG, "");
    CHECK("S0123456789abcdef0123456789abcdeg x\0", -EBADMSG, "");
    CHECK("E" NONCE "\0", -EBADMSG, "");
    CHECK("E" NONCE " \0", -EBADMSG, "");
    CHECK("E" NONCE " 7\0", -EBADMSG, "");
    CHECK("E" NONCE " 256 /\0", -EBADMSG, "");
    CHECK("E" NONCE " 0001 /\0", -EBADMSG, "");
    CHECK("E" NONCE " -1 /\0", -EBADMSG, "");
    CHECK("X" NONCE " x\0", -EBADMSG, "");
    /* What came before counts, what comes after does not. */
    CHECK("B" NONCE "\0?B" NONCE "\0", -EBADMSG, "B:0:(none);");
}

static void test_too_large(void **state)
{
    (void)state;
    size_t head = 1 + ID_HEX_LEN + 1;
    size_t length = head + EXECD_SESSION_STATE_MAX + 2;
    AUTO_FREE char *bytes = mem_alloc(length);
    struct buf out;
    buf_init(&out, 64);
    memcpy(bytes, "S" NONCE " ", head);
    memset(bytes + head, 'x', length - head - 1);
    for (size_t piece = 7; piece <= length; piece = piece * 9 + 1) {
        assert_int_equal(feed_in_pieces(bytes, length, piece, &out), 0);
        assert_string_equal(out.data, "S:0:(none);");
        buf_clear(&out);
    }
    buf_done(&out);

    /* The largest one that is kept. */
    buf_init(&out, EXECD_SESSION_STATE_MAX + 64);
    bytes[length - 2] = '\0';
    assert_int_equal(feed_in_pieces(bytes, length - 1, length, &out), 0);
    assert_int_equal(out.length, strlen("S:0:;") + EXECD_SESSION_STATE_MAX);
    buf_done(&out);

    /* Others are not as large. */
    buf_init(&out, 64);
    memcpy(bytes, "E" NONCE " 1 /", head + 3);
    assert_int_equal(feed_in_pieces(bytes, length, 4096, &out), -EBADMSG);
    assert_string_equal(out.data, "");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
