/* Output goes straight to the socket while nothing is queued; what the kernel does not take is
 * copied into a list of blocks. At most one uv_write() is under way, over a small piece of the
 * first block: it serves to wait for room and to report errors from the loop, and when it completes
 * the rest is written with one vector. So progress is seen in small steps (stall time-outs need
 * that) and bytes already handed to libuv never move.
 *
 * One read buffer serves all streams, as a process has one loop thread: libuv fills it and calls
 * back before it reads anything else, and consumers copy what they keep. An idle connection holds
 * no buffer at all, and only the pages that were ever read into are in memory. */
#include "http/stream.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "base/mem.h"

#define READ_BYTES       (64 * 1024)
#define BLOCK_BYTES      (16 * 1024)
#define STEP_BYTES       (16 * 1024) /* handed to one uv_write() */
#define VECTOR_MAX       16
#define KEEPALIVE_SECS   60
#define FLUSH_TIMEOUT_MS 10000 /* without progress, once the owner has gone */

enum stream_state {
    STREAM_CONNECTING,
    STREAM_OPEN,
    STREAM_BROKEN,   /* on_error was called; the owner still has to close */
    STREAM_FLUSHING, /* the owner has gone, the queue is being written */
    STREAM_CLOSED,
};

struct block {
    struct block *next;
    size_t start; /* first byte not yet written */
    size_t end;
    size_t capacity;
    char bytes[];
};

struct flush_timer {
    uv_timer_t timer;
    struct http_stream *stream;
};

struct http_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    /* Never two at a time: writes start after the connection is made, shutdown after the last. */
    union {
        uv_connect_t connect;
        uv_write_t write;
        uv_shutdown_t shutdown;
    } request;
    const struct http_stream_events *events;
    void *ctx;
    enum stream_state state;
    bool want_read;
    bool read_ended;
    bool want_shutdown;
    bool shut_down;
    bool was_full;
    int write_status;    /* why output failed, 0 while it works */
    size_t in_flight;    /* bytes of the first block in the pending uv_write() */
    struct block *first; /* output queue */
    struct block *last;
    size_t queued;
    uint64_t last_read_ms;
    uint64_t last_write_ms;
    struct flush_timer *flush_timer;
    struct http_connector *connector; /* while it makes our connection */
    struct http_connecting *connecting;
    struct error *failure; /* what it said */
    char peer[INET6_ADDRSTRLEN];
};

static char read_buffer[READ_BYTES] __attribute__((aligned(READ_BYTES)));

void http_stream_release_buffer(void)
{
    madvise(read_buffer, sizeof(read_buffer), MADV_DONTNEED);
}

static void set_state(struct http_stream *stream, enum stream_state state)
{
    static const unsigned allowed[] = {
        [STREAM_CONNECTING] =
            1u << STREAM_OPEN | 1u << STREAM_BROKEN | 1u << STREAM_FLUSHING | 1u << STREAM_CLOSED,
        [STREAM_OPEN] = 1u << STREAM_BROKEN | 1u << STREAM_FLUSHING | 1u << STREAM_CLOSED,
        [STREAM_BROKEN] = 1u << STREAM_CLOSED,
        [STREAM_FLUSHING] = 1u << STREAM_CLOSED,
    };
    assert(stream->state != STREAM_CLOSED && (allowed[stream->state] & 1u << state) != 0);
    stream->state = state;
}

static bool has_owner(const struct http_stream *stream)
{
    return stream->state != STREAM_FLUSHING && stream->state != STREAM_CLOSED;
}

/* --- addresses -------------------------------------------------------------------------------- */

int http_address_tcp(struct http_address *address, const char *ip, int port)
{
    *address = (struct http_address){.kind = HTTP_ADDRESS_TCP};
    if (port < 1 || port > 65535)
        return -EINVAL;
    if (uv_ip4_addr(ip, port, (struct sockaddr_in *)&address->tcp) == 0 ||
        uv_ip6_addr(ip, port, (struct sockaddr_in6 *)&address->tcp) == 0)
        return 0;
    return -EINVAL;
}

int http_address_unix(struct http_address *address, const char *path)
{
    *address = (struct http_address){.kind = HTTP_ADDRESS_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(address->unix_path))
        return -ENAMETOOLONG;
    memcpy(address->unix_path, path, length + 1);
    return 0;
}

