#include "http/schedule.h"

#include "base/macros.h"

static void on_idle(uv_idle_t *idle)
{
    struct http_schedule *schedule = CONTAINER_OF(idle, struct http_schedule, idle);
    /* Tasks added meanwhile wait for the next turn, so that I/O is never starved. */
    for (size_t left = schedule->count; left > 0 && schedule->count > 0; left--) {
        struct http_task *task = TAILQ_FIRST(&schedule->tasks);
        http_schedule_drop(schedule, task);
        task->run(task);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct http_schedule *schedule = CONTAINER_OF(timer, struct http_schedule, timer);
    uint64_t now_ms = uv_now(timer->loop);
    schedule->due_ms = HTTP_NO_DEADLINE;
    uint64_t next_ms = schedule->on_sweep(schedule, now_ms);
    if (next_ms != HTTP_NO_DEADLINE)
        http_schedule_deadline(schedule, MAX(next_ms, now_ms + schedule->grain_ms));
}

void http_schedule_init(struct http_schedule *schedule, uv_loop_t *loop, uint64_t grain_ms,
                        uint64_t (*on_sweep)(struct http_schedule *schedule, uint64_t now_ms))
{
    uv_idle_init(loop, &schedule->idle);
    uv_timer_init(loop, &schedule->timer);
    uv_unref((uv_handle_t *)&schedule->timer);
    TAILQ_INIT(&schedule->tasks);
    schedule->count = 0;
    schedule->due_ms = HTTP_NO_DEADLINE;
    schedule->grain_ms = grain_ms;
    schedule->on_sweep = on_sweep;
    schedule->on_closed = NULL;
    schedule->handles = 2;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_schedule *schedule = handle->data;
    if (--schedule->handles == 0)
        schedule->on_closed(schedule);
}

void http_schedule_close(struct http_schedule *schedule,
                         void (*on_closed)(struct http_schedule *schedule))
{
    schedule->on_closed = on_closed;
    schedule->idle.data = schedule->timer.data = schedule;
    uv_close((uv_handle_t *)&schedule->idle, on_handle_closed);
    uv_close((uv_handle_t *)&schedule->timer, on_handle_closed);
}

void http_schedule_add(struct http_schedule *schedule, struct http_task *task)
{
    if (task->queued || uv_is_closing((uv_handle_t *)&schedule->idle))
        return;
    task->queued = true;
    TAILQ_INSERT_TAIL(&schedule->tasks, task, link);
    if (schedule->count++ == 0)
        uv_idle_start(&schedule->idle, on_idle);
}

void http_schedule_drop(struct http_schedule *schedule, struct http_task *task)
{
    if (!task->queued)
        return;
    task->queued = false;
    TAILQ_REMOVE(&schedule->tasks, task, link);
    if (--schedule->count == 0)
        uv_idle_stop(&schedule->idle);
}

static void arm_timer(struct http_schedule *schedule, uint64_t deadline_ms)
{
    uint64_t now_ms = uv_now(schedule->timer.loop);
    schedule->due_ms = deadline_ms;
    uv_timer_start(&schedule->timer, on_timer, deadline_ms > now_ms ? deadline_ms - now_ms : 0, 0);
}

void http_schedule_deadline(struct http_schedule *schedule, uint64_t deadline_ms)
{
    if (deadline_ms < schedule->due_ms && !uv_is_closing((uv_handle_t *)&schedule->timer))
        arm_timer(schedule, deadline_ms);
}
