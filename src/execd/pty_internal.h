/* What pty.c (the table of terminals) and pty_socket.c (the one client of each) share. */
#pragma once

#include <jansson.h>
#include <sys/queue.h>

#include "base/id.h"
#include "execd/pty.h"
#include "execd/pty_process.h"
#include "execd/pty_request.h"
#include "execd/pty_ring.h"
#include "http/websocket.h"

struct execd_pty;

struct execd_ptys {
    struct execd *execd;
    TAILQ_HEAD(, execd_pty) list; /* oldest first */
    size_t count;
    size_t socket_count; /* open WebSockets, those that are being closed included */
    uv_timer_t timer;    /* for the next terminal that has been idle for long enough */
};

struct execd_pty {
    struct execd_ptys *ptys;
    TAILQ_ENTRY(execd_pty) link;
    char id[ID_UUID_LEN + 1];
    struct execd_pty_request request; /* its size is that of the last resize */
    struct execd_pty_ring ring;
    bool pipes;                        /* how the shell runs or ran last */
    struct execd_pty_process *process; /* NULL: not running */
    struct execd_pty_client *client;   /* attached, or NULL; only while there is a process */
    bool has_exited;                   /* at least once; then the last time like this: */
    struct execd_exit exit;
    uint64_t idle_since_ms;         /* without a process */
    bool deleted;                   /* cannot be found any more; freed with its process */
    struct http_exchange *deleting; /* is answered then; NULL: nobody waits */
};

/* --- pty.c ------------------------------------------------------------------------------------ */

struct execd_pty *execd_pty_find(const struct execd *execd, const struct http_route_match *match,
                                 struct http_exchange *exchange); /* NULL: answered 404 */

/* The process has ended, or did not start. The terminal may be freed by this. */
void execd_pty_became_idle(struct execd_pty *pty);
void execd_ptys_socket_closed(struct execd_ptys *ptys);

/* "pty" or "pipe" */
const char *execd_pty_mode(const struct execd_pty *pty);

/* {"exit_code": n} with "signal" when there was one. */
void execd_pty_add_exit(json_t *object, const struct execd_exit *exit);

/* --- pty_socket.c ----------------------------------------------------------------------------- */

/* The terminal is being deleted: tell its client. */
void execd_pty_tell_deleted(struct execd_pty *pty);
