/* The one client of a terminal, and what passes between the two.
 *
 * A client belongs to its WebSocket: it is freed when that has closed, and has no terminal any more
 * once the close frame is on its way. So another client can be attached at that moment, and a
 * terminal never has two. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/pty_internal.h"
#include "execd/pty_message.h"
#include "execd/reply.h"
#include "http/url.h"

/* Clients that were evicted or told of the end hold a socket until they answer. */
#define SOCKETS_MAX (4 * EXECD_PTYS_MAX)

#define CLOSE_TAKEN_OVER   4001
#define CLOSE_SERVER_ERROR 1011

enum frame_kind { FRAME_STDOUT = 1, FRAME_STDERR = 2, FRAME_REPLAY = 3 };

struct execd_pty_client {
    struct execd_ptys *ptys;
    struct execd_pty *pty; /* NULL once detached */
    struct http_websocket *socket;
    uint64_t since;   /* wants the output from here */
    bool greeted;     /* was told that the shell runs */
    bool input_waits; /* not read from until the program takes its input ... */
    bool reply_waits; /* ... and until this client takes our answers */
};

/* --- frames ----------------------------------------------------------------------------------- */

static void send_json(struct execd_pty_client *client, json_t *object)
{
    AUTO_FREE char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text != NULL)
        http_websocket_send_text(client->socket, text, strlen(text));
}

static void send_error(struct execd_pty_client *client, const char *code, const char *message)
{
    AUTO_FREE char *clean = mem_dup(message);
    bool is_text = str_is_utf8(clean, strlen(clean));
    for (char *c = clean; !is_text && *c != '\0'; c++) {
        if (*c < ' ' || *c > '~')
            *c = '?';
    }
    send_json(client, json_pack("{s:s, s:s, s:s}", "type", "error", "error", clean, "code", code));
}

static void update_reading(struct execd_pty_client *client)
{
    if (client->input_waits || client->reply_waits)
        http_websocket_pause(client->socket);
    else
        http_websocket_resume(client->socket);
}

/* What a client asked for. One that asks without taking the answers is not read from. */
static void replied(struct execd_pty_client *client)
{
    client->reply_waits = http_websocket_is_full(client->socket);
    update_reading(client);
}

static void send_output(struct execd_pty_client *client, enum frame_kind kind, const char *bytes,
                        size_t length)
{
    char channel = (char)kind;
    uv_buf_t parts[] = {
        uv_buf_init(&channel, 1),
        {.base = (char *)(uintptr_t)bytes, .len = length}, /* is not written to */
    };
    http_websocket_send_binary(client->socket, parts, ARRAY_LEN(parts));
}

/* The output so far, as far as it is kept: where it begins, and the bytes. */
static void send_replay(struct execd_pty_client *client)
{
    uv_buf_t parts[3];
    char head[9] = {FRAME_REPLAY};
    uint64_t offset = execd_pty_ring_get(&client->pty->ring, client->since, parts + 1);
    if (parts[1].len == 0)
        return;
    for (size_t i = 0; i < 8; i++)
        head[1 + i] = (char)(offset >> (56 - 8 * i));
    parts[0] = uv_buf_init(head, sizeof(head));
    http_websocket_send_binary(client->socket, parts, ARRAY_LEN(parts));
}

static void greet(struct execd_pty_client *client)
{
    const struct execd_pty *pty = client->pty;
    client->greeted = true;
    send_replay(client);
    send_json(client, json_pack("{s:s, s:s, s:s}", "type", "connected", "session_id", pty->id,
                                "mode", execd_pty_mode(pty)));
    if (pty->process != NULL && http_websocket_is_full(client->socket))
        execd_pty_process_pause(pty->process);
}

static void send_exit(struct execd_pty_client *client, const struct execd_exit *exit)
{
    json_t *object = json_pack("{s:s}", "type", "exit");
    execd_pty_add_exit(object, exit);
    send_json(client, object);
}

/* --- attaching and detaching ------------------------------------------------------------------ */

static void detach(struct execd_pty_client *client)
{
    struct execd_pty *pty = client->pty;
    client->pty = NULL;
    if (pty == NULL)
        return;
    pty->client = NULL;
    if (pty->process != NULL)
        execd_pty_process_resume(pty->process); /* nobody reads: the program runs on */
}

