/* A command lives as long as its process or its answer, whichever is longer; on_process_end() and
 * on_stream_close() clear their pointer and the last one frees it. */
#include "execd/command.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "execd/command_request.h"
#include "execd/event_stream.h"
#include "execd/process.h"
#include "execd/reply.h"

struct execd_command {
    struct execd *execd;
    struct execd_command *next;
    struct execd_command *previous;
    char id[ID_HEX_LEN + 1];
    struct execd_process *process;     /* NULL once ended */
    struct execd_event_stream *stream; /* NULL once closed */
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

static void release_if_over(struct execd_command *command)
{
    if (command->process != NULL || command->stream != NULL)
        return;
    struct execd *execd = command->execd;
    unlink_command(command);
    free(command);
    execd_end_check(execd);
}

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct execd_command *command = ctx;
    if (command->stream == NULL)
        return;
    execd_event_stream_output(command->stream, which, bytes, length);
    if (execd_event_stream_is_full(command->stream))
        execd_process_pause(command->process);
}

static void on_stream_drain(void *ctx)
{
    struct execd_command *command = ctx;
    if (command->process != NULL)
        execd_process_resume(command->process);
}

static void on_process_end(void *ctx, const struct execd_process_result *result)
{
    struct execd_command *command = ctx;
    command->process = NULL;
    if (command->stream != NULL)
        execd_event_stream_finish(command->stream, result);
    release_if_over(command);
}

static void on_stream_close(void *ctx)
{
    struct execd_command *command = ctx;
    command->stream = NULL;
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
        .in_fd = -1,
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
    id_new_hex(command->id);
    command->process = start_shell(command, request, err);
    if (command->process == NULL) {
        release_if_over(command);
        return -1;
    }
    static const struct execd_event_stream_events events = {
        .on_drain = on_stream_drain,
        .on_close = on_stream_close,
    };
    command->stream = execd_event_stream_start(exchange, command->id, &events, command);
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
