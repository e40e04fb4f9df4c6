/* What server.c (listeners, limits), connection.c (one connection's life) and exchange.c (one
 * request and its answer) share. */
#pragma once

#include <arpa/inet.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "http/parser.h"
#include "http/schedule.h"
#include "http/server.h"

/* Unread request bytes kept while nobody may have them; reading stops above this. */
#define HTTP_PENDING_BYTES (64 * 1024)
/* What is read and thrown away of a body nobody wanted, to keep the connection. */
#define HTTP_DISCARD_BYTES (1024 * 1024)

enum http_connection_state {
    HTTP_CONNECTION_IDLE,     /* between requests */
    HTTP_CONNECTION_HEAD,     /* part of a head has arrived */
    HTTP_CONNECTION_EXCHANGE, /* a request is being answered */
    HTTP_CONNECTION_LINGER,   /* last answer sent; reading until the peer has read it and closes */
    HTTP_CONNECTION_CLOSED,
};

struct http_connection {
    TAILQ_ENTRY(http_connection) link;
    struct http_server *server;
    struct http_stream *stream; /* NULL once taken or closed */
    struct http_parser *parser;
    struct http_exchange *exchange; /* only in HTTP_CONNECTION_EXCHANGE */
    enum http_connection_state state;
    bool running;   /* one of our functions is on the stack and will look at the state again */
    bool ended;     /* the peer sends no more */
    uint64_t since; /* when the state was entered */
    size_t lingered_bytes;
    struct buf pending; /* received, not yet parsed */
    const char *input;  /* what remains to be parsed, while running */
    size_t input_length;
    struct http_task task; /* runs http_connection_run() from the loop */
};

enum http_request_state {
    HTTP_REQUEST_HELD, /* the handler has not asked for the body */
    HTTP_REQUEST_READING,
    HTTP_REQUEST_PAUSED,
    HTTP_REQUEST_COLLECTING,
    HTTP_REQUEST_DISCARDING, /* nobody will ask any more */
    HTTP_REQUEST_DONE,       /* the handler was told of the end, or will not be */
};

enum http_answer_state {
    HTTP_ANSWER_NONE,
    HTTP_ANSWER_BEGUN,
    HTTP_ANSWER_ENDED, /* all of it is in the stream's queue or sent */
    HTTP_ANSWER_CUT,   /* cannot be finished: the connection is to be closed */
    HTTP_ANSWER_TAKEN, /* the stream speaks another protocol now */
};

struct http_exchange {
    struct http_connection *connection;
    char peer[INET6_ADDRSTRLEN];

    struct http_head head;
    char *path;        /* the target, cut at '?' */
    const char *query; /* behind it */
    enum http_request_state request;
    bool body_complete; /* the parser has seen the last byte */
    bool continue_sent;
    uint64_t body_bytes;      /* parsed so far */
    uint64_t discarded_bytes; /* of those, thrown away */
    uint64_t wait_since;      /* when somebody began to wait for the body */
    const struct http_body_events *body_events;
    void *body_ctx;
    http_exchange_body_fn *on_collected;
    struct buf collected;

    enum http_answer_state answer;
    struct http_head response;
    struct buf held; /* head of a streamed answer, until its first bytes or the end of the turn */
    bool mute;       /* HEAD, 204, 304: the body is counted but not sent */
    bool close;      /* this must be the last exchange of the connection */
    bool full;       /* the handler has to be told when the queue falls */
    uint64_t remaining; /* of an announced length */

    http_exchange_close_fn *on_close;
    void *close_ctx;
    http_exchange_drain_fn *on_drain;
    void *drain_ctx;
};

struct http_server {
    struct http_server_config config;
    TAILQ_HEAD(, http_connection) connections;
    size_t connection_count;
    TAILQ_HEAD(, http_listener) listeners;
    struct http_schedule schedule;
    struct buf scratch; /* where heads of whole answers are written */
    bool closing;
    unsigned handles; /* to be closed before the memory can go */
};

/* --- connection.c ----------------------------------------------------------------------------- */

void http_connection_new(struct http_server *server, uv_stream_t *listener);
void http_connection_cut(struct http_connection *connection); /* on_close runs, then it is freed */

/* The exchange has changed: look at it soon, from the loop or from the function on the stack. */
void http_connection_wake(struct http_connection *connection);

/* When must something have happened? HTTP_NO_DEADLINE if never. And what if it has not. */
uint64_t http_connection_deadline(const struct http_connection *connection);
void http_connection_expire(struct http_connection *connection);

/* Bytes after the head, for upgrades. */
const char *http_connection_rest(const struct http_connection *connection, size_t *ret_length);

/* --- exchange.c ------------------------------------------------------------------------------- */

/* Takes over what `head` holds. */
struct http_exchange *http_exchange_new(struct http_connection *connection, struct http_head *head);
void http_exchange_free(struct http_exchange *exchange);

void http_exchange_set_request(struct http_exchange *exchange, enum http_request_state state);
bool http_exchange_wants_body(const struct http_exchange *exchange);

/* Body bytes from the parser. Non-zero: nobody wants more now. */
int http_exchange_take_body(struct http_exchange *exchange, const char *bytes, size_t length);
void http_exchange_take_body_end(struct http_exchange *exchange); /* tells the handler */

void http_exchange_send_held(struct http_exchange *exchange);

/* Answer for the handler (a request that broke the rules), or cut if an answer has begun. */
void http_exchange_refuse(struct http_exchange *exchange, int status, const char *message);

/* For proxies: begin() with the framing given, and without a Date of our own. */
void http_exchange_begin_relayed(struct http_exchange *exchange, int status,
                                 enum http_framing framing, uint64_t length);

/* Takes a begun answer back of which nothing was sent yet, so that another can be given; else
 * false.
 */
bool http_exchange_retract(struct http_exchange *exchange);

/* {"code","message"} for statuses the server answers itself. Caller frees. */
char *http_refusal_json(int status, const char *message);
char *http_error_json(const char *code, const char *message);