static void close_client(struct execd_pty_client *client, int code, const char *reason)
{
    detach(client);
    http_websocket_close(client->socket, code, reason);
}

void execd_pty_tell_deleted(struct execd_pty *pty)
{
    if (pty->client != NULL)
        send_error(pty->client, "SESSION_GONE", "the terminal was deleted");
}

/* --- from the program ------------------------------------------------------------------------- */

static void on_start(void *ctx)
{
    const struct execd_pty *pty = ctx;
    if (pty->client != NULL)
        greet(pty->client);
}

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct execd_pty *pty = ctx;
    struct execd_pty_client *client = pty->client;
    execd_pty_ring_add(&pty->ring, bytes, length);
    if (client == NULL)
        return;
    send_output(client, which == EXECD_STDERR ? FRAME_STDERR : FRAME_STDOUT, bytes, length);
    if (http_websocket_is_full(client->socket))
        execd_pty_process_pause(pty->process);
}

static void on_input_room(void *ctx)
{
    struct execd_pty_client *client = ((struct execd_pty *)ctx)->client;
    if (client == NULL)
        return;
    client->input_waits = false;
    update_reading(client);
}

static void on_input_lost(void *ctx)
{
    struct execd_pty_client *client = ((struct execd_pty *)ctx)->client;
    if (client != NULL)
        send_error(client, "STDIN_WRITE_FAILED", "the program has closed its input");
}

static void on_process_end(void *ctx, const struct execd_process_result *result)
{
    struct execd_pty *pty = ctx;
    struct execd_pty_client *client = pty->client;
    pty->process = NULL;
    if (result->started) {
        pty->has_exited = true;
        pty->exit = result->exit;
    }
    if (client != NULL && result->started) {
        send_exit(client, &result->exit);
        close_client(client, HTTP_WEBSOCKET_NORMAL, "process exited");
    } else if (client != NULL) {
        send_error(client, "START_FAILED", result->error.message);
        close_client(client, CLOSE_SERVER_ERROR, "START_FAILED");
    }
    execd_pty_became_idle(pty);
}

static const struct execd_pty_process_events process_events = {
    .on_start = on_start,
    .on_output = on_output,
    .on_input_room = on_input_room,
    .on_input_lost = on_input_lost,
    .on_end = on_process_end,
};

/* --- from the client -------------------------------------------------------------------------- */

static void take_input(struct execd_pty_client *client, const struct execd_pty_message *message)
{
    struct execd_pty_process *process = client->pty->process;
    struct error err = ERROR_INIT;
    int r = message->type == EXECD_PTY_EOF
                ? execd_pty_process_end_input(process, &err)
                : execd_pty_process_write(process, message->bytes, message->length, &err);
    if (r < 0) {
        send_error(client, "STDIN_WRITE_FAILED", err.message);
        replied(client);
    } else if (execd_pty_process_is_full(process)) {
        client->input_waits = true;
        update_reading(client);
    }
}

static void take_message(struct execd_pty_client *client, const struct execd_pty_message *message)
{
    struct execd_pty *pty = client->pty;
    switch (message->type) {
    case EXECD_PTY_STDIN:
    case EXECD_PTY_EOF:
        take_input(client, message);
        break;
    case EXECD_PTY_RESIZE:
        pty->request.cols = message->cols;
        pty->request.rows = message->rows;
        execd_pty_process_resize(pty->process, message->cols, message->rows);
        break;
    case EXECD_PTY_SIGNAL:
        execd_pty_process_signal(pty->process, message->signal);
        break;
    case EXECD_PTY_PING:
        send_json(client, json_pack("{s:s}", "type", "pong"));
        replied(client);
        break;
    case EXECD_PTY_NOTHING:
        break;
    }
}

static void on_message(void *ctx, bool text, const char *bytes, size_t length)
{
    struct execd_pty_client *client = ctx;
    struct execd_pty_message message;
    struct error err = ERROR_INIT;
    if (execd_pty_message_parse(text, bytes, length, &message, &err) < 0) {
        send_error(client, "INVALID_FRAME", err.message);
        replied(client);
        return;
    }
    take_message(client, &message);
    execd_pty_message_done(&message);
}

