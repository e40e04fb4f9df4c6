/* What a terminal's client says over its WebSocket. Pure.
 *
 * Binary: a byte 0 and then input for the program; anything else is ignored.
 * Text: JSON with a `type`: `stdin` (`data`), `eof`, `resize` (`cols`, `rows`), `signal` (`signal`,
 * by name), `ping`. What is not a JSON object is ignored. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define EXECD_PTY_SIDE_MAX 10000 /* columns or rows of a terminal */

enum execd_pty_message_type {
    EXECD_PTY_NOTHING, /* to be ignored */
    EXECD_PTY_STDIN,
    EXECD_PTY_EOF, /* end of input */
    EXECD_PTY_RESIZE,
    EXECD_PTY_SIGNAL,
    EXECD_PTY_PING,
};

struct execd_pty_message {
    enum execd_pty_message_type type;
    const char *bytes; /* STDIN: in the message itself, or in `json` */
    size_t length;
    unsigned short cols; /* RESIZE: 1 to EXECD_PTY_SIDE_MAX */
    unsigned short rows;
    int signal; /* SIGNAL */
    json_t *json;
};

/* ERR_INVALID for a message that asks for something we do not know or allow. On success *ret is
 * released with execd_pty_message_done(); the bytes must live as long. */
int execd_pty_message_parse(bool text, const char *bytes, size_t length,
                            struct execd_pty_message *ret, struct error *err);
void execd_pty_message_done(struct execd_pty_message *message);

/* "SIGKILL" of 9; NULL for signals that have no name here. */
const char *execd_pty_signal_name(int signal);
