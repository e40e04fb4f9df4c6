#include "launcher/loop.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/mem.h"

#define NS_PER_MS 1000000ull

int loop_init(struct loop *loop, struct error *err)
{
    *loop = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    if (loop->epoll_fd < 0)
        return error_set_errno(err, errno, "cannot make an event loop");
    return 0;
}

void loop_done(struct loop *loop)
{
    loop->epoll_fd = fd_close(loop->epoll_fd);
}

int loop_watch(struct loop *loop, struct loop_source *source, int fd,
               void (*ready)(struct loop_source *source), struct error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    *source = (struct loop_source){.fd = -1, .ready = ready};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_set_errno(err, errno, "cannot watch a file descriptor");
    source->fd = fd;
    return 0;
}

void loop_unwatch(struct loop *loop, struct loop_source *source)
{
    if (source->fd < 0)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->fd = -1;
}

void loop_hand_over(struct loop *loop, struct loop_source *from, struct loop_source *to,
                    void (*ready)(struct loop_source *source))
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = to};
    *to = (struct loop_source){.fd = from->fd, .ready = ready};
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, from->fd, &event); /* no reason to fail: it is there */
    from->fd = -1;
}

void loop_timer_add(struct loop *loop, struct loop_timer *timer,
                    void (*fire)(struct loop_timer *timer))
{
    *timer = (struct loop_timer){.fire = fire, .next = loop->timers};
    loop->timers = timer;
}

void loop_timer_set(struct loop_timer *timer, uint64_t delay_ms)
{
    timer->due_ns = clock_monotonic_ns() + delay_ms * NS_PER_MS;
}

void loop_timer_clear(struct loop_timer *timer)
{
    timer->due_ns = 0;
}

bool loop_timer_is_set(const struct loop_timer *timer)
{
    return timer->due_ns != 0;
}

static void fire_due(struct loop *loop)
{
    uint64_t now = clock_monotonic_ns();
    for (struct loop_timer *timer = loop->timers; timer != NULL; timer = timer->next) {
        if (timer->due_ns != 0 && timer->due_ns <= now) {
            timer->due_ns = 0;
            timer->fire(timer);
        }
    }
}

/* Milliseconds until the next timer, rounded up so that it is due when we wake; -1 for ever. */
static int next_timeout_ms(const struct loop *loop)
{
    uint64_t next = 0;
    for (const struct loop_timer *timer = loop->timers; timer != NULL; timer = timer->next) {
        if (timer->due_ns != 0 && (next == 0 || timer->due_ns < next))
            next = timer->due_ns;
    }
    if (next == 0)
        return -1;
    uint64_t now = clock_monotonic_ns();
    if (next <= now)
        return 0;
    uint64_t wait_ms = (next - now + NS_PER_MS - 1) / NS_PER_MS;
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

int loop_run(struct loop *loop, struct error *err)
{
    while (!loop->stop) {
        struct epoll_event event;
        int n = epoll_wait(loop->epoll_fd, &event, 1, next_timeout_ms(loop));
        if (n < 0 && errno != EINTR)
            return error_set_errno(err, errno, "cannot wait for events");
        if (n == 1) {
            struct loop_source *source = event.data.ptr;
            source->ready(source);
        }
        fire_due(loop);
    }
    return 0;
}
