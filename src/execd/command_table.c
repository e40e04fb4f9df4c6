#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/command_internal.h"

/* Commands that finish one after another are not forgotten one by one. */
#define FORGET_STEP_MS UINT64_C(1000)

static void on_forget(uv_timer_t *timer);

/* --- the table -------------------------------------------------------------------------------- */

static struct execd_commands *get_table(struct execd *execd)
{
    struct execd_commands *table = execd->commands;
    if (table != NULL)
        return table;
    table = mem_alloc(sizeof(*table));
    table->execd = execd;
    TAILQ_INIT(&table->started);
    TAILQ_INIT(&table->ended);
    uv_timer_init(execd->loop, &table->forget);
    uv_unref((uv_handle_t *)&table->forget);
    table->forget.data = table;
    execd->commands = table;
    return table;
}

/* Ids are random: their first two digits are as good a hash as any. */
static struct execd_command **bucket_of(struct execd_commands *table, const char *id)
{
    int high = str_hex_value(id[0]);
    int low = high < 0 ? -1 : str_hex_value(id[1]);
    return &table->buckets[low < 0 ? 0 : high * 16 + low];
}

struct execd_command *execd_command_new(struct execd *execd, struct error *err)
{
    struct execd_commands *table = get_table(execd);
    if (table->running >= EXECD_COMMANDS_MAX) {
        error_set(err, ERR_UNAVAILABLE, "%d commands are running, which is the limit",
                  EXECD_COMMANDS_MAX);
        return NULL;
    }
    struct execd_command *command = mem_alloc(sizeof(*command));
    command->execd = execd;
    TAILQ_INIT(&command->readers);
    id_new_hex(command->id);
    struct execd_command **bucket = bucket_of(table, command->id);
    command->next_in_bucket = *bucket;
    *bucket = command;
    TAILQ_INSERT_HEAD(&table->started, command, by_start);
    command->listed = true;
    table->running++;
    return command;
}

struct execd_command *execd_command_find(const struct execd *execd, const char *id)
{
    if (execd->commands == NULL)
        return NULL;
    struct execd_command *command = *bucket_of(execd->commands, id);
    while (command != NULL && strcmp(command->id, id) != 0)
        command = command->next_in_bucket;
    return command;
}

void execd_command_reply_unknown(const struct execd *execd, struct http_exchange *exchange,
                                 const char *id)
{
    http_exchange_reply_error(exchange, 404, "CONTEXT_NOT_FOUND",
                              "there is no command \"%.64s\"; finished ones are kept for %llu s, "
                              "at most %d of them",
                              id, (unsigned long long)execd->keep_finished_ms / 1000,
                              EXECD_FINISHED_MAX);
}

struct execd_command *execd_command_find_route(const struct execd *execd,
                                               struct http_exchange *exchange,
                                               const struct http_route_match *match)
{
    const char *id = http_route_param(match, "id");
    struct execd_command *command = execd_command_find(execd, id);
    if (command == NULL)
        execd_command_reply_unknown(execd, exchange, id);
    return command;
}

bool execd_commands_are_over(const struct execd *execd)
{
    const struct execd_commands *table = execd->commands;
    return table == NULL || (table->running == 0 && table->streams == 0);
}

void execd_commands_kill(struct execd *execd)
{
    struct execd_command *command;
    if (execd->commands == NULL)
        return;
    TAILQ_FOREACH(command, &execd->commands->started, by_start)
    {
        if (command->process != NULL)
            execd_process_kill(command->process, SIGKILL);
    }
}

/* --- life ------------------------------------------------------------------------------------- */

static void unlist(struct execd_command *command)
{
    struct execd_commands *table = command->execd->commands;
    struct execd_command **link = bucket_of(table, command->id);
    while (*link != command)
        link = &(*link)->next_in_bucket;
    *link = command->next_in_bucket;
    TAILQ_REMOVE(&table->started, command, by_start);
    command->listed = false;
}

static void free_if_unused(struct execd_command *command)
{
    if (command->listed || command->users > 0 || command->process != NULL)
        return;
    execd_spool_free(command->spool);
    free(command->content);
    free(command->failure);
    free(command);
}

void execd_command_hold(struct execd_command *command)
{
    command->users++;
}

void execd_command_release(struct execd_command *command)
{
    command->users--;
    free_if_unused(command);
}

void execd_command_discard(struct execd_command *command)
{
    command->execd->commands->running--;
    unlist(command);
    free_if_unused(command);
}

/* --- forgetting ------------------------------------------------------------------------------- */

static void forget(struct execd_commands *table, struct execd_command *command)
{
    TAILQ_REMOVE(&table->ended, command, by_end);
    table->ended_count--;
    table->ended_files -= command->file_bytes > 0;
    table->ended_file_bytes -= command->file_bytes;
    table->ended_memory_bytes -= command->memory_bytes;
    unlist(command);
    free_if_unused(command);
}

static bool is_over_limits(const struct execd_commands *table)
{
    return table->ended_count > EXECD_FINISHED_MAX ||
           table->ended_memory_bytes > EXECD_FINISHED_MEMORY_MAX;
}

static bool is_over_file_limits(const struct execd_commands *table)
{
    return table->ended_files > EXECD_FINISHED_FILES_MAX ||
           table->ended_file_bytes > EXECD_FINISHED_FILE_BYTES_MAX;
}

static void set_timer(struct execd_commands *table)
{
    const struct execd_command *oldest = TAILQ_FIRST(&table->ended);
    if (oldest == NULL || uv_is_active((uv_handle_t *)&table->forget))
        return;
    uint64_t now = uv_now(table->execd->loop);
    uint64_t due = oldest->ended_ms + table->execd->keep_finished_ms;
    uv_timer_start(&table->forget, on_forget, due > now ? MAX(due - now, FORGET_STEP_MS) : 0, 0);
}

static void forget_some(struct execd_commands *table)
{
    uint64_t now = uv_now(table->execd->loop);
    struct execd_command *command = TAILQ_FIRST(&table->ended);
    while (command != NULL) {
        struct execd_command *next = TAILQ_NEXT(command, by_end);
        bool due = now - command->ended_ms >= table->execd->keep_finished_ms;
        if (due || is_over_limits(table) || (is_over_file_limits(table) && command->file_bytes > 0))
            forget(table, command);
        else if (!is_over_file_limits(table))
            break; /* what comes after it is younger */
        command = next;
    }
    set_timer(table);
}

static void on_forget(uv_timer_t *timer)
{
    struct execd_commands *table = timer->data;
    forget_some(table);
    if (TAILQ_EMPTY(&table->ended))
        malloc_trim(0); /* give back what many small blocks took */
}

void execd_command_ended(struct execd_command *command)
{
    struct execd *execd = command->execd;
    struct execd_commands *table = execd->commands;
    table->running--;
    command->ended_ms = uv_now(execd->loop);
    command->file_bytes = execd_spool_file_bytes(command->spool);
    command->memory_bytes =
        sizeof(*command) + strlen(command->content) + execd_spool_memory_bytes(command->spool);
    TAILQ_INSERT_TAIL(&table->ended, command, by_end);
    table->ended_count++;
    table->ended_files += command->file_bytes > 0;
    table->ended_file_bytes += command->file_bytes;
    table->ended_memory_bytes += command->memory_bytes;
    forget_some(table);
    execd_end_check(execd);
}
