#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/pty_internal.h"
#include "execd/pty_message.h"
#include "execd/reply.h"
#include "http/json.h"

#define BODY_MAX (4 * 1024 * 1024)

/* --- the table -------------------------------------------------------------------------------- */

static void on_idle_timer(uv_timer_t *timer);

static bool is_idle(const struct execd_pty *pty)
{
    return pty->process == NULL;
}

/* Set the timer for the terminal that has been idle longest. */
static void schedule(struct execd_ptys *ptys)
{
    uint64_t due = UINT64_MAX;
    const struct execd_pty *pty;
    TAILQ_FOREACH(pty, &ptys->list, link)
    {
        if (is_idle(pty))
            due = MIN(due, pty->idle_since_ms + EXECD_PTY_IDLE_MS);
    }
    uint64_t now = uv_now(ptys->execd->loop);
    if (due == UINT64_MAX)
        uv_timer_stop(&ptys->timer);
    else
        uv_timer_start(&ptys->timer, on_idle_timer, due > now ? due - now : 0, 0);
}

static struct execd_ptys *get_ptys(struct execd *execd)
{
    if (execd->ptys != NULL)
        return execd->ptys;
    struct execd_ptys *ptys = mem_alloc(sizeof(*ptys));
    ptys->execd = execd;
    TAILQ_INIT(&ptys->list);
    uv_timer_init(execd->loop, &ptys->timer);
    uv_unref((uv_handle_t *)&ptys->timer);
    ptys->timer.data = ptys;
    execd->ptys = ptys;
    return ptys;
}

static void free_pty(struct execd_pty *pty)
{
    TAILQ_REMOVE(&pty->ptys->list, pty, link);
    pty->ptys->count--;
    execd_pty_request_done(&pty->request);
    execd_pty_ring_done(&pty->ring);
    free(pty);
}

static void on_idle_timer(uv_timer_t *timer)
{
    struct execd_ptys *ptys = timer->data;
    uint64_t now = uv_now(ptys->execd->loop);
    struct execd_pty *next;
    for (struct execd_pty *pty = TAILQ_FIRST(&ptys->list); pty != NULL; pty = next) {
        next = TAILQ_NEXT(pty, link);
        if (is_idle(pty) && now - pty->idle_since_ms >= EXECD_PTY_IDLE_MS)
            free_pty(pty);
    }
    schedule(ptys);
}

/* The one whose shell exited first gives way. Those that wait for their first client do not. */
static bool make_room(struct execd_ptys *ptys)
{
    if (ptys->count < EXECD_PTYS_MAX)
        return true;
    struct execd_pty *oldest = NULL;
    struct execd_pty *pty;
    TAILQ_FOREACH(pty, &ptys->list, link)
    {
        bool exited = is_idle(pty) && pty->has_exited;
        if (exited && (oldest == NULL || pty->idle_since_ms < oldest->idle_since_ms))
            oldest = pty;
    }
    if (oldest == NULL)
        return false;
    free_pty(oldest);
    return true;
}

struct execd_pty *execd_pty_find(const struct execd *execd, const struct http_route_match *match,
                                 struct http_exchange *exchange)
{
    const char *id = http_route_param(match, "id");
    struct execd_pty *pty = NULL;
    if (execd->ptys != NULL) {
        TAILQ_FOREACH(pty, &execd->ptys->list, link)
        {
            if (!pty->deleted && str_equal(pty->id, id))
                return pty;
        }
    }
    http_exchange_reply_error(exchange, 404, "CONTEXT_NOT_FOUND", "there is no terminal \"%.100s\"",
                              id);
    return NULL;
}

/* --- end -------------------------------------------------------------------------------------- */

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void release_if_over(struct execd_ptys *ptys)
{
    struct execd *execd = ptys->execd;
    if (!execd->ending || ptys->count > 0 || ptys->socket_count > 0)
        return;
    uv_close((uv_handle_t *)&ptys->timer, on_timer_closed);
    execd->ptys = NULL;
    execd_end_check(execd);
}

void execd_pty_became_idle(struct execd_pty *pty)
{
    struct execd_ptys *ptys = pty->ptys;
    pty->idle_since_ms = uv_now(ptys->execd->loop);
    struct http_exchange *deleting = TAKE_PTR(pty->deleting);
    if (deleting != NULL) {
        http_exchange_on_close(deleting, NULL, NULL);
        execd_reply_empty(deleting);
    }
    if (pty->deleted || ptys->execd->ending)
        free_pty(pty);
    schedule(ptys);
    release_if_over(ptys);
}

void execd_ptys_socket_closed(struct execd_ptys *ptys)
{
    ptys->socket_count--;
    release_if_over(ptys);
}