static void on_drain(void *ctx)
{
    struct execd_pty_client *client = ctx;
    client->reply_waits = false;
    update_reading(client);
    if (client->pty->process != NULL)
        execd_pty_process_resume(client->pty->process);
}

static void on_close(void *ctx, int code)
{
    (void)code;
    struct execd_pty_client *client = ctx;
    struct execd_ptys *ptys = client->ptys;
    detach(client);
    free(client);
    execd_ptys_socket_closed(ptys);
}

static const struct http_websocket_events socket_events = {
    .on_message = on_message,
    .on_drain = on_drain,
    .on_close = on_close,
};

/* --- GET /pty/{id}/ws ------------------------------------------------------------------------- */

struct wishes {
    bool pipes;
    bool takeover;
    bool start; /* a shell, if none runs */
    uint64_t since;
};

/* Lenient, as ever: what cannot be read counts as not given. */
static struct wishes read_wishes(const char *text)
{
    struct wishes wishes = {.start = true};
    struct url_query query;
    if (url_query_parse(text, &query) < 0)
        return wishes;
    wishes.pipes = str_equal(url_query_find(&query, "pty"), "0");
    wishes.takeover = str_equal(url_query_find(&query, "takeover"), "1");
    wishes.start = !str_equal(url_query_find(&query, "start"), "0");
    (void)str_to_u64(url_query_find(&query, "since"), 0, UINT64_MAX, &wishes.since);
    url_query_done(&query);
    return wishes;
}

/* Nothing runs and nothing shall: the output that is kept, and how it ended. */
static void show_and_close(struct execd_pty_client *client)
{
    const struct execd_pty *pty = client->pty;
    greet(client);
    if (pty->has_exited)
        send_exit(client, &pty->exit);
    close_client(client, HTTP_WEBSOCKET_NORMAL,
                 pty->has_exited ? "process exited" : "never started");
}

static void start_process(struct execd_pty_client *client, bool pipes)
{
    struct execd_pty *pty = client->pty;
    struct error err = ERROR_INIT;
    pty->pipes = pipes;
    pty->process =
        execd_pty_process_start(pty->ptys->execd, &pty->request, pipes, &process_events, pty, &err);
    if (pty->process != NULL)
        return; /* on_start() greets */
    send_error(client, "START_FAILED", err.message);
    close_client(client, CLOSE_SERVER_ERROR, "START_FAILED");
}

static void attach(struct execd_pty *pty, struct http_exchange *exchange,
                   const struct wishes *wishes)
{
    if (pty->client != NULL)
        close_client(pty->client, CLOSE_TAKEN_OVER, "TAKEN_OVER");
    struct execd_pty_client *client = mem_alloc(sizeof(*client));
    client->ptys = pty->ptys;
    client->ptys->socket_count++;
    client->pty = pty;
    client->since = wishes->since;
    client->socket = http_websocket_start(exchange, NULL, &socket_events, client);
    pty->client = client;
    if (pty->process == NULL && !wishes->start)
        show_and_close(client);
    else if (pty->process == NULL)
        start_process(client, wishes->pipes);
    else if (execd_pty_process_is_started(pty->process))
        greet(client);
}

void execd_pty_handle_socket(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    struct execd *execd = ctx;
    struct execd_pty *pty = execd_pty_find(execd, match, exchange);
    if (pty == NULL || !http_websocket_check(exchange))
        return;
    struct wishes wishes = read_wishes(http_exchange_query(exchange));
    if (pty->client != NULL && !wishes.takeover)
        http_exchange_reply_error(exchange, 409, "ALREADY_CONNECTED",
                                  "another client is attached to this terminal; takeover=1 would "
                                  "take its place");
    else if (execd->ending)
        http_exchange_reply_error(exchange, 503, "RUNTIME_ERROR", "the sandbox is ending");
    else if (pty->ptys->socket_count >= SOCKETS_MAX)
        http_exchange_reply_error(exchange, 503, "RUNTIME_ERROR",
                                  "%d WebSockets of terminals are open, which is the limit",
                                  SOCKETS_MAX);
    else
        attach(pty, exchange, &wishes);
}
