/* The sandboxes there are, each in one of four states:
 *
 *   QUEUED    asked for; waits for a slot
 *   STARTING  a slot is becoming it
 *   RUNNING   execd runs; CREATE was answered
 *   EXITED    its process is gone; record and files stay until REMOVE
 *
 * Only RUNNING and EXITED ones are shown to servers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/cgroup.h"
#include "launcher/loop.h"
#include "launcher/peer.h"
#include "launcher/record.h"
#include "runtime/native/message.h"

#define SANDBOX_QUEUE_MAX 256

struct launcher;
struct slot;

enum sandbox_state { SANDBOX_QUEUED, SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_EXITED };

struct sandbox {
    struct launcher *launcher;
    enum sandbox_state state;
    struct record record; /* complete from STARTING on */
    struct cgroup_limits limits;
    int pidfd;
    struct loop_source exit_source;
    struct slot *slot;                /* STARTING only */
    enum message_exit_reason killing; /* KILLED or DEADLINE once we sent SIGKILL for that reason */
    bool removing;
    bool has_directory; /* STARTING: the slot's directory has its name */
    bool retried;       /* a slot that was becoming it was killed before it could say why */
    struct peer_reply create_reply;
    struct peer_reply remove_reply;
    struct sandbox *queue_next;
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

/* From the slots: take the queue's head, begin, succeed, fail. */
struct sandbox *sandbox_dequeue(struct launcher *launcher);
void sandbox_begin(struct sandbox *sandbox, struct slot *slot);
void sandbox_started(struct sandbox *sandbox);
void sandbox_failed(struct sandbox *sandbox, const struct error *err);
/* Its slot vanished without a word; `heard`: after it had read the order. */
void sandbox_bereft(struct sandbox *sandbox, bool heard, const struct error *err);

/* From a start: a sandbox of a former launcher. pidfd -1: it has ended. */
int sandbox_adopt(struct launcher *launcher, const struct record *record, int pidfd,
                  struct error *err);