int http_address_connector(struct http_address *address, struct http_connector *connector,
                           const char *host, int port)
{
    *address = (struct http_address){.kind = HTTP_ADDRESS_CONNECTOR};
    size_t length = strlen(host);
    if (length >= sizeof(address->made.host))
        return -ENAMETOOLONG;
    memcpy(address->made.host, host, length + 1);
    address->made.connector = connector;
    address->made.port = port;
    return 0;
}

static void set_peer(struct http_stream *stream, const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
            inet_ntop(AF_INET, in6->sin6_addr.s6_addr + 12, stream->peer, sizeof(stream->peer));
        else
            inet_ntop(AF_INET6, &in6->sin6_addr, stream->peer, sizeof(stream->peer));
    } else if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, stream->peer, sizeof(stream->peer));
    }
}

/* --- closing ---------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_stream *stream = handle->data;
    for (struct block *block = stream->first; block != NULL;) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
    free(stream->failure);
    free(stream);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF(handle, struct flush_timer, timer));
}

static void close_now(struct http_stream *stream)
{
    set_state(stream, STREAM_CLOSED);
    stream->events = NULL;
    if (stream->connector != NULL)
        stream->connector->cancel(TAKE_PTR(stream->connector), TAKE_PTR(stream->connecting));
    if (stream->flush_timer != NULL)
        uv_close((uv_handle_t *)&stream->flush_timer->timer, on_timer_closed);
    uv_close(&stream->uv.handle, on_handle_closed);
}

void http_stream_close(struct http_stream *stream)
{
    if (stream != NULL)
        close_now(stream);
}

static void on_flush_timer(uv_timer_t *timer)
{
    struct http_stream *stream = CONTAINER_OF(timer, struct flush_timer, timer)->stream;
    if (uv_now(timer->loop) - stream->last_write_ms >= FLUSH_TIMEOUT_MS)
        close_now(stream);
}

void http_stream_close_after_write(struct http_stream *stream)
{
    if (stream->state == STREAM_BROKEN || stream->queued == 0 || stream->write_status != 0) {
        close_now(stream);
        return;
    }
    stream->events = NULL;
    if (stream->state == STREAM_OPEN)
        uv_read_stop(&stream->uv.stream);
    set_state(stream, STREAM_FLUSHING);
    struct flush_timer *flush = mem_alloc(sizeof(*flush));
    flush->stream = stream;
    uv_timer_init(stream->uv.handle.loop, &flush->timer);
    uv_timer_start(&flush->timer, on_flush_timer, FLUSH_TIMEOUT_MS, FLUSH_TIMEOUT_MS);
    stream->flush_timer = flush;
}

static void break_stream(struct http_stream *stream, int status)
{
    if (stream->state == STREAM_FLUSHING) {
        close_now(stream);
        return;
    }
    set_state(stream, STREAM_BROKEN);
    uv_read_stop(&stream->uv.stream);
    stream->events->on_error(stream->ctx, status);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, sizeof(read_buffer));
}

static void on_read(uv_stream_t *handle, ssize_t count, const uv_buf_t *buf)
{
    struct http_stream *stream = handle->data;
    if (!has_owner(stream) || count == 0)
        return;
    if (count > 0) {
        stream->last_read_ms = uv_now(handle->loop);
        stream->events->on_data(stream->ctx, buf->base, (size_t)count);
        return;
    }
    stream->read_ended = true;
    if (count != UV_EOF)
        break_stream(stream, (int)count);
    else if (stream->write_status != 0)
        break_stream(stream, stream->write_status);
    else
        stream->events->on_end(stream->ctx);
}

void http_stream_read_start(struct http_stream *stream)
{
    if (!has_owner(stream) || stream->want_read)
        return;
    stream->want_read = true;
    if (stream->state == STREAM_OPEN && !stream->read_ended)
        uv_read_start(&stream->uv.stream, on_alloc, on_read);
}

void http_stream_read_stop(struct http_stream *stream)
{
    if (!has_owner(stream) || !stream->want_read)
        return;
    stream->want_read = false;
    if (stream->state == STREAM_OPEN)
        uv_read_stop(&stream->uv.stream);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status);

static void on_shut_down(uv_shutdown_t *request, int status)
{
    (void)request;
    (void)status; /* a broken connection is reported by the reading side */
}

static void shut_down_if_written(struct http_stream *stream)
{
    if (!stream->want_shutdown || stream->shut_down || stream->queued > 0)
        return;
    stream->shut_down = true;
    uv_shutdown(&stream->request.shutdown, &stream->uv.stream, on_shut_down);
}

