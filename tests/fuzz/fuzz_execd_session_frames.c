/* Any bytes in any pieces: the frames are the same as for the bytes in one piece, each is what the
 * header promises, and the lines of /proc are read without harm. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "execd/session_frames.h"
#include "execd/session_processes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_frame(void *ctx, const struct execd_session_frame *frame)
{
    struct buf *out = ctx;
    require(strlen(frame->nonce) == ID_HEX_LEN);
    for (size_t i = 0; i < ID_HEX_LEN; i++)
        require(str_hex_value(frame->nonce[i]) >= 0);
    require(frame->status >= 0 && frame->status <= 255);
    require((frame->kind == EXECD_SESSION_BEGIN) == (frame->text == NULL));
    if (frame->text != NULL)
        require(strlen(frame->text) == frame->length);
    require(buf_printf(out, "%c%s%d%s|", (char)frame->kind, frame->nonce, frame->status,
                       frame->text != NULL ? frame->text : "") == 0);
}

static int feed(const char *bytes, size_t length, size_t piece, struct buf *out)
{
    struct execd_session_frames frames;
    int r = 0;
    execd_session_frames_init(&frames);
    for (size_t i = 0; i < length; i += piece)
        r = execd_session_frames_feed(&frames, bytes + i, length - i < piece ? length - i : piece,
                                      check_frame, out);
    execd_session_frames_done(&frames);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t length = size - 1;
    struct buf whole;
    struct buf pieces;
    buf_init(&whole, 2 * length + 64);
    buf_init(&pieces, 2 * length + 64);
    int r = feed(bytes, length, length + 1, &whole);
    require(feed(bytes, length, data[0] % 64 + 1U, &pieces) == r);
    require(whole.length == pieces.length && memcmp(whole.data, pieces.data, whole.length) == 0);
    buf_clear(&whole);
    require(buf_add(&whole, bytes, length) == 0);
    struct execd_session_process process;
    if (execd_session_process_parse(whole.data, &process))
        require(process.pid > 0);
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
