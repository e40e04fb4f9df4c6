/* What client.c, call.c (calls), client_link.c (connections), client_pool.c (those at rest),
 * fetch.c and tunnel.c share. */
#pragma once

#include <sys/queue.h>

#include "base/buf.h"
#include "http/client.h"
#include "http/parser.h"
#include "http/schedule.h"

enum http_link_state {
    HTTP_LINK_BUSY, /* serves a call, from connecting on */
    HTTP_LINK_IDLE, /* in the pool */
    HTTP_LINK_CLOSED,
};

/* One connection to a server. */
struct http_link {
    TAILQ_ENTRY(http_link) link; /* in the pool, most recently used first */
    struct http_client *client;
    struct http_address address;
    struct http_stream *stream; /* NULL once closed or handed to an upgrade */
    struct http_parser *parser;
    struct http_call *call; /* only while busy */
    enum http_link_state state;
    bool running;  /* one of our functions is on the stack and will look at the state again */
    bool reused;   /* has served a call before */
    bool answered; /* bytes of the present response have arrived */
    bool ended;    /* the peer sends no more */
    uint64_t idle_since;
    struct buf pending; /* received while the call was paused */
    const char *input;  /* what remains to be parsed, while running */
    size_t input_length;
};

enum http_call_state {
    HTTP_CALL_CONNECTING,
    HTTP_CALL_WAITING, /* for the response head */
    HTTP_CALL_BODY,
    HTTP_CALL_COMPLETE, /* the whole response was parsed; on_done is due */
    HTTP_CALL_UPGRADED, /* 101; on_upgrade is due */
    HTTP_CALL_FAILED,   /* on_error is due, from the loop */
    HTTP_CALL_OVER,
};

struct http_call {
    TAILQ_ENTRY(http_call) link;
    struct http_client *client;
    struct http_link *connection; /* NULL once failed */
    const struct http_call_events *events;
    void *ctx;
    void (*release)(void *ctx); /* frees ctx with the call; NULL when it is the caller's */
    enum http_call_state state;
    uint64_t since; /* when the present wait began */

    struct http_address address;
    uint64_t connect_timeout_ms;
    uint64_t response_timeout_ms;
    uint64_t stall_timeout_ms;
    uint64_t deadline_ms; /* for all of it, or HTTP_NO_DEADLINE */

    char method[HTTP_METHOD_MAX];
    enum http_framing framing;
    bool has_body;
    uint64_t remaining; /* of an announced length */
    struct buf head;    /* the request head: until it is sent, or as long as it may be sent again */
    bool head_sent;
    bool request_ended;
    bool wants_upgrade;
    bool retried;
    bool untried; /* its connector had no way to try */
    bool full;    /* on_drain is owed */
    bool paused;
    bool keep_alive; /* the response allows another one after it */
    struct http_head upgrade_head;
    struct error *failure;
    struct http_task task; /* runs the connection, or reports the failure, from the loop */
};

/* Something that outlives its call but not the client: the tunnels of the proxy. */
struct http_client_guest {
    TAILQ_ENTRY(http_client_guest) link;
    void (*cut)(struct http_client_guest *guest); /* must leave the list */
};

struct http_client {
    struct http_client_config config;
    TAILQ_HEAD(, http_call) calls;
    TAILQ_HEAD(http_link_list, http_link) pool;
    size_t pool_count;
    TAILQ_HEAD(, http_client_guest) guests;
    struct http_schedule schedule;
    bool closing;
};

void http_client_add_guest(struct http_client *client, struct http_client_guest *guest);
void http_client_remove_guest(struct http_client *client, struct http_client_guest *guest);

/* --- call.c ----------------------------------------------------------------------------------- */

void http_call_set_state(struct http_call *call, enum http_call_state state);
uint64_t http_call_deadline(const struct http_call *call);
void http_call_expire(struct http_call *call);
void http_call_send_head(struct http_call *call); /* if it was not sent yet */

/* The last callback of a call. The connection is given back or closed before, so that the callback
 * may start the next call on it. */
void http_call_finish(struct http_call *call, bool reusable);
void http_call_fail(struct http_call *call, const struct error *err);
void http_call_upgrade(struct http_call *call, const char *rest, size_t rest_length);

/* --- client_link.c ---------------------------------------------------------------------------- */

/* Give the call a connection: a pooled one if `reuse` and there is one, else a new one. */
int http_link_attach(struct http_call *call, bool reuse, struct error *err);
void http_link_run(struct http_link *connection);

/* The call lets go of its connection. */
void http_link_release(struct http_link *connection, bool reusable);
struct http_stream *http_link_take_stream(struct http_link *connection);

void http_link_close(struct http_link *connection); /* one without a call */

/* --- client_pool.c ---------------------------------------------------------------------------- */

void http_pool_add(struct http_link *connection);
void http_pool_remove(struct http_link *connection);
struct http_link *http_pool_find(struct http_client *client, const struct http_address *address);
void http_pool_drop(struct http_client *client, const struct http_address *address); /* NULL: all */
uint64_t http_pool_sweep(struct http_client *client, uint64_t now_ms); /* returns the deadline */