/* A reset often follows an answer that is still unread: let the reader find it first. When nobody
 * reads, the owner hears of it now. */
static void fail_write(struct http_stream *stream, int status)
{
    stream->write_status = status;
    if (!stream->want_read || stream->read_ended || stream->state == STREAM_FLUSHING)
        break_stream(stream, status);
}

static void submit_write(struct http_stream *stream)
{
    struct block *block = stream->first;
    stream->in_flight = MIN(block->end - block->start, (size_t)STEP_BYTES);
    uv_buf_t part = uv_buf_init(block->bytes + block->start, (unsigned)stream->in_flight);
    int r = uv_write(&stream->request.write, &stream->uv.stream, &part, 1, on_written);
    if (r < 0) { /* only for handles that cannot be written at all */
        stream->in_flight = 0;
        stream->write_status = r;
    }
}

static void drop_written(struct http_stream *stream, size_t length)
{
    stream->queued -= length;
    while (length > 0) {
        struct block *block = stream->first;
        assert(block != NULL); /* what was written was queued */
        size_t part = MIN(length, block->end - block->start);
        block->start += part;
        length -= part;
        if (block->start < block->end)
            break;
        stream->first = block->next;
        if (stream->first == NULL)
            stream->last = NULL;
        free(block);
    }
}

/* Write queued blocks until the kernel takes no more. Errors surface in the uv_write() after. */
static void write_queue(struct http_stream *stream)
{
    while (stream->first != NULL) {
        uv_buf_t parts[VECTOR_MAX];
        unsigned count = 0;
        for (struct block *block = stream->first; block != NULL && count < VECTOR_MAX;
             block = block->next)
            parts[count++] =
                uv_buf_init(block->bytes + block->start, (unsigned)(block->end - block->start));
        int r = uv_try_write(&stream->uv.stream, parts, count);
        if (r <= 0)
            break;
        drop_written(stream, (size_t)r);
    }
    if (stream->first != NULL)
        submit_write(stream);
}

/* Some of the queue was written, or all of it. */
static void after_progress(struct http_stream *stream)
{
    bool empty = stream->queued == 0;
    if (stream->state == STREAM_FLUSHING) {
        if (empty)
            close_now(stream);
        return;
    }
    shut_down_if_written(stream);
    if (empty || (stream->was_full && stream->queued <= HTTP_STREAM_LOW_BYTES)) {
        stream->was_full = false;
        stream->events->on_drain(stream->ctx);
    }
}

static void on_written(uv_write_t *request, int status)
{
    struct http_stream *stream = CONTAINER_OF(request, struct http_stream, request.write);
    if (stream->state == STREAM_CLOSED)
        return;
    size_t length = stream->in_flight;
    stream->in_flight = 0;
    if (status < 0) {
        fail_write(stream, status);
        return;
    }
    if (stream->write_status != 0) { /* the queue overflowed meanwhile */
        break_stream(stream, stream->write_status);
        return;
    }
    stream->last_write_ms = uv_now(stream->uv.handle.loop);
    drop_written(stream, length);
    write_queue(stream);
    after_progress(stream);
}

static void append_bytes(struct http_stream *stream, const char *bytes, size_t length)
{
    struct block *last = stream->last;
    if (last != NULL) {
        size_t part = MIN(length, last->capacity - last->end);
        memcpy(last->bytes + last->end, bytes, part);
        last->end += part;
        bytes += part;
        length -= part;
    }
    if (length == 0)
        return;
    size_t capacity = MAX(length, (size_t)BLOCK_BYTES);
    struct block *block = malloc(sizeof(*block) + capacity);
    if (block == NULL)
        abort(); /* as mem_alloc(), but without clearing what is written at once */
    *block = (struct block){.end = length, .capacity = capacity};
    memcpy(block->bytes, bytes, length);
    if (last != NULL)
        last->next = block;
    else
        stream->first = block;
    stream->last = block;
}

static void append_parts(struct http_stream *stream, const uv_buf_t *parts, unsigned count,
                         size_t skip)
{
    if (stream->queued == 0)
        stream->last_write_ms = uv_now(stream->uv.handle.loop);
    for (unsigned i = 0; i < count; i++) {
        size_t taken = MIN(skip, parts[i].len);
        skip -= taken;
        append_bytes(stream, parts[i].base + taken, parts[i].len - taken);
        stream->queued += parts[i].len - taken;
    }
    if (stream->queued > HTTP_STREAM_HIGH_BYTES)
        stream->was_full = true;
}

