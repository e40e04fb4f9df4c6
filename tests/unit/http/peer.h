/* For tests with real sockets: one loop, and raw peers on it that send and record exact bytes. All
 * waiting is for events; a guard timer fails a test that would wait for ever. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/mem.h"

#define PEER_MAX (64 * 1024 * 1024)

static uv_loop_t loop;
static uv_timer_t guard;
static bool guard_fired;

#define WAIT(condition)                                          \
    do {                                                         \
        while (!(condition)) {                                   \
            if (guard_fired)                                     \
                fail_msg("waited too long for: %s", #condition); \
            uv_run(&loop, UV_RUN_ONCE);                          \
        }                                                        \
    } while (0)

static inline void on_guard(uv_timer_t *timer)
{
    (void)timer;
    guard_fired = true;
}

static inline int world_setup(void **state)
{
    (void)state;
    guard_fired = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &guard);
    uv_timer_start(&guard, on_guard, 30000, 0);
    return 0;
}

/* Everything must have been closed by the test: a handle left open fails it. */
static inline int world_teardown(void **state)
{
    (void)state;
    uv_close((uv_handle_t *)&guard, NULL);
    for (int i = 0; i < 100 && uv_loop_alive(&loop); i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

/* Let the loop turn a few times: for asserting that something does not happen. */
static inline void turn_loop(int turns)
{
    for (int i = 0; i < turns; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static inline void on_pause(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Let time pass, for time-outs that must not fire. */
static inline void pass_time(uint64_t ms)
{
    bool done = false;
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    timer.data = &done;
    uv_timer_start(&timer, on_pause, ms, 0);
    WAIT(done);
    uv_close((uv_handle_t *)&timer, NULL);
    turn_loop(2);
}

/* --- peers ------------------------------------------------------------------------------------ */

struct peer {
    uv_poll_t poll;
    int fd;
    struct buf in;
    struct buf out;
    bool end_after_out;
    bool paused;
    bool eof;   /* orderly end */
    bool reset; /* any error */
};

static inline void peer_update(struct peer *peer);

static inline void peer_write(struct peer *peer)
{
    while (peer->out.length > 0) {
        ssize_t n = send(peer->fd, peer->out.data, peer->out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            peer->reset = true;
            buf_clear(&peer->out);
            return;
        }
        buf_consume(&peer->out, (size_t)n);
    }
    if (peer->end_after_out)
        shutdown(peer->fd, SHUT_WR);
    peer->end_after_out = false;
}

static inline void peer_read(struct peer *peer)
{
    static char chunk[64 * 1024];
    ssize_t n = recv(peer->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n > 0)
        assert_int_equal(buf_add(&peer->in, chunk, (size_t)n), 0);
    else if (n == 0)
        peer->eof = true;
    else if (errno != EAGAIN)
        peer->reset = true;
}

static inline void on_peer_poll(uv_poll_t *poll, int status, int events)
{
    struct peer *peer = CONTAINER_OF(poll, struct peer, poll);
    if (status < 0)
        peer->reset = true;
    if ((events & UV_WRITABLE) != 0)
        peer_write(peer);
    if ((events & UV_READABLE) != 0)
        peer_read(peer);
    peer_update(peer);
}

static inline void peer_update(struct peer *peer)
{
    int events = 0;
    if (!peer->eof && !peer->reset && !peer->paused)
        events |= UV_READABLE;
    if (peer->out.length > 0)
        events |= UV_WRITABLE;
    if (events == 0)
        uv_poll_stop(&peer->poll);
    else
        uv_poll_start(&peer->poll, events, on_peer_poll);
}

static inline struct peer *peer_new(int fd)
{
    assert_true(fd >= 0);
    struct peer *peer = mem_alloc(sizeof(*peer));
    peer->fd = fd;
    buf_init(&peer->in, PEER_MAX);
    buf_init(&peer->out, PEER_MAX);
    assert_int_equal(uv_poll_init(&loop, &peer->poll, fd), 0);
    peer_update(peer);
    return peer;
}

/* Small kernel buffers, so that a reader who stops is felt after some hundred kilobytes. */
static inline int small_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int size = 64 * 1024;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return fd;
}

static inline struct peer *peer_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = small_socket(AF_INET);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return peer_new(fd);
}

static inline void on_peer_closed(uv_handle_t *handle)
{
    struct peer *peer = CONTAINER_OF(handle, struct peer, poll);
    close(peer->fd);
    buf_done(&peer->in);
    buf_done(&peer->out);
    free(peer);
}

static inline void peer_close(struct peer *peer)
{
    uv_close((uv_handle_t *)&peer->poll, on_peer_closed);
    turn_loop(2);
}

/* With unread or unsent data thrown away: the other side sees a reset. */
static inline void peer_reset(struct peer *peer)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    peer_close(peer);
}

static inline void peer_send_bytes(struct peer *peer, const void *bytes, size_t length)
{
    assert_int_equal(buf_add(&peer->out, bytes, length), 0);
    peer_write(peer);
    peer_update(peer);
}

static inline void peer_send(struct peer *peer, const char *text)
{
    peer_send_bytes(peer, text, strlen(text));
}

static inline void peer_end(struct peer *peer)
{
    peer->end_after_out = true;
    peer_write(peer);
    peer_update(peer);
}

static inline void peer_pause(struct peer *peer, bool paused)
{
    peer->paused = paused;
    peer_update(peer);
}

static inline bool peer_has(const struct peer *peer, const char *text)
{
    return memmem(peer->in.data, peer->in.length, text, strlen(text)) != NULL;
}

static inline size_t peer_count(const struct peer *peer, const char *text)
{
    size_t count = 0;
    const char *at = peer->in.data;
    const char *end = at + peer->in.length;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        at += strlen(text);
        count++;
    }
    return count;
}

#define peer_expect(peer, text) WAIT(peer_has(peer, text))
#define peer_expect_end(peer)   WAIT((peer)->eof || (peer)->reset)

/* --- raw listeners ---------------------------------------------------------------------------- */

struct listener {
    uv_poll_t poll;
    int fd;
    int port;
    struct peer *accepted[16];
    size_t count;
};

static inline void on_listener_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = CONTAINER_OF(poll, struct listener, poll);
    (void)status;
    (void)events;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && listener->count < 16)
        listener->accepted[listener->count++] = peer_new(fd);
}

