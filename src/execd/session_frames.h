/* What the bash of a session tells execd, as bytes on a pipe. Pure: no I/O.
 *
 *   B<nonce>                     the run has begun: its text was read and is being executed
 *   E<nonce> <status> <cwd>      the run has ended
 *   S<nonce> <text>              the state of the shell, as a script that makes it again
 *
 * each followed by a NUL byte. The nonce is 32 hexadecimal digits, new for each run and known to
 * nobody but execd and the shell. The bytes are not trusted: whatever bash runs in itself can write
 * to the pipe as well. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/id.h"

#define EXECD_SESSION_STATE_MAX (4 * 1024 * 1024)
#define EXECD_SESSION_FRAME_MAX (16 * 1024) /* of the others: a path, mostly */

enum execd_session_frame_kind {
    EXECD_SESSION_BEGIN = 'B',
    EXECD_SESSION_END = 'E',
    EXECD_SESSION_STATE = 'S',
};

struct execd_session_frame {
    enum execd_session_frame_kind kind;
    char nonce[ID_HEX_LEN + 1];
    int status;       /* of END: 0 to 255 */
    const char *text; /* cwd of END, state of STATE; NUL-terminated. NULL: it was too large */
    size_t length;
};

typedef void execd_session_frame_fn(void *ctx, const struct execd_session_frame *frame);

struct execd_session_frames {
    struct buf partial; /* the frame that has not ended yet */
    bool skipping;      /* ... which is a state and too large: its text is dropped */
    bool broken;
};

void execd_session_frames_init(struct execd_session_frames *frames);
void execd_session_frames_done(struct execd_session_frames *frames);

/* 0, or -EBADMSG for anything that is not a frame, from then on for ever. on_frame is called for
 * each frame that was complete before; the frame is borrowed during the call. */
int execd_session_frames_feed(struct execd_session_frames *frames, const char *bytes, size_t length,
                              execd_session_frame_fn *on_frame, void *ctx);