void http_stream_write_parts(struct http_stream *stream, const uv_buf_t *parts, unsigned count)
{
    if (stream->state > STREAM_OPEN || stream->want_shutdown || stream->write_status != 0)
        return;
    size_t total = 0;
    for (unsigned i = 0; i < count; i++)
        total += parts[i].len;
    size_t sent = 0;
    if (stream->state == STREAM_OPEN && stream->queued == 0 && total > 0) {
        int r = uv_try_write(&stream->uv.stream, parts, count);
        if (r > 0) {
            sent = (size_t)r;
            stream->last_write_ms = uv_now(stream->uv.handle.loop);
        }
    }
    if (sent == total)
        return;
    if (stream->queued > 0 && total > HTTP_STREAM_QUEUE_MAX - stream->queued) {
        stream->write_status = UV_ENOBUFS;
        return;
    }
    append_parts(stream, parts, count, sent);
    if (stream->state == STREAM_OPEN && stream->in_flight == 0)
        submit_write(stream);
}

void http_stream_write(struct http_stream *stream, const void *bytes, size_t length)
{
    /* uv_buf_t is not const, but nothing writes through it here. */
    uv_buf_t part = {.base = (char *)(uintptr_t)bytes, .len = length};
    http_stream_write_parts(stream, &part, 1);
}

size_t http_stream_send_file(struct http_stream *stream, int fd, uint64_t offset, size_t length)
{
    uv_os_fd_t socket = -1;
    if (stream->state != STREAM_OPEN || stream->want_shutdown || stream->write_status != 0 ||
        stream->queued > 0 || uv_fileno(&stream->uv.handle, &socket) < 0)
        return 0;
    off_t position = (off_t)offset;
    ssize_t n = sendfile(socket, fd, &position, length);
    if (n <= 0)
        return 0;
    stream->last_write_ms = uv_now(stream->uv.handle.loop);
    return (size_t)n;
}

void http_stream_shutdown(struct http_stream *stream)
{
    if (stream->state > STREAM_OPEN || stream->want_shutdown)
        return;
    stream->want_shutdown = true;
    if (stream->state == STREAM_OPEN)
        shut_down_if_written(stream);
}

/* --- birth ------------------------------------------------------------------------------------ */

/* A peer that went away must give EPIPE, not a signal: libuv writes with write(). */
static void ignore_sigpipe(void)
{
    static bool done;
    struct sigaction current;
    if (!done && sigaction(SIGPIPE, NULL, &current) == 0 && current.sa_handler == SIG_DFL) {
        current.sa_handler = SIG_IGN;
        sigaction(SIGPIPE, &current, NULL);
    }
    done = true;
}

static struct http_stream *stream_new(uv_loop_t *loop, uv_handle_type type,
                                      const struct http_stream_events *events, void *ctx)
{
    ignore_sigpipe();
    struct http_stream *stream = mem_alloc(sizeof(*stream));
    /* Neither can fail without an address family to make a socket for. */
    if (type == UV_TCP)
        uv_tcp_init(loop, &stream->uv.tcp);
    else
        uv_pipe_init(loop, &stream->uv.pipe, 0);
    stream->uv.handle.data = stream;
    stream->events = events;
    stream->ctx = ctx;
    stream->last_read_ms = stream->last_write_ms = uv_now(loop);
    if (type == UV_NAMED_PIPE)
        memcpy(stream->peer, "unix", sizeof("unix"));
    return stream;
}

static void tune_tcp(struct http_stream *stream)
{
    if (stream->uv.handle.type != UV_TCP)
        return;
    uv_tcp_nodelay(&stream->uv.tcp, 1);
    /* A peer whose machine is gone never says so: quiet event streams would stay for ever. */
    uv_tcp_keepalive(&stream->uv.tcp, 1, KEEPALIVE_SECS);
}

