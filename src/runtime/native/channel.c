#include "runtime/native/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/mem.h"

#define RETRY_MS         1000
#define HELLO_TIMEOUT_MS 5000

struct unsent {
    STAILQ_ENTRY(unsent) link;
    union message message;
};

/* One connection. Lives until libuv has closed its poll handle, which may be after the next
 * connection was made. */
struct link {
    uv_poll_t poll;
    struct native_channel *channel;
    int fd;
};

struct native_channel {
    uv_loop_t *loop;
    char *path;
    struct native_channel_events events;
    void *ctx;
    struct link *link; /* NULL while the launcher is away */
    bool ready;        /* and HELLO was answered */
    uint32_t last_sequence;
    uint32_t hello_sequence;
    struct message_welcome welcome;
    STAILQ_HEAD(unsent_list, unsent) unsent;
    uv_timer_t retry;
};

static void on_poll(uv_poll_t *handle, int status, int events);
static void on_retry(uv_timer_t *timer);

/* --- connecting ------------------------------------------------------------------------------- */

static int connect_launcher(const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(err, ERR_INVALID, "socket path %s is longer than %zu bytes", path,
                         sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return error_set_errno(err, errno, "cannot connect to the launcher at %s", path);
    return TAKE_FD(fd);
}

static int check_hello_answer(const union message *message, struct error *err)
{
    if (message->header.type == MESSAGE_WELCOME)
        return 0;
    if (message->header.type == MESSAGE_RESULT && message->result.code != ERR_OK)
        return error_set(err, (enum error_code)message->result.code, "the launcher refused: %s",
                         message->result.message);
    return error_set(err, ERR_INTERNAL, "the launcher did not answer HELLO");
}

static int hello_and_wait(int fd, uint32_t sequence, struct message_welcome *ret, struct error *err)
{
    union message message;
    message_init(&message, MESSAGE_HELLO, sequence);
    int r = message_send(fd, &message);
    if (r < 0)
        return error_set_errno(err, -r, "cannot send to the launcher");
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    do
        r = poll(&answer, 1, HELLO_TIMEOUT_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return error_set(err, ERR_TIMEOUT, "the launcher did not answer within %d ms",
                         HELLO_TIMEOUT_MS);
    struct error why = ERROR_INIT;
    r = message_receive(fd, false, &message, &why);
    if (r == -EPROTO)
        return error_set(err, ERR_INTERNAL, "the launcher answers nonsense: %s", why.message);
    if (r < 0)
        return error_set_errno(err, -r, "cannot read from the launcher");
    if (r == 0)
        return error_set(err, ERR_DENIED,
                         "the launcher closed the connection; does it serve the "
                         "user of this server?");
    r = check_hello_answer(&message, err);
    if (r == 0)
        *ret = message.welcome;
    return r;
}

static void watch(struct native_channel *channel, bool for_writing)
{
    uv_poll_start(&channel->link->poll, UV_READABLE | (for_writing ? UV_WRITABLE : 0), on_poll);
}

static void adopt(struct native_channel *channel, int fd)
{
    struct link *link = mem_alloc(sizeof(*link));
    link->channel = channel;
    link->fd = fd;
    link->poll.data = link;
    uv_poll_init(channel->loop, &link->poll, fd);
    channel->link = link;
    watch(channel, false);
}

static void on_link_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void disconnect(struct native_channel *channel)
{
    struct link *link = TAKE_PTR(channel->link);
    channel->ready = false;
    if (link != NULL) {
        uv_close((uv_handle_t *)&link->poll, on_link_closed);
        link->fd = fd_close(link->fd);
    }
    struct unsent *unsent;
    while ((unsent = STAILQ_FIRST(&channel->unsent)) != NULL) {
        STAILQ_REMOVE_HEAD(&channel->unsent, link);
        free(unsent);
    }
}

static void lose(struct native_channel *channel, const char *why)
{
    bool was_ready = channel->ready;
    disconnect(channel);
    uv_timer_start(&channel->retry, on_retry, RETRY_MS, 0);
    if (was_ready)
        channel->events.on_lost(why, channel->ctx);
}

static void on_retry(uv_timer_t *timer)
{
    struct native_channel *channel = timer->data;
    int fd = connect_launcher(channel->path, NULL);
    if (fd < 0) {
        uv_timer_start(&channel->retry, on_retry, RETRY_MS, 0);
        return;
    }
    adopt(channel, fd);
    union message message;
    message_init(&message, MESSAGE_HELLO, 0);
    if (native_channel_send(channel, &message, &channel->hello_sequence) < 0)
        lose(channel, "it does not take a HELLO");
}

/* --- sending ---------------------------------------------------------------------------------- */

int native_channel_send(struct native_channel *channel, union message *message,
                        uint32_t *ret_sequence)
{
    if (++channel->last_sequence == 0) /* 0 is for events */
        channel->last_sequence = 1;
    message->header.sequence = channel->last_sequence;
    int r = -EAGAIN;
    if (STAILQ_EMPTY(&channel->unsent))
        r = message_send(channel->link->fd, message);
    if (r == -EAGAIN) {
        struct unsent *unsent = mem_alloc(sizeof(*unsent));
        unsent->message = *message;
        STAILQ_INSERT_TAIL(&channel->unsent, unsent, link);
        watch(channel, true);
        r = 0;
    }
    *ret_sequence = channel->last_sequence;
    return r;
}

static void flush_unsent(struct native_channel *channel)
{
    struct unsent *unsent;
    while ((unsent = STAILQ_FIRST(&channel->unsent)) != NULL) {
        int r = message_send(channel->link->fd, &unsent->message);
        if (r == -EAGAIN)
            return;
        if (r < 0) {
            lose(channel, strerror(-r));
            return;
        }
        STAILQ_REMOVE_HEAD(&channel->unsent, link);
        free(unsent);
    }
    watch(channel, false);
}

/* --- receiving -------------------------------------------------------------------------------- */

/* The descriptor is taken. */
static void take_message(struct native_channel *channel, const union message *message, int fd)
{
    if (channel->ready) {
        channel->events.on_message(message, fd, channel->ctx);
        return;
    }
    fd_close(fd);
    /* Until it is greeted, the launcher may say nothing but the answer to that. */
    struct error err = ERROR_INIT;
    if (message->header.sequence != channel->hello_sequence ||
        check_hello_answer(message, &err) < 0) {
        lose(channel, err.message);
        return;
    }
    channel->ready = true;
    channel->welcome = message->welcome;
    channel->events.on_ready(channel->ctx);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct link *link = handle->data;
    struct native_channel *channel = link->channel;
    if (status < 0) {
        lose(channel, uv_strerror(status));
        return;
    }
    if ((events & UV_WRITABLE) != 0)
        flush_unsent(channel);
    union message message;
    struct error err = ERROR_INIT;
    /* Whatever is called may end this connection. */
    while (channel->link == link) {
        int fd;
        int r = message_receive_with(link->fd, false, &message, &fd, &err);
        if (r == 1)
            take_message(channel, &message, fd);
        else if (r == -EAGAIN)
            return;
        else if (r == -EPROTO)
            lose(channel, err.message);
        else
            lose(channel, r == 0 ? "it closed the connection" : strerror(-r));
    }
}

/* --- life ------------------------------------------------------------------------------------- */

struct native_channel *native_channel_new(uv_loop_t *loop, const char *path,
                                          const struct native_channel_events *events, void *ctx,
                                          struct error *err)
{
    AUTO_CLOSE int fd = connect_launcher(path, err);
    struct message_welcome welcome;
    if (fd < 0 || hello_and_wait(fd, 1, &welcome, err) < 0)
        return NULL;
    struct native_channel *channel = mem_alloc(sizeof(*channel));
    channel->welcome = welcome;
    channel->loop = loop;
    channel->path = mem_dup(path);
    channel->events = *events;
    channel->ctx = ctx;
    channel->last_sequence = 1;
    channel->welcome = welcome;
    channel->ready = true;
    STAILQ_INIT(&channel->unsent);
    uv_timer_init(loop, &channel->retry);
    channel->retry.data = channel;
    adopt(channel, TAKE_FD(fd));
    return channel;
}

static void on_retry_closed(uv_handle_t *handle)
{
    struct native_channel *channel = handle->data;
    free(channel->path);
    free(channel);
}

void native_channel_free(struct native_channel *channel)
{
    disconnect(channel);
    uv_close((uv_handle_t *)&channel->retry, on_retry_closed);
}

bool native_channel_is_ready(const struct native_channel *channel)
{
    return channel->ready;
}

const struct message_welcome *native_channel_welcome(const struct native_channel *channel)
{
    return &channel->welcome;
}
