/* DELETE /command?id=ID. The first who asks has the signal sent, all who ask are answered when the
 * command has exited. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"
#include "execd/command_internal.h"
#include "execd/reply.h"
#include "execd/request.h"
#include "execd/session.h"

#define KILL_AFTER_MS 3000

struct waiter {
    TAILQ_ENTRY(waiter) link;
    struct execd_command_interrupt *interrupt;
    struct http_exchange *exchange;
};

struct execd_command_interrupt {
    struct execd_command *command;
    uv_timer_t timer;
    TAILQ_HEAD(, waiter) waiters;
};

static void on_kill_time(uv_timer_t *timer)
{
    const struct execd_command_interrupt *interrupt = timer->data;
    execd_process_kill(interrupt->command->process, SIGKILL);
}

static void begin(struct execd_command *command)
{
    struct execd_command_interrupt *interrupt = mem_alloc(sizeof(*interrupt));
    interrupt->command = command;
    TAILQ_INIT(&interrupt->waiters);
    uv_timer_init(command->execd->loop, &interrupt->timer);
    interrupt->timer.data = interrupt;
    uv_timer_start(&interrupt->timer, on_kill_time, KILL_AFTER_MS, 0);
    command->interrupt = interrupt;
    execd_process_kill(command->process, SIGTERM);
    execd_process_kill(command->process, SIGCONT); /* what is stopped hears of it, too */
}

static void remove_waiter(struct waiter *waiter)
{
    TAILQ_REMOVE(&waiter->interrupt->waiters, waiter, link);
    free(waiter);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    remove_waiter(ctx);
}

static void wait_for_exit(struct execd_command_interrupt *interrupt, struct http_exchange *exchange)
{
    struct waiter *waiter = mem_alloc(sizeof(*waiter));
    waiter->interrupt = interrupt;
    waiter->exchange = exchange;
    TAILQ_INSERT_TAIL(&interrupt->waiters, waiter, link);
    http_exchange_on_close(exchange, on_close, waiter);
}

static void free_interrupt(uv_handle_t *handle)
{
    free(handle->data);
}

void execd_command_interrupt_done(struct execd_command *command)
{
    struct execd_command_interrupt *interrupt = TAKE_PTR(command->interrupt);
    if (interrupt == NULL)
        return;
    struct waiter *waiter;
    while ((waiter = TAILQ_FIRST(&interrupt->waiters)) != NULL) {
        http_exchange_on_close(waiter->exchange, NULL, NULL);
        execd_reply_empty(waiter->exchange);
        remove_waiter(waiter);
    }
    uv_close((uv_handle_t *)&interrupt->timer, free_interrupt);
}

/* A session's run has the session's id, and nobody but that id to be known by. */
static void interrupt_session(struct execd *execd, struct http_exchange *exchange, const char *id)
{
    int r = execd_session_interrupt(execd, id);
    if (r == -ENOENT)
        execd_command_reply_unknown(execd, exchange, id);
    else if (r < 0)
        http_exchange_reply_error(exchange, 409, "RUNTIME_ERROR", "the session runs nothing now");
    else
        execd_reply_empty(exchange);
}

static void interrupt_command(struct execd *execd, struct http_exchange *exchange, const char *id)
{
    struct execd_command *command = execd_command_find(execd, id);
    if (command == NULL) {
        interrupt_session(execd, exchange, id);
        return;
    }
    if (command->exited) {
        http_exchange_reply_error(exchange, 409, "RUNTIME_ERROR",
                                  "the command is not running any more");
        return;
    }
    if (command->interrupt == NULL)
        begin(command);
    wait_for_exit(command->interrupt, exchange);
}

void execd_command_handle_interrupt(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *ctx)
{
    (void)match;
    struct url_query query;
    if (!execd_request_query(exchange, &query))
        return;
    const char *id = url_query_find(&query, "id");
    if (id == NULL || *id == '\0')
        http_exchange_reply_error(exchange, 400, "MISSING_QUERY", "`id` is required");
    else
        interrupt_command(ctx, exchange, id);
    url_query_done(&query);
}
