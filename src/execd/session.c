/* A session lives until its shell is over; a run until its text has been run and its stream is
 * closed, whichever is later. */
#include "execd/session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "execd/event_stream.h"
#include "execd/reply.h"
#include "execd/request.h"
#include "execd/session_bash.h"
#include "execd/session_request.h"
#include "execd/session_shell.h"
#include "http/json.h"

struct run {
    struct session *session; /* NULL once it has ended */
    struct execd_session_run request;
    struct execd_event_stream *stream; /* NULL once closed */
    struct execd *execd;
    TAILQ_ENTRY(run) entry; /* in the session's queue until it has ended */
};

TAILQ_HEAD(run_list, run);

struct session {
    struct execd *execd;
    char id[ID_UUID_LEN + 1];
    int64_t created_ms;
    struct execd_session_shell *shell;
    struct run_list runs; /* the first is running */
    size_t run_count;
    bool deleted;                   /* nobody finds it any more */
    struct http_exchange *deleting; /* who waits for its end; or NULL */
    TAILQ_ENTRY(session) entry;
};

struct execd_sessions {
    TAILQ_HEAD(, session) all;
    size_t count;     /* deleted ones included, until their processes are gone */
    size_t creating;  /* between request and answer */
    size_t open_runs; /* whose stream is open or text not run */
    size_t states;    /* bytes */
};

static void start_next(struct session *session);

static struct execd_sessions *get_sessions(struct execd *execd)
{
    if (execd->sessions == NULL) {
        execd->sessions = mem_alloc(sizeof(*execd->sessions));
        TAILQ_INIT(&execd->sessions->all);
    }
    return execd->sessions;
}

static struct session *find_session(struct execd *execd, const char *id)
{
    struct session *session;
    TAILQ_FOREACH(session, &get_sessions(execd)->all, entry)
    {
        if (!session->deleted && strcmp(session->id, id) == 0)
            return session;
    }
    return NULL;
}

static void reply_no_session(struct http_exchange *exchange, const char *id)
{
    http_exchange_reply_error(exchange, 404, "CONTEXT_NOT_FOUND", "there is no session %.100s", id);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void release_if_over(struct run *run)
{
    if (run->session != NULL || run->stream != NULL)
        return;
    struct execd *execd = run->execd;
    execd->sessions->open_runs--;
    execd_session_run_done(&run->request);
    free(run);
    execd_end_check(execd);
}

static void end_run(struct session *session, struct run *run,
                    const struct execd_process_result *result)
{
    TAILQ_REMOVE(&session->runs, run, entry);
    session->run_count--;
    run->session = NULL;
    if (run->stream != NULL)
        execd_event_stream_finish(run->stream, result);
    release_if_over(run);
}

static bool is_running(const struct run *run)
{
    return run->session != NULL && TAILQ_FIRST(&run->session->runs) == run;
}

static void on_stream_drain(void *ctx)
{
    struct run *run = ctx;
    if (is_running(run))
        execd_session_shell_resume(run->session->shell);
}

static void on_stream_close(void *ctx)
{
    struct run *run = ctx;
    run->stream = NULL;
    if (is_running(run))
        execd_session_shell_resume(run->session->shell); /* nobody listens: read and drop */
    release_if_over(run);
}

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct session *session = ctx;
    struct run *run = TAILQ_FIRST(&session->runs);
    if (run == NULL || run->stream == NULL)
        return;
    if (execd_event_stream_is_full(run->stream) && session->deleted)
        return; /* its end does not wait for a reader */
    execd_event_stream_output(run->stream, which, bytes, length);
    if (execd_event_stream_is_full(run->stream))
        execd_session_shell_pause(session->shell);
}

static void on_run_end(void *ctx, const struct execd_process_result *result)
{
    struct session *session = ctx;
    end_run(session, TAILQ_FIRST(&session->runs), result);
    start_next(session);
}

/* Runs that cannot be started are told so, one after the other. */
static void start_next(struct session *session)
{
    struct run *run;
    while (!session->deleted && (run = TAILQ_FIRST(&session->runs)) != NULL) {
        struct execd_process_result result = {.started = false};
        const struct execd_session_run *request = &run->request;
        if (execd_session_shell_run(session->shell, request->command, request->cwd,
                                    request->timeout_ms, &result.error) == 0)
            return;
        end_run(session, run, &result);
    }
}

static void add_run(struct session *session, struct execd_session_run *request,
                    struct http_exchange *exchange)
{
    static const struct execd_event_stream_events events = {
        .on_drain = on_stream_drain,
        .on_close = on_stream_close,
    };
    struct run *run = mem_alloc(sizeof(*run));
    run->session = session;
    run->execd = session->execd;
    run->request = *request;
    run->execd->sessions->open_runs++;
    TAILQ_INSERT_TAIL(&session->runs, run, entry);
    session->run_count++;
    run->stream = execd_event_stream_start(exchange, session->id, &events, run);
    if (session->run_count == 1)
        start_next(session);
}

