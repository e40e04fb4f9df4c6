/* The server's connections: who may connect, what is received, what is answered.
 *
 * A peer that sends nonsense is told so; one whose nonsense has no readable header, or that does
 * not read its answers, is cut. Memory per peer is fixed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "launcher/loop.h"
#include "runtime/native/message.h"

#define PEER_MAX 16

struct launcher;

/* Where an answer goes. Numbers are never used twice, so a late answer to a peer that is gone goes
 * nowhere. peer 0: nobody waits. */
struct peer_reply {
    uint64_t peer;
    uint32_t sequence;
};

struct peer {
    struct loop_source source;
    struct launcher *launcher;
    uint64_t number; /* 0: unused */
    int fd;
    bool greeted;
};

struct peers {
    struct peer items[PEER_MAX];
    struct loop_source listener;
    int listen_fd;
    unsigned count;
    uint64_t last_number;
    struct log_limit complaints; /* about peers, who can give as many reasons as they like */
};

int peer_open_all(struct launcher *launcher, struct error *err); /* --listen or --fd */
void peer_close_all(struct launcher *launcher);

/* err NULL or with ERR_OK: success. socket may be NULL. */
void peer_answer(struct launcher *launcher, struct peer_reply reply, const struct error *err,
                 const char *socket);
/* The same with a descriptor on success; it stays the caller's. */
void peer_answer_with(struct launcher *launcher, struct peer_reply reply, const struct error *err,
                      int fd);
void peer_send(struct launcher *launcher, struct peer_reply reply, const union message *message);
void peer_broadcast(struct launcher *launcher, const union message *message);
