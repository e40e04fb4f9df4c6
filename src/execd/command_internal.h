/* What the files of commands share: command.c (a command's life), command_table.c (which there are,
 * and for how long), and one file for each thing that clients do with them. */
#pragma once

#include <sys/queue.h>
#include <time.h>

#include "base/id.h"
#include "execd/command.h"
#include "execd/event_stream.h"
#include "execd/process.h"
#include "execd/spool.h"

/* How many bytes between what was asked for and the first byte answered are not kept any more. */
#define EXECD_EVICTED_HEADER "EXECD-COMMANDS-EVICTED-BYTES"

struct execd_command_input;
struct execd_command_interrupt;
struct execd_command_reader;

TAILQ_HEAD(execd_command_list, execd_command);
TAILQ_HEAD(execd_command_readers, execd_command_reader);

struct execd_command {
    TAILQ_ENTRY(execd_command) by_start; /* while it is listed */
    TAILQ_ENTRY(execd_command) by_end;   /* while it is listed and has ended */
    struct execd_command *next_in_bucket;
    struct execd *execd;
    bool listed;  /* can be found by its id */
    size_t users; /* that still hold a pointer to it: readers, requests */

    char id[ID_HEX_LEN + 1];
    char *content; /* as the client wrote it */
    bool background;
    struct timespec started_at;
    struct execd_process *process; /* NULL once ended */

    /* With `exited`. There may still be output to come, until `process` is NULL. */
    bool exited;
    struct timespec exited_at;
    struct execd_exit exit;
    uint64_t duration_ms;
    char *failure; /* why it could not be started; NULL when it was */

    struct execd_spool *spool;            /* NULL until there is output */
    struct execd_event_stream *starting;  /* background: who waits for the start */
    struct execd_command_readers readers; /* clients that get its events */
    size_t reader_count;
    struct execd_command_input *input;         /* NULL: closed, or never open */
    struct execd_command_interrupt *interrupt; /* NULL: nobody asked */

    /* What it counts for, once it has ended. */
    uint64_t ended_ms;
    uint64_t file_bytes;
    uint64_t memory_bytes;
};

struct execd_commands {
    struct execd *execd;
    struct execd_command *buckets[256]; /* by id */
    struct execd_command_list started;  /* all that are listed, the newest first */
    struct execd_command_list ended;    /* those that have, the oldest first */
    size_t running;
    size_t streams; /* clients that get events */
    size_t ended_count;
    size_t ended_files;
    uint64_t ended_file_bytes;
    uint64_t ended_memory_bytes;
    uv_timer_t forget; /* when the oldest is to go */
};

/* --- command_table.c -------------------------------------------------------------------------- */

/* Listed under a new id, and running from the table's view. NULL when too many are. */
struct execd_command *execd_command_new(struct execd *execd, struct error *err);
struct execd_command *execd_command_find(const struct execd *execd, const char *id);
/* The one that `{id}` of the route names; NULL when there is none, which was then answered. */
struct execd_command *execd_command_find_route(const struct execd *execd,
                                               struct http_exchange *exchange,
                                               const struct http_route_match *match);
void execd_command_reply_unknown(const struct execd *execd, struct http_exchange *exchange,
                                 const char *id);

void execd_command_hold(struct execd_command *command);
void execd_command_release(struct execd_command *command); /* it may be gone afterwards */

/* process is NULL now: from here on it is kept only as long as the limits allow. It may be gone
 * afterwards, unless it is held. */
void execd_command_ended(struct execd_command *command);
/* It never came to run: as if it had not been. */
void execd_command_discard(struct execd_command *command);

/* --- command.c -------------------------------------------------------------------------------- */

/* How it ended, in the form that event streams want. With `exited`. */
void execd_command_result(const struct execd_command *command, struct execd_process_result *ret);

/* --- command_stream.c ------------------------------------------------------------------------- */

/* Begin the answer: its events from `after` on (0: all). */
void execd_command_attach(struct execd_command *command, struct http_exchange *exchange,
                          uint64_t after, bool show_offsets);
/* These bytes, which begin at `offset`, were just recorded. */
void execd_command_feed_readers(struct execd_command *command, enum execd_output which,
                                const char *bytes, size_t length, uint64_t offset);
void execd_command_finish_readers(struct execd_command *command); /* process is NULL now */

/* --- command_input.c -------------------------------------------------------------------------- */

/* A pipe for the standard input of a command: *ret_read_end is for the new process. */
int execd_command_input_open(struct execd_command *command, int *ret_read_end, struct error *err);
/* Idempotent. Whoever is writing is told that the command took no more. */
void execd_command_input_close(struct execd_command *command);

/* --- command_interrupt.c ---------------------------------------------------------------------- */

void execd_command_interrupt_done(struct execd_command *command); /* it has exited */
