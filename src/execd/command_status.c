/* What is known of commands: one by its id, or all of them. */
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "execd/command_internal.h"
#include "http/json.h"

#define LISTED_CONTENT_MAX 256
#define NEVER_RAN          255 /* exit code of what could not be started, as clients know it */

static json_t *time_to_json(const struct timespec *time)
{
    char text[CLOCK_RFC3339_MAX];
    clock_format_rfc3339_ns(time->tv_sec, (uint32_t)time->tv_nsec, text);
    return json_string(text);
}

static int exit_code(const struct execd_command *command)
{
    if (command->failure != NULL)
        return NEVER_RAN;
    return command->exit.signal != 0 ? -1 : command->exit.code;
}

static void add_exit(json_t *status, const struct execd_command *command)
{
    struct execd_process_result result;
    char text[EXECD_RESULT_TEXT_MAX];
    execd_command_result(command, &result);
    execd_result_describe(&result, text);
    json_object_set_new(status, "exit_code", json_integer(exit_code(command)));
    if (text[0] != '\0')
        json_object_set_new(status, "error", json_string(text));
    json_object_set_new(status, "finished_at", time_to_json(&command->exited_at));
}

/* The text of the command up to so many bytes, cut before a character that does not fit. */
static json_t *content_to_json(const char *content, size_t max)
{
    size_t length = strnlen(content, max + 1);
    if (length > max) {
        length = max;
        while (length > 0 && ((unsigned char)content[length] & 0xc0) == 0x80)
            length--;
    }
    return json_stringn(content, length);
}

static json_t *status_to_json(const struct execd_command *command, size_t content_max)
{
    json_t *status = json_object();
    json_object_set_new(status, "id", json_string(command->id));
    json_object_set_new(status, "content", content_to_json(command->content, content_max));
    json_object_set_new(status, "running", json_boolean(!command->exited));
    json_object_set_new(status, "background", json_boolean(command->background));
    json_object_set_new(status, "output_bytes",
                        json_integer((json_int_t)execd_spool_total(command->spool)));
    json_object_set_new(status, "started_at", time_to_json(&command->started_at));
    if (command->exited)
        add_exit(status, command);
    return status;
}

void execd_command_handle_status(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *ctx)
{
    const struct execd_command *command = execd_command_find_route(ctx, exchange, match);
    if (command != NULL)
        http_exchange_reply_json(exchange, 200, status_to_json(command, strlen(command->content)));
}

void execd_command_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *ctx)
{
    (void)match;
    const struct execd *execd = ctx;
    json_t *list = json_array();
    const struct execd_command *command;
    if (execd->commands != NULL) {
        TAILQ_FOREACH(command, &execd->commands->started, by_start)
        {
            json_array_append_new(list, status_to_json(command, LISTED_CONTENT_MAX));
        }
    }
    http_exchange_reply_json(exchange, 200, json_pack("{s:o}", "commands", list));
}
