/* GET /command/{id}/logs: the recorded output, both outputs in one, from an offset to where it ends
 * at the time of the request. It is sent as fast as the client takes it, a few pieces per turn.
 * What is evicted before it was sent cannot be sent any more: the connection is cut then, so that
 * nobody takes a part for the whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/command_internal.h"
#include "execd/request.h"

#define PIECE_BYTES     (32 * 1024)
#define PIECES_PER_TURN 16

struct logs {
    struct http_exchange *exchange;
    struct execd_command *command;
    struct execd_spool_cursor cursor;
    uint64_t end;
    uv_idle_t turn;
};

/* --- sending ---------------------------------------------------------------------------------- */

/* One piece; false when the answer is over, one way or the other. */
static bool send_piece(struct logs *logs)
{
    enum execd_output which;
    const char *bytes;
    uint64_t left = logs->end - logs->cursor.offset;
    if (left == 0) {
        http_exchange_end(logs->exchange);
        return false;
    }
    size_t max = (size_t)MIN(left, (uint64_t)PIECE_BYTES);
    ssize_t n = execd_spool_read(logs->command->spool, &logs->cursor, max, &which, &bytes);
    if (n <= 0) {
        http_exchange_abort(logs->exchange);
        return false;
    }
    http_exchange_write(logs->exchange, bytes, (size_t)n);
    return true;
}

static void on_turn(uv_idle_t *idle)
{
    struct logs *logs = idle->data;
    for (int i = 0; i < PIECES_PER_TURN; i++) {
        if (http_exchange_is_full(logs->exchange) || !send_piece(logs)) {
            uv_idle_stop(idle);
            return;
        }
    }
}

static void on_drain(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct logs *logs = ctx;
    uv_idle_start(&logs->turn, on_turn);
}

static void free_logs(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct logs *logs = ctx;
    uv_close((uv_handle_t *)&logs->turn, free_logs);
    execd_command_release(logs->command);
}

static void set_number(struct http_exchange *exchange, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    http_exchange_set_header(exchange, name, text);
}

static void send_logs(struct http_exchange *exchange, struct execd_command *command,
                      uint64_t position)
{
    uint64_t end = execd_spool_total(command->spool);
    uint64_t from = MIN(MAX(position, execd_spool_oldest(command->spool)), end);
    struct execd_spool_cursor cursor;
    if (execd_spool_seek(command->spool, from, &cursor) < 0) {
        http_exchange_reply_error(exchange, 500, "RUNTIME_ERROR",
                                  "the recorded output cannot be read back");
        return;
    }
    http_exchange_set_header(exchange, "Content-Type", "text/plain; charset=utf-8");
    set_number(exchange, "EXECD-COMMANDS-TAIL-CURSOR", MAX(position, end));
    if (from > position)
        set_number(exchange, EXECD_EVICTED_HEADER, from - position);
    struct logs *logs = mem_alloc(sizeof(*logs));
    logs->exchange = exchange;
    logs->command = command;
    logs->cursor = cursor;
    logs->end = end;
    execd_command_hold(command);
    uv_idle_init(http_exchange_loop(exchange), &logs->turn);
    logs->turn.data = logs;
    http_exchange_on_close(exchange, on_close, logs);
    http_exchange_on_drain(exchange, on_drain, logs);
    http_exchange_begin(exchange, 200, (int64_t)(end - from));
    uv_idle_start(&logs->turn, on_turn);
}

/* --- the request ------------------------------------------------------------------------------ */

/* Published clients send nothing, or what they got; what is no number counts as 0. */
static int read_cursor(const char *text, uint64_t *ret)
{
    int64_t number = 0;
    int r = text == NULL ? 0 : str_to_i64(text, INT64_MIN, INT64_MAX, &number);
    if (r == -ERANGE || number < 0)
        return -EINVAL;
    *ret = (uint64_t)number;
    return 0;
}

void execd_command_handle_logs(struct http_exchange *exchange, const struct http_route_match *match,
                               void *ctx)
{
    struct execd_command *command = execd_command_find_route(ctx, exchange, match);
    if (command == NULL)
        return;
    struct url_query query;
    if (!execd_request_query(exchange, &query))
        return;
    uint64_t position = 0;
    const char *cursor = url_query_find(&query, "cursor");
    if (read_cursor(cursor, &position) < 0)
        http_exchange_reply_error(exchange, 400, "INVALID_REQUEST_BODY",
                                  "`cursor` must be a whole number from 0, not \"%.40s\"", cursor);
    else
        send_logs(exchange, command, position);
    url_query_done(&query);
}
