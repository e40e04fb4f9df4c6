/* The launcher's event loop: epoll and a handful of timers, one thread.
 *
 * A callback may unwatch and free any source, its own included: events are taken from the kernel
 * one at a time, so none is ever pending for a source that is gone. Fairness comes from epoll,
 * which moves a source that was reported to the end of its queue. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct loop_source {
    int fd; /* borrowed; -1 when not watched */
    void (*ready)(struct loop_source *source);
};

struct loop_timer {
    uint64_t due_ns; /* monotonic; 0: off */
    void (*fire)(struct loop_timer *timer);
    struct loop_timer *next;
};

struct loop {
    int epoll_fd;
    bool stop;
    struct loop_timer *timers;
};

int loop_init(struct loop *loop, struct error *err);
void loop_done(struct loop *loop);

/* Call `ready` whenever fd is readable, at its end or broken, until unwatched. Unwatch before
 * closing: a child that inherited the description would keep it in the set. */
int loop_watch(struct loop *loop, struct loop_source *source, int fd,
               void (*ready)(struct loop_source *source), struct error *err);
void loop_unwatch(struct loop *loop, struct loop_source *source); /* not watched: does nothing */

/* `to` watches what `from` watched. */
void loop_hand_over(struct loop *loop, struct loop_source *from, struct loop_source *to,
                    void (*ready)(struct loop_source *source));

/* Timers are registered once and live as long as the loop. Setting one that is set moves it. */
void loop_timer_add(struct loop *loop, struct loop_timer *timer,
                    void (*fire)(struct loop_timer *timer));
void loop_timer_set(struct loop_timer *timer, uint64_t delay_ms);
void loop_timer_clear(struct loop_timer *timer);
bool loop_timer_is_set(const struct loop_timer *timer);

/* Serve until loop->stop. */
int loop_run(struct loop *loop, struct error *err);