/* The session may go while the body comes, so it is looked up again. Its id is the same in the
 * path as in the match, which does not last. */
static struct session *find_by_path(struct execd *execd, const struct http_exchange *exchange)
{
    const char *path = http_exchange_path(exchange) + strlen("/session/");
    AUTO_FREE char *id = mem_dup_n(path, strcspn(path, "/"));
    return find_session(execd, id);
}

static int accept_run(struct execd *execd, struct session *session, const char *body, size_t length,
                      struct execd_session_run *ret, struct error *err)
{
    if (execd->ending)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox is ending");
    const struct execd_session_shell *shell = session->shell;
    if (execd_session_run_parse(execd_session_shell_env(shell), execd_session_shell_cwd(shell),
                                body, length, ret, err) < 0)
        return -1;
    if (session->run_count > EXECD_SESSION_QUEUE_MAX) {
        execd_session_run_done(ret);
        return error_set(err, ERR_UNAVAILABLE,
                         "%d runs wait in session %s already, which is the limit",
                         EXECD_SESSION_QUEUE_MAX, session->id);
    }
    return 0;
}

static void on_run_body(struct http_exchange *exchange, const char *body, size_t length, void *ctx)
{
    struct execd *execd = ctx;
    struct session *session = find_by_path(execd, exchange);
    struct error err = ERROR_INIT;
    struct execd_session_run request;
    if (session == NULL)
        http_exchange_reply_error(exchange, 404, "CONTEXT_NOT_FOUND", "there is no such session");
    else if (accept_run(execd, session, body, length, &request, &err) < 0)
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
    else
        add_run(session, &request, exchange);
}

void execd_session_handle_run(struct http_exchange *exchange, const struct http_route_match *match,
                              void *ctx)
{
    const char *id = http_route_param(match, "id");
    if (find_session(ctx, id) == NULL)
        reply_no_session(exchange, id);
    else
        http_exchange_collect(exchange, EXECD_SESSION_BODY_MAX, on_run_body, ctx);
}

/* --- create ----------------------------------------------------------------------------------- */

struct create {
    struct execd *execd;
    struct http_exchange *exchange; /* NULL: nobody waits for it */
    struct execd_session_create request;
    struct error err;
    uv_work_t work;
};

static void prepare(uv_work_t *work)
{
    struct create *create = CONTAINER_OF(work, struct create, work);
    const struct execd_session_create *request = &create->request;
    if (!execd_session_bash_exists(&request->env))
        error_set(&create->err, ERR_INTERNAL,
                  "sessions need bash, and this image has none in PATH or the usual places");
    else
        execd_request_make_cwd(
            request->cwd, request->has_credentials ? &request->credentials : NULL, &create->err);
}

static void on_over(void *ctx)
{
    struct session *session = ctx;
    struct execd *execd = session->execd;
    TAILQ_REMOVE(&execd->sessions->all, session, entry);
    execd->sessions->count--;
    if (session->deleting != NULL) {
        http_exchange_on_close(session->deleting, NULL, NULL);
        execd_reply_empty(session->deleting);
    }
    free(session);
    execd_end_check(execd);
}

static struct session *new_session(struct execd *execd, struct execd_session_create *request)
{
    static const struct execd_session_shell_events events = {
        .on_output = on_output,
        .on_run_end = on_run_end,
        .on_over = on_over,
    };
    struct execd_sessions *sessions = execd->sessions;
    struct session *session = mem_alloc(sizeof(*session));
    session->execd = execd;
    session->created_ms = clock_unix_ms();
    id_new_uuid(session->id);
    TAILQ_INIT(&session->runs);
    session->shell = execd_session_shell_new(
        execd, &request->env, request->cwd, request->has_credentials ? &request->credentials : NULL,
        &sessions->states, &events, session);
    TAILQ_INSERT_TAIL(&sessions->all, session, entry);
    sessions->count++;
    return session;
}

static void on_prepared(uv_work_t *work, int status)
{
    (void)status; /* it is never cancelled */
    struct create *create = CONTAINER_OF(work, struct create, work);
    struct execd *execd = create->execd;
    execd->sessions->creating--;
    if (execd->ending && create->err.code == ERR_OK)
        error_set(&create->err, ERR_UNAVAILABLE, "the sandbox is ending");
    if (create->exchange != NULL)
        http_exchange_on_close(create->exchange, NULL, NULL);
    if (create->exchange != NULL && create->err.code != ERR_OK) {
        execd_reply_failure(create->exchange, "INVALID_REQUEST_BODY", &create->err);
    } else if (create->exchange != NULL) {
        struct session *session = new_session(execd, &create->request);
        http_exchange_reply_json(create->exchange, 200,
                                 json_pack("{s:s}", "session_id", session->id));
    }
    execd_session_create_done(&create->request);
    free(create);
    execd_end_check(execd);
}