static inline struct listener *listener_of_fd(int fd)
{
    struct listener *listener = mem_alloc(sizeof(*listener));
    listener->fd = fd;
    assert_int_equal(listen(fd, 16), 0);
    uv_poll_init(&loop, &listener->poll, fd);
    uv_poll_start(&listener->poll, UV_READABLE, on_listener_poll);
    return listener;
}

static inline struct listener *listen_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = small_socket(AF_INET);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    struct listener *listener = listener_of_fd(fd);
    listener->port = ntohs(address.sin_port);
    return listener;
}

static inline void on_listener_handle_closed(uv_handle_t *handle)
{
    struct listener *listener = CONTAINER_OF(handle, struct listener, poll);
    close(listener->fd);
    free(listener);
}

static inline void listener_close(struct listener *listener)
{
    for (size_t i = 0; i < listener->count; i++)
        if (listener->accepted[i] != NULL)
            peer_close(listener->accepted[i]);
    uv_close((uv_handle_t *)&listener->poll, on_listener_handle_closed);
    turn_loop(2);
}

static inline int bind_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Bytes that differ at every place, to see any that are lost, doubled or moved. */
static inline char *make_pattern(size_t length)
{
    char *bytes = mem_alloc(length + 1);
    uint32_t x = 12345;
    for (size_t i = 0; i < length; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (char)('a' + (x >> 24) % 26);
    }
    return bytes;
}
