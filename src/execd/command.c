/* A command lives as long as its process or its answer, whichever is longer; on_process_end() and
 * on_close() clear their pointer and the last one frees it. */
#include "execd/command.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "execd/command_request.h"
#include "execd/lines.h"
#include "execd/process.h"
#include "execd/reply.h"
#include "http/sse.h"

#define PING_MS 3000
/* Events of one read are sent together. A line of EXECD_LINE_MAX grows to six times its size when
 * every byte needs an escape, plus the frame of the event. */
#define EVENTS_SEND_BYTES (64 * 1024)
#define EVENTS_MAX        (EVENTS_SEND_BYTES + 6 * EXECD_LINE_MAX + 1024)

struct execd_command {
    struct execd *execd;
    struct execd_command *next;
    struct execd_command *previous;
    char id[ID_HEX_LEN + 1];
    struct execd_process *process;  /* NULL once ended */
    struct http_exchange *exchange; /* NULL once closed */
    uv_timer_t ping;
    struct execd_lines lines[2]; /* by enum execd_output */
    struct buf events;           /* formatted, not sent yet */
    const char *event_type;      /* of the line being formatted */
};

static void link_command(struct execd *execd, struct execd_command *command)
{
    command->execd = execd;
    command->next = execd->commands;
    if (command->next != NULL)
        command->next->previous = command;
    execd->commands = command;
    execd->command_count++;
}

static void unlink_command(struct execd_command *command)
{
    struct execd *execd = command->execd;
    if (command->next != NULL)
        command->next->previous = command->previous;
    if (command->previous != NULL)
        command->previous->next = command->next;
    else
        execd->commands = command->next;
    execd->command_count--;
}

static void free_command(uv_handle_t *handle)
{
    struct execd_command *command = handle->data;
    execd_lines_done(&command->lines[EXECD_STDOUT]);
    execd_lines_done(&command->lines[EXECD_STDERR]);
    buf_done(&command->events);
    free(command);
}

static void release_if_over(struct execd_command *command)
{
    if (command->process != NULL || command->exchange != NULL)
        return;
    unlink_command(command);
    uv_close((uv_handle_t *)&command->ping, free_command);
    execd_end_check(command->execd);
}

/* --- output to events ------------------------------------------------------------------------- */

static void send_events(struct execd_command *command)
{
    if (command->events.length == 0)
        return;
    http_exchange_write(command->exchange, command->events.data, command->events.length);
    buf_done(&command->events);
}

static void on_line(void *ctx, const char *text, size_t length)
{
    struct execd_command *command = ctx;
    http_sse_format_text(&command->events, command->event_type, text, length);
    if (command->events.length >= EVENTS_SEND_BYTES)
        send_events(command);
}

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct execd_command *command = ctx;
    if (command->exchange == NULL)
        return;
    command->event_type = which == EXECD_STDOUT ? "stdout" : "stderr";
    execd_lines_feed(&command->lines[which], bytes, length, on_line, command);
    send_events(command);
    if (http_exchange_is_full(command->exchange))
        execd_process_pause(command->process);
}

static void on_drain(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct execd_command *command = ctx;
    if (command->process != NULL)
        execd_process_resume(command->process);
}

