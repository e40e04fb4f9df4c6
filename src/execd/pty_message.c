#include "execd/pty_message.h"

#include <signal.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "http/json.h"
#include "http/quote.h"

#define BINARY_STDIN '\0'

static const struct {
    const char *name;
    int number;
    bool may_send; /* the others are only told of */
} signals[] = {
    {"SIGINT", SIGINT, true},    {"SIGTERM", SIGTERM, true},  {"SIGKILL", SIGKILL, true},
    {"SIGQUIT", SIGQUIT, true},  {"SIGHUP", SIGHUP, true},    {"SIGTSTP", SIGTSTP, true},
    {"SIGCONT", SIGCONT, true},  {"SIGUSR1", SIGUSR1, true},  {"SIGUSR2", SIGUSR2, true},
    {"SIGABRT", SIGABRT, false}, {"SIGALRM", SIGALRM, false}, {"SIGBUS", SIGBUS, false},
    {"SIGFPE", SIGFPE, false},   {"SIGILL", SIGILL, false},   {"SIGPIPE", SIGPIPE, false},
    {"SIGSEGV", SIGSEGV, false}, {"SIGSYS", SIGSYS, false},   {"SIGTRAP", SIGTRAP, false},
    {"SIGXCPU", SIGXCPU, false}, {"SIGXFSZ", SIGXFSZ, false},
};

const char *execd_pty_signal_name(int signal)
{
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        if (signals[i].number == signal)
            return signals[i].name;
    }
    return NULL;
}

static int read_stdin(const json_t *json, struct execd_pty_message *message, struct error *err)
{
    const char *data = "";
    if (http_json_string(json, "data", SIZE_MAX, &data, err) < 0)
        return -1;
    message->bytes = data;
    message->length = strlen(data); /* the parser lets no NUL through */
    message->type = EXECD_PTY_STDIN;
    return 0;
}

static int read_resize(const json_t *json, struct execd_pty_message *message, struct error *err)
{
    int64_t cols = 0;
    int64_t rows = 0;
    if (http_json_int(json, "cols", 1, EXECD_PTY_SIDE_MAX, &cols, err) < 0 ||
        http_json_int(json, "rows", 1, EXECD_PTY_SIDE_MAX, &rows, err) < 0)
        return -1;
    if (cols == 0 || rows == 0)
        return error_set(err, ERR_INVALID, "`resize` needs `cols` and `rows`, from 1 to %d",
                         EXECD_PTY_SIDE_MAX);
    message->cols = (unsigned short)cols;
    message->rows = (unsigned short)rows;
    message->type = EXECD_PTY_RESIZE;
    return 0;
}

static int read_signal(const json_t *json, struct execd_pty_message *message, struct error *err)
{
    const char *name = "";
    if (http_json_string(json, "signal", SIZE_MAX, &name, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        if (signals[i].may_send && str_equal(signals[i].name, name)) {
            message->signal = signals[i].number;
            message->type = EXECD_PTY_SIGNAL;
            return 0;
        }
    }
    char quoted[HTTP_QUOTE_MAX];
    return error_set(err, ERR_INVALID,
                     "`signal` is \"%s\"; SIGINT, SIGTERM, SIGKILL, SIGQUIT, SIGHUP, SIGTSTP, "
                     "SIGCONT, SIGUSR1 and SIGUSR2 are allowed",
                     http_quote(quoted, sizeof(quoted), name, strlen(name)));
}

static int read_text(const json_t *json, struct execd_pty_message *message, struct error *err)
{
    const char *type = "";
    char quoted[HTTP_QUOTE_MAX];
    if (http_json_string(json, "type", SIZE_MAX, &type, err) < 0)
        return -1;
    if (str_equal(type, "stdin"))
        return read_stdin(json, message, err);
    if (str_equal(type, "resize"))
        return read_resize(json, message, err);
    if (str_equal(type, "signal"))
        return read_signal(json, message, err);
    if (str_equal(type, "eof"))
        message->type = EXECD_PTY_EOF;
    else if (str_equal(type, "ping"))
        message->type = EXECD_PTY_PING;
    else
        return error_set(err, ERR_INVALID,
                         "`type` is \"%s\"; stdin, eof, resize, signal and ping are allowed",
                         http_quote(quoted, sizeof(quoted), type, strlen(type)));
    return 0;
}

int execd_pty_message_parse(bool text, const char *bytes, size_t length,
                            struct execd_pty_message *ret, struct error *err)
{
    struct execd_pty_message message = {.type = EXECD_PTY_NOTHING};
    if (!text && length > 0 && bytes[0] == BINARY_STDIN) {
        message.type = EXECD_PTY_STDIN;
        message.bytes = bytes + 1;
        message.length = length - 1;
    }
    if (text)
        message.json = http_json_parse(bytes, length, NULL);
    if (json_is_object(message.json) && read_text(message.json, &message, err) < 0) {
        execd_pty_message_done(&message);
        return -1;
    }
    *ret = message;
    return 0;
}

void execd_pty_message_done(struct execd_pty_message *message)
{
    json_decref(TAKE_PTR(message->json));
}
