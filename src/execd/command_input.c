/* The standard input of a command: a pipe that one request at a time writes its body to. Only our
 * end is non-blocking; the command finds an ordinary pipe. While the pipe is full the body waits in
 * the connection, so a program that does not read holds up its client and nothing piles up here. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/command_internal.h"
#include "execd/reply.h"
#include "execd/request.h"
#include "http/json.h"

/* A body comes in pieces of at most what a connection keeps unread, which is less. */
#define REST_MAX (1024 * 1024)

struct execd_command_input {
    struct execd_command *command;
    int fd;
    uv_poll_t poll;
    struct http_exchange *writer; /* NULL: nobody is writing */
    bool body_ended;
    bool close_after;
    uint64_t taken;  /* bytes that the pipe took from this writer */
    struct buf rest; /* the end of a piece that did not fit into the pipe */
};

/* --- closing ---------------------------------------------------------------------------------- */

static void free_input(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_input(struct execd_command_input *input)
{
    input->command->input = NULL;
    buf_done(&input->rest);
    uv_close((uv_handle_t *)&input->poll, free_input); /* before the number is free again */
    input->fd = fd_close(input->fd);
}

/* Nobody is writing any more; the exchange is the caller's to answer. */
static struct http_exchange *end_writer(struct execd_command_input *input)
{
    struct http_exchange *exchange = TAKE_PTR(input->writer);
    http_exchange_on_close(exchange, NULL, NULL);
    uv_poll_stop(&input->poll);
    buf_done(&input->rest);
    return exchange;
}

static void reply_closed(struct execd_command_input *input, const char *why)
{
    struct http_exchange *exchange = end_writer(input);
    http_exchange_reply_error(exchange, 409, "RUNTIME_ERROR", "%s after %" PRIu64 " bytes", why,
                              input->taken);
}

void execd_command_input_close(struct execd_command *command)
{
    struct execd_command_input *input = command->input;
    if (input == NULL)
        return;
    if (input->writer != NULL)
        reply_closed(input, "the command ended");
    close_input(input);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* What the pipe takes of these bytes, or -1 when nobody reads it any more. */
static ssize_t write_some(struct execd_command_input *input, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = write(input->fd, bytes + done, length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return -1;
        if (n < 0)
            break;
        done += (size_t)n;
        input->taken += (size_t)n;
    }
    return (ssize_t)done;
}

static void fail(struct execd_command_input *input)
{
    reply_closed(input, "the command closed its standard input");
    close_input(input);
}

static void answer(struct execd_command_input *input)
{
    struct http_exchange *exchange = end_writer(input);
    http_exchange_reply_json(exchange, 200, json_pack("{s:I}", "bytes", (json_int_t)input->taken));
    if (input->close_after)
        close_input(input);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* an error shows up in write() as well */
    (void)events;
    struct execd_command_input *input = poll->data;
    ssize_t n = write_some(input, input->rest.data, input->rest.length);
    if (n < 0) {
        fail(input);
        return;
    }
    buf_consume(&input->rest, (size_t)n);
    if (input->rest.length > 0) {
        uv_poll_start(&input->poll, UV_WRITABLE, on_writable);
        return;
    }
    uv_poll_stop(&input->poll);
    buf_done(&input->rest);
    if (input->body_ended)
        answer(input);
    else
        http_exchange_resume_body(input->writer);
}

static void on_data(struct http_exchange *exchange, const char *bytes, size_t length, void *ctx)
{
    struct execd_command_input *input = ctx;
    ssize_t n = write_some(input, bytes, length);
    if (n < 0 || buf_add(&input->rest, bytes + n, length - (size_t)n) < 0) {
        fail(input);
        return;
    }
    if (input->rest.length == 0)
        return;
    http_exchange_pause_body(exchange);
    uv_poll_start(&input->poll, UV_WRITABLE, on_writable);
}

static void on_end(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct execd_command_input *input = ctx;
    input->body_ended = true;
    if (input->rest.length == 0)
        answer(input);
}

/* The client went away. What it sent is with the command; another may go on. */
static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct execd_command_input *input = ctx;
    input->writer = NULL;
    uv_poll_stop(&input->poll);
    buf_done(&input->rest);
}

static void start_writer(struct execd_command_input *input, struct http_exchange *exchange,
                         bool close_after)
{
    static const struct http_body_events events = {.on_data = on_data, .on_end = on_end};
    input->writer = exchange;
    input->body_ended = false;
    input->close_after = close_after;
    input->taken = 0;
    http_exchange_on_close(exchange, on_close, input);
    http_exchange_read_body(exchange, &events, input);
}

/* --- opening ---------------------------------------------------------------------------------- */

int execd_command_input_open(struct execd_command *command, int *ret_read_end, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot make a pipe for standard input");
    AUTO_CLOSE int read_end = ends[0];
    struct execd_command_input *input = mem_alloc(sizeof(*input));
    int r = uv_poll_init(command->execd->loop, &input->poll, ends[1]); /* makes it non-blocking */
    if (r < 0) {
        fd_close(ends[1]);
        free(input);
        return error_set_errno(err, -r, "cannot watch a pipe");
    }
    input->poll.data = input;
    input->command = command;
    input->fd = ends[1];
    buf_init(&input->rest, REST_MAX);
    command->input = input;
    *ret_read_end = TAKE_FD(read_end);
    return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

/* NULL when there is nothing to write to, which was then answered. */
static struct execd_command_input *find_input(const struct execd *execd,
                                              struct http_exchange *exchange,
                                              const struct http_route_match *match)
{
    struct execd_command *command = execd_command_find_route(execd, exchange, match);
    if (command == NULL)
        return NULL;
    if (command->input == NULL)
        http_exchange_reply_error(exchange, 409, "RUNTIME_ERROR",
                                  command->exited
                                      ? "the command is not running any more"
                                      : "the standard input of this command is closed; it is open "
                                        "only for commands started with \"stdin\": true");
    else if (command->input->writer != NULL)
        http_exchange_reply_error(exchange, 409, "RUNTIME_ERROR",
                                  "another request is writing to this command");
    else
        return command->input;
    return NULL;
}

static int read_close(const char *text, bool *ret)
{
    if (text == NULL || str_equal(text, "false"))
        *ret = false;
    else if (str_equal(text, "true"))
        *ret = true;
    else
        return -EINVAL;
    return 0;
}

void execd_command_handle_stdin(struct http_exchange *exchange,
                                const struct http_route_match *match, void *ctx)
{
    struct execd_command_input *input = find_input(ctx, exchange, match);
    if (input == NULL)
        return;
    struct url_query query;
    if (!execd_request_query(exchange, &query))
        return;
    bool close_after;
    const char *text = url_query_find(&query, "close");
    if (read_close(text, &close_after) < 0)
        http_exchange_reply_error(exchange, 400, "INVALID_REQUEST_BODY",
                                  "`close` must be true or false, not \"%.40s\"", text);
    else
        start_writer(input, exchange, close_after);
    url_query_done(&query);
}

void execd_command_handle_stdin_close(struct http_exchange *exchange,
                                      const struct http_route_match *match, void *ctx)
{
    struct execd_command_input *input = find_input(ctx, exchange, match);
    if (input == NULL)
        return;
    close_input(input);
    execd_reply_empty(exchange);
}
