/* From the request to the end of the process. on_output() records first and then feeds the clients
 * that are up to date; those that are not read from the record, see command_stream.c. */
#include "execd/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/command_internal.h"
#include "execd/command_request.h"
#include "execd/reply.h"

/* --- the process ------------------------------------------------------------------------------ */

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct execd_command *command = ctx;
    struct execd *execd = command->execd;
    if (command->spool == NULL)
        command->spool = execd_spool_new(execd->spool_bytes, execd_env_find(&execd->env, "TMPDIR"));
    uint64_t offset = execd_spool_total(command->spool);
    execd_spool_append(command->spool, which, bytes, length);
    execd_command_feed_readers(command, which, bytes, length, offset);
}

void execd_command_result(const struct execd_command *command, struct execd_process_result *ret)
{
    *ret = (struct execd_process_result){
        .started = command->failure == NULL,
        .exit = command->exit,
        .duration_ms = command->duration_ms,
    };
    if (command->failure != NULL)
        snprintf(ret->error.message, sizeof(ret->error.message), "%s", command->failure);
}

static void on_start(void *ctx)
{
    struct execd_command *command = ctx;
    if (command->starting == NULL)
        return;
    const struct execd_process_result started = {.started = true};
    execd_event_stream_finish(command->starting, &started);
}

static void on_exit_of_leader(void *ctx, const struct execd_process_result *result)
{
    struct execd_command *command = ctx;
    command->exited = true;
    clock_gettime(CLOCK_REALTIME, &command->exited_at);
    command->exit = result->exit;
    command->duration_ms = result->duration_ms;
    if (!result->started) {
        command->failure = mem_dup(result->error.message);
        if (command->starting != NULL)
            execd_event_stream_finish(command->starting, result);
    }
    execd_command_input_close(command);
    execd_command_interrupt_done(command);
}

static void on_process_end(void *ctx, const struct execd_process_result *result)
{
    (void)result; /* known from the exit */
    struct execd_command *command = ctx;
    command->process = NULL;
    execd_command_finish_readers(command);
    execd_command_ended(command);
}

/* --- the start -------------------------------------------------------------------------------- */

/* The shell for a command: bash where the command's own PATH or the usual places have it, else sh.
 * Of `argv`, the program itself, found by the same PATH. */
static void find_programs(const struct execd_command_request *request,
                          struct execd_programs *programs)
{
    const char *search = execd_env_find(&request->env, "PATH");
    const char *const shells[] = {"bash", "sh"};
    execd_programs_init(programs);
    if (request->argv.count > 0) {
        execd_programs_add(programs, request->argv.items[0],
                           search != NULL ? search : EXECD_PATH_DEFAULT);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (search != NULL)
            execd_programs_add(programs, shells[i], search);
        execd_programs_add(programs, shells[i], EXECD_PATH_DEFAULT);
    }
}

static struct execd_process *start_shell(struct execd_command *command,
                                         const struct execd_command_request *request, int in_fd,
                                         struct error *err)
{
    static const struct execd_process_events foreground = {
        .on_exit = on_exit_of_leader,
        .on_output = on_output,
        .on_end = on_process_end,
    };
    static const struct execd_process_events background = {
        .on_start = on_start,
        .on_exit = on_exit_of_leader,
        .on_output = on_output,
        .on_end = on_process_end,
    };
    struct execd_programs programs;
    find_programs(request, &programs);
    char option[] = "-c";
    char *shell_argv[] = {NULL, option, request->command, NULL};
    struct execd_spawn spawn = {
        .programs = &programs,
        .argv = request->argv.count > 0 ? request->argv.items : shell_argv,
        .envp = execd_env_array(&request->env),
        .cwd = request->cwd,
        .credentials = request->has_credentials ? &request->credentials : NULL,
        .in_fd = in_fd,
    };
    struct execd_process *process =
        request->background
            ? execd_process_start_joined(command->execd, &spawn, request->timeout_ms, &background,
                                         command, err)
            : execd_process_start(command->execd, &spawn, request->timeout_ms, &foreground, command,
                                  err);
    execd_programs_done(&programs);
    return process;
}

static int start_process(struct execd_command *command, struct execd_command_request *request,
                         struct error *err)
{
    AUTO_CLOSE int in_fd = -1;
    if (request->input && execd_command_input_open(command, &in_fd, err) < 0)
        return -1;
    clock_gettime(CLOCK_REALTIME, &command->started_at);
    command->process = start_shell(command, request, in_fd, err);
    if (command->process == NULL) {
        execd_command_input_close(command);
        return -1;
    }
    command->background = request->background;
    command->content = TAKE_PTR(request->command);
    return 0;
}

/* --- the answer to the start of a background command ------------------------------------------ */

static void on_starting_drain(void *ctx)
{
    (void)ctx; /* two events fit into any queue */
}

static void on_starting_close(void *ctx)
{
    struct execd_command *command = ctx;
    command->starting = NULL;
    command->execd->commands->streams--;
    struct execd *execd = command->execd;
    execd_command_release(command);
    execd_end_check(execd);
}

static void answer_when_started(struct execd_command *command, struct http_exchange *exchange)
{
    static const struct execd_event_stream_events events = {
        .on_drain = on_starting_drain,
        .on_close = on_starting_close,
    };
    execd_command_hold(command);
    command->execd->commands->streams++;
    command->starting = execd_event_stream_start(exchange, command->id, &events, command);
}

/* --- the request ------------------------------------------------------------------------------ */

static int start_command(struct execd *execd, struct http_exchange *exchange,
                         struct execd_command_request *request, struct error *err)
{
    if (execd->ending)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox is ending");
    struct execd_command *command = execd_command_new(execd, err);
    if (command == NULL)
        return -1;
    if (start_process(command, request, err) < 0) {
        execd_command_discard(command);
        return -1;
    }
    if (command->background)
        answer_when_started(command, exchange);
    else
        execd_command_attach(command, exchange, 0, request->offsets);
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