static void on_ping(uv_timer_t *timer)
{
    struct execd_command *command = timer->data;
    if (!http_exchange_is_full(command->exchange))
        http_sse_send_text(command->exchange, "ping", "pong", 4);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* "signal: killed", in the words that clients know. */
static void describe_signal(int number, char *text, size_t size)
{
    const char *name = sigdescr_np(number);
    if (name == NULL)
        snprintf(text, size, "signal: signal %d", number);
    else
        snprintf(text, size, "signal: %s", name);
    for (char *c = text; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
}

static void send_result(struct execd_command *command, const struct execd_process_result *result)
{
    char value[16] = "-1";
    char traceback[64];
    if (!result->started) {
        http_sse_send_error(command->exchange, "CommandExecError", result->error.message,
                            result->error.message);
    } else if (result->exit.signal != 0) {
        describe_signal(result->exit.signal, traceback, sizeof(traceback));
        http_sse_send_error(command->exchange, "CommandExecError", value, traceback);
    } else if (result->exit.code != 0) {
        snprintf(value, sizeof(value), "%d", result->exit.code);
        snprintf(traceback, sizeof(traceback), "exit status %d", result->exit.code);
        http_sse_send_error(command->exchange, "CommandExecError", value, traceback);
    } else {
        http_sse_send_complete(command->exchange, (int64_t)result->duration_ms);
    }
}

static void on_process_end(void *ctx, const struct execd_process_result *result)
{
    struct execd_command *command = ctx;
    command->process = NULL;
    uv_timer_stop(&command->ping);
    if (command->exchange != NULL) {
        command->event_type = "stdout";
        execd_lines_finish(&command->lines[EXECD_STDOUT], on_line, command);
        command->event_type = "stderr";
        execd_lines_finish(&command->lines[EXECD_STDERR], on_line, command);
        send_events(command);
        send_result(command, result);
        http_exchange_end(command->exchange);
    }
    release_if_over(command);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct execd_command *command = ctx;
    command->exchange = NULL;
    uv_timer_stop(&command->ping);
    execd_lines_done(&command->lines[EXECD_STDOUT]);
    execd_lines_done(&command->lines[EXECD_STDERR]);
    if (command->process != NULL)
        execd_process_resume(command->process); /* nobody listens: read and drop */
    release_if_over(command);
}

void execd_commands_kill(struct execd *execd)
{
    for (struct execd_command *command = execd->commands; command; command = command->next) {
        if (command->process != NULL)
            execd_process_kill(command->process, SIGKILL);
    }
}

/* --- the start -------------------------------------------------------------------------------- */

static void begin_stream(struct execd_command *command)
{
    http_exchange_on_close(command->exchange, on_close, command);
    http_exchange_on_drain(command->exchange, on_drain, command);
    http_sse_begin(command->exchange);
    http_sse_format_text(&command->events, "init", command->id, ID_HEX_LEN);
    http_sse_format_text(&command->events, "ping", "pong", 4);
    send_events(command);
    uv_timer_start(&command->ping, on_ping, PING_MS, PING_MS);
}

/* bash where the command's own PATH or the usual places have it, else sh. */
static struct execd_process *start_shell(struct execd_command *command,
                                         const struct execd_command_request *request,
                                         struct error *err)
{
    static const struct execd_process_events events = {
        .on_output = on_output,
        .on_end = on_process_end,
    };
    const char *search = execd_env_find(&request->env, "PATH");
    struct execd_programs programs;
    execd_programs_init(&programs);
    const char *const shells[] = {"bash", "sh"};
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (search != NULL)
            execd_programs_add(&programs, shells[i], search);
        execd_programs_add(&programs, shells[i], EXECD_PATH_DEFAULT);
    }
    char option[] = "-c";
    char *argv[] = {NULL, option, request->command, NULL};
    struct execd_spawn spawn = {
        .programs = &programs,
        .argv = argv,
        .envp = execd_env_array(&request->env),
        .cwd = request->cwd,
        .credentials = request->has_credentials ? &request->credentials : NULL,
    };
    struct execd_process *process =
        execd_process_start(command->execd, &spawn, request->timeout_ms, &events, command, err);
    execd_programs_done(&programs);
    return process;
}

static int start_command(struct execd *execd, struct http_exchange *exchange,
                         const struct execd_command_request *request, struct error *err)
{
    if (execd->ending)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox is ending");
    if (execd->command_count >= EXECD_COMMANDS_MAX)
        return error_set(err, ERR_UNAVAILABLE, "%d commands are running, which is the limit",
                         EXECD_COMMANDS_MAX);
    struct execd_command *command = mem_alloc(sizeof(*command));
    link_command(execd, command);
    uv_timer_init(execd->loop, &command->ping);
    command->ping.data = command;
    id_new_hex(command->id);
    execd_lines_init(&command->lines[EXECD_STDOUT], EXECD_LINE_MAX);
    execd_lines_init(&command->lines[EXECD_STDERR], EXECD_LINE_MAX);
    buf_init(&command->events, EVENTS_MAX);
    command->process = start_shell(command, request, err);
    if (command->process == NULL) {
        release_if_over(command);
        return -1;
    }
    command->exchange = exchange;
    begin_stream(command);
    return 0;
}

static void on_body(struct http_exchange *exchange, const char *body, size_t length, void *ctx)
{
    struct execd *execd = ctx;
    struct error err = ERROR_INIT;
    struct execd_command_request request;
    if (execd_command_request_parse(execd, body, length, &request, &err) < 0) {
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
        return;
    }
    if (start_command(execd, exchange, &request, &err) < 0) {
        if (err.code != ERR_UNAVAILABLE)
            err.code = ERR_INTERNAL; /* the kernel's refusal is not the client's mistake */
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
    }
    execd_command_request_done(&request);
}

void execd_command_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *ctx)
{
    (void)match;
    http_exchange_collect(exchange, EXECD_COMMAND_BODY_MAX, on_body, ctx);
}