void execd_ptys_end(struct execd *execd)
{
    struct execd_ptys *ptys = execd->ptys;
    if (ptys == NULL)
        return;
    struct execd_pty *next;
    for (struct execd_pty *pty = TAILQ_FIRST(&ptys->list); pty != NULL; pty = next) {
        next = TAILQ_NEXT(pty, link);
        if (pty->process != NULL)
            execd_pty_process_kill(pty->process);
        else
            free_pty(pty);
    }
    release_if_over(ptys);
}

bool execd_ptys_are_over(const struct execd *execd)
{
    return execd->ptys == NULL;
}

/* --- POST /pty -------------------------------------------------------------------------------- */

static int create(struct execd *execd, struct execd_pty_request *request, struct execd_pty **ret,
                  struct error *err)
{
    if (execd->ending)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox is ending");
    struct execd_ptys *ptys = get_ptys(execd);
    if (!make_room(ptys))
        return error_set(err, ERR_UNAVAILABLE,
                         "there are %d terminals, which is the limit; delete one first",
                         EXECD_PTYS_MAX);
    struct execd_pty *pty = mem_alloc(sizeof(*pty));
    pty->ptys = ptys;
    id_new_uuid(pty->id);
    pty->request = *request;
    *request = (struct execd_pty_request){0};
    execd_pty_ring_init(&pty->ring);
    pty->idle_since_ms = uv_now(execd->loop);
    TAILQ_INSERT_TAIL(&ptys->list, pty, link);
    ptys->count++;
    schedule(ptys);
    *ret = pty;
    return 0;
}

static void on_body(struct http_exchange *exchange, const char *body, size_t length, void *ctx)
{
    struct execd *execd = ctx;
    struct error err = ERROR_INIT;
    struct execd_pty_request request = {0};
    struct execd_pty *pty;
    if (execd_pty_request_parse(execd, body, length, &request, &err) < 0 ||
        create(execd, &request, &pty, &err) < 0)
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
    else
        http_exchange_reply_json(exchange, 201, json_pack("{s:s}", "session_id", pty->id));
    execd_pty_request_done(&request);
}

void execd_pty_handle_create(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    (void)match;
    http_exchange_collect(exchange, BODY_MAX, on_body, ctx);
}

/* --- GET /pty, GET /pty/{id} ------------------------------------------------------------------ */

const char *execd_pty_mode(const struct execd_pty *pty)
{
    return pty->pipes ? "pipe" : "pty";
}

/* -1 for a signal, as in the events of commands; which one it was stands beside it. */
void execd_pty_add_exit(json_t *object, const struct execd_exit *exit)
{
    const char *name = execd_pty_signal_name(exit->signal);
    json_object_set_new(object, "exit_code", json_integer(exit->signal != 0 ? -1 : exit->code));
    if (exit->signal != 0 && name != NULL)
        json_object_set_new(object, "signal", json_string(name));
    else if (exit->signal != 0)
        json_object_set_new(object, "signal", json_sprintf("SIG%d", exit->signal));
}

static json_t *describe(const struct execd_pty *pty)
{
    json_t *object = json_pack("{s:s, s:b, s:b, s:I, s:i, s:i}", "session_id", pty->id, "running",
                               pty->process != NULL, "attached", pty->client != NULL,
                               "output_offset", (json_int_t)pty->ring.end, "cols",
                               (int)pty->request.cols, "rows", (int)pty->request.rows);
    if (pty->process != NULL || pty->has_exited)
        json_object_set_new(object, "mode", json_string(execd_pty_mode(pty)));
    if (pty->process == NULL && pty->has_exited)
        execd_pty_add_exit(object, &pty->exit);
    return object;
}

void execd_pty_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                           void *ctx)
{
    (void)match;
    const struct execd *execd = ctx;
    json_t *sessions = json_array();
    if (execd->ptys != NULL) {
        const struct execd_pty *pty;
        TAILQ_FOREACH(pty, &execd->ptys->list, link)
        {
            if (!pty->deleted)
                json_array_append_new(sessions, describe(pty));
        }
    }
    http_exchange_reply_json(exchange, 200, json_pack("{s:o}", "sessions", sessions));
}

void execd_pty_handle_status(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    const struct execd_pty *pty = execd_pty_find(ctx, match, exchange);
    if (pty != NULL)
        http_exchange_reply_json(exchange, 200, describe(pty));
}

/* --- DELETE /pty/{id} ------------------------------------------------------------------------- */

static void on_deleting_closed(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct execd_pty *pty = ctx;
    pty->deleting = NULL;
}

/* Answered when its processes are gone, so that 200 means that. */
void execd_pty_handle_delete(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    struct execd_pty *pty = execd_pty_find(ctx, match, exchange);
    if (pty == NULL)
        return;
    pty->deleted = true;
    pty->deleting = exchange;
    if (pty->process == NULL) {
        execd_pty_became_idle(pty);
        return;
    }
    http_exchange_on_close(exchange, on_deleting_closed, pty);
    execd_pty_tell_deleted(pty);
    execd_pty_process_hang_up(pty->process);
}
