#include "execd/session_frames.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* Kind and nonce, which every frame begins with. */
#define HEAD_LEN (1 + ID_HEX_LEN)

void execd_session_frames_init(struct execd_session_frames *frames)
{
    *frames = (struct execd_session_frames){0};
    buf_init(&frames->partial, HEAD_LEN + 1 + EXECD_SESSION_STATE_MAX);
}

void execd_session_frames_done(struct execd_session_frames *frames)
{
    buf_done(&frames->partial);
}

/* Can this, as far as it has come, be the front of a frame: "<kind><nonce>" and, but for BEGIN, a
 * space? */
static bool is_front(const char *bytes, size_t length)
{
    if (length > 0 && bytes[0] != EXECD_SESSION_BEGIN && bytes[0] != EXECD_SESSION_END &&
        bytes[0] != EXECD_SESSION_STATE)
        return false;
    for (size_t i = 1; i < MIN(length, (size_t)HEAD_LEN); i++) {
        if (str_hex_value(bytes[i]) < 0)
            return false;
    }
    return length <= HEAD_LEN || (bytes[0] != EXECD_SESSION_BEGIN && bytes[HEAD_LEN] == ' ');
}

/* What is_front() has approved of, when it is all there. */
static bool read_head(const struct buf *partial, struct execd_session_frame *frame)
{
    if (partial->length < HEAD_LEN)
        return false;
    frame->kind = (enum execd_session_frame_kind)partial->data[0];
    memcpy(frame->nonce, partial->data + 1, ID_HEX_LEN);
    return frame->kind == EXECD_SESSION_BEGIN || partial->length > HEAD_LEN;
}

/* "<status> " in front of the working directory. */
static bool read_status(struct execd_session_frame *frame)
{
    int status = 0;
    size_t digits = 0;
    for (; digits < 3 && frame->text[digits] >= '0' && frame->text[digits] <= '9'; digits++)
        status = status * 10 + (frame->text[digits] - '0');
    if (digits == 0 || status > 255 || frame->text[digits] != ' ')
        return false;
    frame->status = status;
    frame->text += digits + 1;
    frame->length -= digits + 1;
    return true;
}

static bool finish_frame(struct execd_session_frames *frames, execd_session_frame_fn *on_frame,
                         void *ctx)
{
    struct execd_session_frame frame = {0};
    if (!read_head(&frames->partial, &frame))
        return false;
    if (frame.kind != EXECD_SESSION_BEGIN) {
        frame.text = frames->partial.data + HEAD_LEN + 1;
        frame.length = frames->partial.length - HEAD_LEN - 1;
    }
    if (frame.kind == EXECD_SESSION_END && !read_status(&frame))
        return false;
    if (frames->skipping) {
        frame.text = NULL;
        frame.length = 0;
    }
    on_frame(ctx, &frame);
    frames->skipping = false;
    if (frames->partial.capacity > EXECD_SESSION_FRAME_MAX)
        buf_done(&frames->partial); /* a large state is no reason to stay large */
    else
        buf_clear(&frames->partial);
    return true;
}

/* The head must be whole for the frame to be told, but nothing else of it need stay. */
static void keep_head(struct buf *partial, const char *bytes)
{
    char head[HEAD_LEN + 1];
    size_t had = MIN(partial->length, sizeof(head));
    memcpy(head, partial->data, had);
    memcpy(head + had, bytes, sizeof(head) - had);
    buf_done(partial);
    buf_add(partial, head, sizeof(head));
}

/* More of a frame: kept as far as it may matter. */
static bool add_part(struct execd_session_frames *frames, const char *bytes, size_t length)
{
    struct buf *partial = &frames->partial;
    if (length == 0 || frames->skipping)
        return true;
    bool state = (partial->length > 0 ? partial->data[0] : bytes[0]) == EXECD_SESSION_STATE;
    size_t room = (state ? partial->max : EXECD_SESSION_FRAME_MAX) - partial->length;
    if (length <= room)
        return buf_add(partial, bytes, length) == 0 && is_front(partial->data, partial->length);
    if (!state)
        return false;
    keep_head(partial, bytes);
    frames->skipping = true;
    return is_front(partial->data, partial->length);
}

int execd_session_frames_feed(struct execd_session_frames *frames, const char *bytes, size_t length,
                              execd_session_frame_fn *on_frame, void *ctx)
{
    while (length > 0 && !frames->broken) {
        const char *end = memchr(bytes, '\0', length);
        size_t part = end != NULL ? (size_t)(end - bytes) : length;
        if (!add_part(frames, bytes, part) || (end != NULL && !finish_frame(frames, on_frame, ctx)))
            frames->broken = true;
        part += end != NULL;
        bytes += part;
        length -= part;
    }
    return frames->broken ? -EBADMSG : 0;
}
