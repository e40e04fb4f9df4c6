/* Work put off to the loop, for an owner of many connections: tasks that run from the loop and not
 * inside the call that caused them, and one coarse timer for the deadlines of everything the owner
 * has. Neither wakes the loop while there is nothing to do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#define HTTP_NO_DEADLINE UINT64_MAX

struct http_task {
    TAILQ_ENTRY(http_task) link;
    bool queued;
    void (*run)(struct http_task *task);
};

struct http_schedule {
    uv_idle_t idle;   /* active only while tasks wait */
    uv_timer_t timer; /* active only while something has a deadline; does not keep the loop alive */
    TAILQ_HEAD(, http_task) tasks;
    size_t count;
    uint64_t due_ms;   /* when the timer fires, HTTP_NO_DEADLINE when it is off */
    uint64_t grain_ms; /* at least so long between two sweeps */
    uint64_t (*on_sweep)(struct http_schedule *schedule, uint64_t now_ms);
    void (*on_closed)(struct http_schedule *schedule);
    unsigned handles;
};

/* on_sweep acts on what is due and returns the next deadline, or HTTP_NO_DEADLINE. */
void http_schedule_init(struct http_schedule *schedule, uv_loop_t *loop, uint64_t grain_ms,
                        uint64_t (*on_sweep)(struct http_schedule *schedule, uint64_t now_ms));

/* No task runs after this; on_closed is called from the loop and may free the schedule. */
void http_schedule_close(struct http_schedule *schedule,
                         void (*on_closed)(struct http_schedule *schedule));

void http_schedule_add(struct http_schedule *schedule, struct http_task *task);  /* idempotent */
void http_schedule_drop(struct http_schedule *schedule, struct http_task *task); /* idempotent */

/* Something is due then: sweep not much later. In milliseconds of uv_now(). */
void http_schedule_deadline(struct http_schedule *schedule, uint64_t deadline_ms);