struct http_stream *http_stream_accept(uv_stream_t *listener,
                                       const struct http_stream_events *events, void *ctx,
                                       struct error *err)
{
    struct http_stream *stream = stream_new(listener->loop, listener->type, events, ctx);
    int r = uv_accept(listener, &stream->uv.stream);
    if (r < 0) {
        close_now(stream);
        error_set_errno(err, -r, "cannot accept a connection");
        return NULL;
    }
    set_state(stream, STREAM_OPEN);
    tune_tcp(stream);
    struct sockaddr_storage address = {0};
    int length = sizeof(address);
    if (listener->type == UV_TCP &&
        uv_tcp_getpeername(&stream->uv.tcp, (struct sockaddr *)&address, &length) == 0)
        set_peer(stream, &address);
    return stream;
}

static void connected(struct http_stream *stream, int status)
{
    if (status < 0) {
        break_stream(stream, status);
        return;
    }
    tune_tcp(stream);
    stream->last_write_ms = uv_now(stream->uv.handle.loop);
    if (stream->state != STREAM_FLUSHING) {
        set_state(stream, STREAM_OPEN);
        if (stream->want_read)
            uv_read_start(&stream->uv.stream, on_alloc, on_read);
        stream->events->on_connect(stream->ctx);
    }
    if (stream->state == STREAM_CLOSED)
        return;
    if (stream->write_status != 0) { /* the queue overflowed meanwhile */
        break_stream(stream, stream->write_status);
    } else if (stream->queued > 0 && stream->in_flight == 0) {
        write_queue(stream);
        after_progress(stream);
    } else {
        shut_down_if_written(stream);
    }
}

static void on_connected(uv_connect_t *request, int status)
{
    struct http_stream *stream = CONTAINER_OF(request, struct http_stream, request.connect);
    if (stream->state != STREAM_CLOSED)
        connected(stream, status);
}

/* Of a connector. */
static void on_made(int fd, const struct error *err, void *ctx)
{
    struct http_stream *stream = ctx;
    stream->connector = NULL;
    stream->connecting = NULL;
    int r = fd >= 0 ? uv_tcp_open(&stream->uv.tcp, fd) : UV_ECONNREFUSED;
    if (fd >= 0 && r < 0)
        fd_close(fd);
    if (err != NULL) {
        stream->failure = mem_alloc(sizeof(*stream->failure));
        *stream->failure = *err;
    }
    connected(stream, r);
}

struct http_stream *http_stream_connect(uv_loop_t *loop, const struct http_address *address,
                                        const struct http_stream_events *events, void *ctx,
                                        struct error *err)
{
    bool local = address->kind == HTTP_ADDRESS_UNIX;
    struct http_stream *stream = stream_new(loop, local ? UV_NAMED_PIPE : UV_TCP, events, ctx);
    if (address->kind == HTTP_ADDRESS_CONNECTOR) {
        stream->connector = address->made.connector;
        stream->connecting = stream->connector->start(stream->connector, address->made.host,
                                                      address->made.port, on_made, stream);
        return stream;
    }
    if (local) {
        uv_pipe_connect(&stream->request.connect, &stream->uv.pipe, address->unix_path,
                        on_connected);
        return stream;
    }
    set_peer(stream, &address->tcp);
    int r = uv_tcp_connect(&stream->request.connect, &stream->uv.tcp,
                           (const struct sockaddr *)&address->tcp, on_connected);
    if (r < 0) {
        error_set_errno(err, -r, "cannot connect");
        close_now(stream);
        return NULL;
    }
    return stream;
}

void http_stream_set_events(struct http_stream *stream, const struct http_stream_events *events,
                            void *ctx)
{
    stream->events = events;
    stream->ctx = ctx;
}

/* --- questions -------------------------------------------------------------------------------- */

size_t http_stream_queued(const struct http_stream *stream)
{
    return stream->queued;
}

bool http_stream_is_full(const struct http_stream *stream)
{
    return stream->queued > HTTP_STREAM_HIGH_BYTES;
}

uint64_t http_stream_last_read_ms(const struct http_stream *stream)
{
    return stream->last_read_ms;
}

uint64_t http_stream_last_write_ms(const struct http_stream *stream)
{
    return stream->last_write_ms;
}

bool http_stream_is_quiet(const struct http_stream *stream)
{
    uv_os_fd_t fd = -1;
    if (stream->state != STREAM_OPEN || stream->read_ended || stream->queued > 0 ||
        uv_fileno(&stream->uv.handle, &fd) < 0)
        return false;
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

const struct error *http_stream_failure(const struct http_stream *stream)
{
    return stream->failure;
}

const char *http_stream_peer(const struct http_stream *stream)
{
    return stream->peer;
}
