#include "execd/work.h"

#include <stdlib.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/mem.h"
#include "execd/reply.h"

#define JSON_TYPE "application/json"

struct work {
    TAILQ_ENTRY(work) link; /* in waiting */
    const struct execd_work_ops *ops;
    void *ctx;                      /* NULL once released */
    struct http_exchange *exchange; /* NULL once closed */
    bool has_turn;
    bool running; /* the work queue has it */
    atomic_bool gone;
    uv_work_t request;
    int result; /* of the last step */
    struct buf out;
    struct error err;
};

/* Heavy work that waits for its turn, and how many have theirs. One loop, so no lock. */
static TAILQ_HEAD(, work) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static unsigned heavy_count;

static void on_stepped(uv_work_t *request, int status);

static void run_step(uv_work_t *request)
{
    struct work *work = CONTAINER_OF(request, struct work, request);
    work->result = work->ops->step(work->ctx, &work->gone, &work->out, &work->err);
}

static void queue_step(struct work *work)
{
    work->running = true;
    uv_queue_work(http_exchange_loop(work->exchange), &work->request, run_step, on_stepped);
}

static void take_turn(struct work *work)
{
    work->has_turn = true;
    heavy_count += work->ops->heavy;
    queue_step(work);
}

/* What the work holds goes as soon as it is over; a slow client must not keep others waiting. */
static void release(struct work *work)
{
    if (work->ctx == NULL)
        return;
    work->ops->free(TAKE_PTR(work->ctx));
    if (!work->ops->heavy)
        return;
    if (!work->has_turn) {
        TAILQ_REMOVE(&waiting, work, link);
        return;
    }
    heavy_count--;
    struct work *next = TAILQ_FIRST(&waiting);
    if (next != NULL) {
        TAILQ_REMOVE(&waiting, next, link);
        take_turn(next);
    }
}

static void free_work(struct work *work)
{
    release(work);
    buf_done(&work->out);
    free(work);
}

static void begin(struct http_exchange *exchange)
{
    if (http_exchange_is_begun(exchange))
        return;
    http_exchange_set_header(exchange, "Content-Type", JSON_TYPE);
    http_exchange_begin(exchange, 200, -1);
}

static void send_output(struct work *work)
{
    begin(work->exchange);
    http_exchange_write(work->exchange, work->out.data, work->out.length);
    buf_done(&work->out);
}

static void finish(struct work *work)
{
    struct http_exchange *exchange = work->exchange;
    if (http_exchange_is_begun(exchange)) {
        send_output(work);
        http_exchange_end(exchange);
    } else if (work->out.length > 0) {
        http_exchange_reply(exchange, 200, JSON_TYPE, work->out.data, work->out.length);
    } else {
        execd_reply_empty(exchange);
    }
}

static void fail(struct work *work)
{
    if (http_exchange_is_begun(work->exchange))
        http_exchange_abort(work->exchange);
    else
        execd_reply_failure(work->exchange, work->ops->invalid_code, &work->err);
}

static void on_stepped(uv_work_t *request, int status)
{
    (void)status; /* never cancelled */
    struct work *work = CONTAINER_OF(request, struct work, request);
    work->running = false;
    if (work->exchange == NULL) {
        free_work(work);
        return;
    }
    if (work->result > 0) {
        send_output(work);
        if (!http_exchange_is_full(work->exchange))
            queue_step(work);
        return;
    }
    release(work);
    if (work->result < 0)
        fail(work);
    else
        finish(work);
    buf_done(&work->out);
}

static void on_drain(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct work *work = ctx;
    if (work->ctx != NULL && work->has_turn && !work->running)
        queue_step(work);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct work *work = ctx;
    work->exchange = NULL;
    atomic_store(&work->gone, true);
    if (!work->running)
        free_work(work);
}

void execd_work_start(struct http_exchange *exchange, const struct execd_work_ops *ops, void *ctx)
{
    struct work *work = mem_alloc(sizeof(*work));
    work->ops = ops;
    work->ctx = ctx;
    work->exchange = exchange;
    buf_init(&work->out, EXECD_WORK_OUT_MAX);
    http_exchange_on_close(exchange, on_close, work);
    http_exchange_on_drain(exchange, on_drain, work);
    if (ops->heavy && heavy_count >= EXECD_WORK_HEAVY_MAX)
        TAILQ_INSERT_TAIL(&waiting, work, link);
    else
        take_turn(work);
}