static void on_creator_gone(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct create *create = ctx;
    create->exchange = NULL;
}

static int check_room(struct execd *execd, struct error *err)
{
    const struct execd_sessions *sessions = get_sessions(execd);
    if (execd->ending)
        return error_set(err, ERR_UNAVAILABLE, "the sandbox is ending");
    if (sessions->count + sessions->creating >= EXECD_SESSIONS_MAX)
        return error_set(err, ERR_UNAVAILABLE,
                         "there are %d sessions, which is the limit; delete one first",
                         EXECD_SESSIONS_MAX);
    return 0;
}

static void on_create_body(struct http_exchange *exchange, const char *body, size_t length,
                           void *ctx)
{
    struct execd *execd = ctx;
    struct error err = ERROR_INIT;
    struct execd_session_create request;
    if (check_room(execd, &err) < 0 ||
        execd_session_create_parse(execd, body, length, &request, &err) < 0) {
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
        return;
    }
    struct create *create = mem_alloc(sizeof(*create));
    create->execd = execd;
    create->exchange = exchange;
    create->request = request;
    execd->sessions->creating++;
    http_exchange_on_close(exchange, on_creator_gone, create);
    uv_queue_work(execd->loop, &create->work, prepare, on_prepared);
}

void execd_session_handle_create(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *ctx)
{
    (void)match;
    http_exchange_collect(exchange, EXECD_SESSION_BODY_MAX, on_create_body, ctx);
}

/* --- delete, list, interrupt ------------------------------------------------------------------ */

/* The running one ends with the shell. */
static void end_session(struct session *session, bool now)
{
    session->deleted = true;
    struct execd_process_result killed = {.started = true, .exit = {.signal = SIGKILL}};
    struct run *run;
    while ((run = TAILQ_LAST(&session->runs, run_list)) != TAILQ_FIRST(&session->runs))
        end_run(session, run, &killed);
    execd_session_shell_end(session->shell, now);
}

static void on_deleting_closed(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct session *session = ctx;
    session->deleting = NULL;
}

/* Answered when its processes are gone. */
void execd_session_handle_delete(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *ctx)
{
    const char *id = http_route_param(match, "id");
    struct session *session = find_session(ctx, id);
    if (session == NULL) {
        reply_no_session(exchange, id);
        return;
    }
    session->deleting = exchange;
    http_exchange_on_close(exchange, on_deleting_closed, session);
    end_session(session, false);
}

static json_t *describe(const struct session *session)
{
    char created[CLOCK_RFC3339_MAX];
    clock_format_rfc3339(session->created_ms, created);
    size_t waiting = session->run_count > 0 ? session->run_count - 1 : 0;
    json_t *json =
        json_pack("{s:s, s:b, s:I, s:s}", "session_id", session->id, "running",
                  session->run_count > 0, "queued", (json_int_t)waiting, "created_at", created);
    /* Absent when it is not UTF-8, which JSON could not hold. */
    json_t *cwd = json_string(execd_session_shell_cwd(session->shell));
    if (cwd != NULL)
        json_object_set_new(json, "cwd", cwd);
    return json;
}

void execd_session_handle_list(struct http_exchange *exchange, const struct http_route_match *match,
                               void *ctx)
{
    (void)match;
    json_t *list = json_array();
    const struct session *session;
    TAILQ_FOREACH(session, &get_sessions(ctx)->all, entry)
    {
        if (!session->deleted)
            json_array_append_new(list, describe(session));
    }
    http_exchange_reply_json(exchange, 200, json_pack("{s:o}", "sessions", list));
}

int execd_session_interrupt(struct execd *execd, const char *id)
{
    struct session *session = find_session(execd, id);
    if (session == NULL)
        return -ENOENT;
    if (session->run_count == 0)
        return -ESRCH;
    execd_session_shell_interrupt(session->shell);
    return 0;
}

void execd_sessions_end(struct execd *execd)
{
    struct session *session;
    if (execd->sessions == NULL)
        return;
    TAILQ_FOREACH(session, &execd->sessions->all, entry)
    end_session(session, true);
}

bool execd_sessions_are_over(const struct execd *execd)
{
    const struct execd_sessions *sessions = execd->sessions;
    return sessions == NULL ||
           (sessions->count == 0 && sessions->creating == 0 && sessions->open_runs == 0);
}
