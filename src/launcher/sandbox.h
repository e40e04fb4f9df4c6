/* The sandboxes there are, each in one of three states:
 *
 *   QUEUED    asked for; waits for a slot
 *   RUNNING   execd runs, or stands still when it was frozen; CREATE was answered
 *   EXITED    its process is gone; record and files stay until REMOVE
 *
 * Only RUNNING and EXITED ones are shown to servers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/cgroup.h"
#include "launcher/loop.h"
#include "launcher/meter.h"
#include "launcher/peer.h"
#include "launcher/record.h"
#include "launcher/slot_process.h"
#include "runtime/native/message.h"

#define SANDBOX_QUEUE_MAX 256

struct launcher;
struct slot;

enum sandbox_state { SANDBOX_QUEUED, SANDBOX_RUNNING, SANDBOX_EXITED };

/* What was asked for and is not there: freezing takes the kernel a moment. */
enum sandbox_change { SANDBOX_STEADY, SANDBOX_FREEZING, SANDBOX_THAWING };

struct sandbox {
    struct launcher *launcher;
    enum sandbox_state state;
    struct record record; /* complete from RUNNING on */
    struct slot_shape shape;
    struct meter meter;
    int pidfd;
    struct loop_source exit_source;
    struct slot *slot;                /* QUEUED: one is made to order for it */
    enum message_exit_reason killing; /* KILLED or DEADLINE once we sent SIGKILL for that reason */
    bool has_directory;               /* while it begins: the slot's directory has its name */
    uint64_t network_print; /* of the process we started it with; 0: of a former launcher */
    int counters_fd;        /* link_open_counters(); -1: of mode none, or it has ended */
    bool retried;           /* the slot made to order for it was killed before it could say why */
    struct peer_reply create_reply;
    uint64_t asked_ms; /* monotonic */
    bool queued;
    struct sandbox *queue_next;
    enum sandbox_change change;
    struct peer_reply change_reply;
    uint64_t change_since_ms;
    struct sandbox *change_next;
};

struct sandboxes {
    struct sandbox **items; /* sorted by id */
    size_t count;
    size_t capacity;
    size_t running;
    struct sandbox *queue_head;
    struct sandbox *queue_tail;
    size_t queued;
    struct loop_timer deadline_timer;
    uint64_t next_deadline_ms; /* what the timer waits for; 0: nothing */
    struct sandbox *changing;
    struct loop_timer change_timer;
    struct log_limit complaints; /* about requests that cannot be met */
};

void sandbox_init_all(struct launcher *launcher);
void sandbox_free_all(struct launcher *launcher); /* forgets them; processes and files stay */

struct sandbox *sandbox_find(struct launcher *launcher, const char *id);

/* Requests. Each is answered, now or later. */
void sandbox_create(struct launcher *launcher, const struct message_create *request,
                    struct peer_reply reply);
void sandbox_kill(struct launcher *launcher, const char *id, struct peer_reply reply);
void sandbox_remove(struct launcher *launcher, const char *id, struct peer_reply reply);
void sandbox_list(struct launcher *launcher, const char *after, struct message_sandboxes *page);
void sandbox_stat(struct launcher *launcher, const char *after, struct message_usage_page *page);
void sandbox_set_limits(struct launcher *launcher, const char *id,
                        const struct message_limits *limits, struct peer_reply reply);
void sandbox_set_deadline(struct launcher *launcher, const char *id, uint64_t deadline_unix_ms,
                          struct peer_reply reply);
void sandbox_freeze(struct launcher *launcher, const char *id, bool frozen,
                    struct peer_reply reply);
/* family: 4 or 6. Of a frozen one as well: its kernel part answers, and it may thaw. */
void sandbox_socket(struct launcher *launcher, const char *id, unsigned family,
                    struct peer_reply reply);

/* From the slots. A READY slot becomes it (it leaves the queue); it cannot be made; the slot made
 * to order for it vanished without a word. */
void sandbox_begin(struct sandbox *sandbox, struct slot *slot);
void sandbox_failed(struct sandbox *sandbox, const struct error *err);
void sandbox_bereft(struct sandbox *sandbox, const struct error *err);

/* From a start: a sandbox of a former launcher. pidfd -1: it has ended. */
int sandbox_adopt(struct launcher *launcher, const struct record *record, int pidfd,
                  struct error *err);

/* From here on: shared by the files that implement the above. */

size_t sandbox_position_after(const struct launcher *launcher, const char *id); /* "": the first */
struct cgroup_limits sandbox_cgroup_limits(const struct message_limits *limits);

#define SANDBOX_SOCKET_MAX sizeof(((struct message_sandbox *)0)->socket)
void sandbox_socket_path(const struct sandbox *sandbox, char ret[SANDBOX_SOCKET_MAX]);
unsigned sandbox_limits_hit(const struct sandbox *sandbox);
uint32_t sandbox_oom_kills(const struct sandbox *sandbox);
void sandbox_describe(const struct sandbox *sandbox, struct message_sandbox *ret);

/* Its directory; the caller closes it. Negative with err filled. */
int sandbox_open_directory(const struct sandbox *sandbox, struct error *err);
int sandbox_write_record(const struct sandbox *sandbox, struct error *err);

/* SIGKILL, also when it is frozen. */
void sandbox_end(struct sandbox *sandbox, enum message_exit_reason reason);

/* The one with this id, if it can be changed now; else the request is answered and it is NULL. */
struct sandbox *sandbox_find_changeable(struct launcher *launcher, const char *id,
                                        struct peer_reply reply);

void sandbox_change_init(struct sandboxes *table, struct loop *loop);
/* Of one that runs: kill it when its deadline has passed, or when it does. */
void sandbox_watch_deadline(struct sandbox *sandbox);
/* Whoever waits for it to freeze or thaw is told that it ended. */
void sandbox_change_cancel(struct sandbox *sandbox);
/* Of a former launcher: what its record promises is made true. */
void sandbox_restore(struct sandbox *sandbox);
