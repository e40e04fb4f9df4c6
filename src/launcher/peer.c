#include "launcher/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher.h"
#include "launcher/missing.h"

#define BACKLOG          16
#define SEND_QUEUE_BYTES (4 * 1024 * 1024)

static void close_peer(struct peer *peer)
{
    struct launcher *launcher = peer->launcher;
    loop_unwatch(&launcher->loop, &peer->source);
    peer->fd = fd_close(peer->fd);
    peer->number = 0;
    launcher->peers.count--;
    log_debug("peer gone, %u left", launcher->peers.count);
    launcher_check_idle(launcher);
}

static void send_to(struct peer *peer, const union message *message, int fd)
{
    int r = message_send_with(peer->fd, message, fd);
    if (r == 0)
        return;
    if (r == -EAGAIN && log_admits(&peer->launcher->peers.complaints))
        log_warn("cutting a peer that does not read its answers");
    close_peer(peer);
}

static struct peer *find_peer(struct launcher *launcher, uint64_t number)
{
    for (unsigned i = 0; i < PEER_MAX; i++) {
        if (number != 0 && launcher->peers.items[i].number == number)
            return &launcher->peers.items[i];
    }
    return NULL;
}

void peer_send(struct launcher *launcher, struct peer_reply reply, const union message *message)
{
    struct peer *peer = find_peer(launcher, reply.peer);
    if (peer != NULL)
        send_to(peer, message, -1);
}

static bool fill_error(struct message_result *result, const struct error *err)
{
    if (err == NULL || err->code == ERR_OK)
        return false;
    result->code = err->code;
    result->sys = MAX(err->sys, 0);
    snprintf(result->message, sizeof(result->message), "%s", err->message);
    return true;
}

void peer_answer(struct launcher *launcher, struct peer_reply reply, const struct error *err,
                 const char *socket)
{
    union message message;
    message_init(&message, MESSAGE_RESULT, reply.sequence);
    struct message_result *result = &message.result;
    if (!fill_error(result, err) && socket != NULL)
        snprintf(result->socket, sizeof(result->socket), "%s", socket);
    peer_send(launcher, reply, &message);
}

void peer_answer_with(struct launcher *launcher, struct peer_reply reply, const struct error *err,
                      int fd)
{
    struct peer *peer = find_peer(launcher, reply.peer);
    union message message;
    message_init(&message, MESSAGE_RESULT, reply.sequence);
    bool failed = fill_error(&message.result, err);
    if (peer != NULL)
        send_to(peer, &message, failed ? -1 : fd);
}

void peer_broadcast(struct launcher *launcher, const union message *message)
{
    for (unsigned i = 0; i < PEER_MAX; i++) {
        struct peer *peer = &launcher->peers.items[i];
        if (peer->number != 0 && peer->greeted)
            send_to(peer, message, -1);
    }
}

static void handle_request(struct launcher *launcher, struct peer_reply reply,
                           const union message *message)
{
    switch (message->header.type) {
    case MESSAGE_CREATE:
        sandbox_create(launcher, &message->create, reply);
        break;
    case MESSAGE_KILL:
        sandbox_kill(launcher, message->target.id, reply);
        break;
    case MESSAGE_REMOVE:
        sandbox_remove(launcher, message->target.id, reply);
        break;
    case MESSAGE_LIMITS:
        sandbox_set_limits(launcher, message->limits.id, &message->limits.limits, reply);
        break;
    case MESSAGE_DEADLINE:
        sandbox_set_deadline(launcher, message->deadline.id, message->deadline.deadline_unix_ms,
                             reply);
        break;
    case MESSAGE_FREEZE:
    case MESSAGE_THAW:
        sandbox_freeze(launcher, message->target.id, message->header.type == MESSAGE_FREEZE, reply);
        break;
    case MESSAGE_SOCKET:
        sandbox_socket(launcher, message->socket.id, message->socket.family, reply);
        break;
    case MESSAGE_STAT: {
        union message page;
        message_init(&page, MESSAGE_USAGE, reply.sequence);
        sandbox_stat(launcher, message->list.after, &page.usage);
        peer_send(launcher, reply, &page);
        break;
    }
    case MESSAGE_LIST: {
        union message page;
        message_init(&page, MESSAGE_SANDBOXES, reply.sequence);
        sandbox_list(launcher, message->list.after, &page.sandboxes);
        peer_send(launcher, reply, &page);
        break;
    }
    default:
        break; /* message_decode() lets nothing else through */
    }
}

static void welcome(struct launcher *launcher, struct peer_reply reply)
{
    union message message;
    message_init(&message, MESSAGE_WELCOME, reply.sequence);
    message.welcome.networks = 1u << MESSAGE_NETWORK_NONE;
    if (launcher->nat.on)
        message.welcome.networks |= 1u << MESSAGE_NETWORK_NAT;
    else
        snprintf(message.welcome.network_reason, sizeof(message.welcome.network_reason), "%s",
                 launcher->nat.reason);
    missing_tell(launcher, &message.welcome);
    peer_send(launcher, reply, &message);
}

static void handle_message(struct peer *peer, const union message *message)
{
    struct peer_reply reply = {.peer = peer->number, .sequence = message->header.sequence};
    if (message->header.type == MESSAGE_HELLO) {
        peer->greeted = true;
        welcome(peer->launcher, reply);
        return;
    }
    if (!peer->greeted) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_DENIED, "the first message must be HELLO");
        peer_answer(peer->launcher, reply, &err, NULL);
        return;
    }
    handle_request(peer->launcher, reply, message);
}

static void peer_ready(struct loop_source *source)
{
    struct peer *peer = CONTAINER_OF(source, struct peer, source);
    union message message;
    struct error err = ERROR_INIT;
    int r = message_receive(peer->fd, true, &message, &err);
    if (r == -EAGAIN)
        return;
    if (r == 1) {
        handle_message(peer, &message);
        return;
    }
    if (r == -EPROTO && message.header.magic == MESSAGE_MAGIC) {
        struct peer_reply reply = {.peer = peer->number, .sequence = message.header.sequence};
        peer_answer(peer->launcher, reply, &err, NULL);
        return;
    }
    if (r == -EPROTO && log_admits(&peer->launcher->peers.complaints))
        log_warn("cutting a peer: %s", err.message);
    close_peer(peer);
}

static bool is_allowed(struct launcher *launcher, int fd)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0) {
        log_warn("cannot tell who connected: %s", strerror(errno));
        return false;
    }
    if (cred.uid == launcher->state.server_uid || cred.uid == geteuid())
        return true;
    if (log_admits(&launcher->peers.complaints))
        log_warn("refusing a connection of user %u (process %d); the server is user %u", cred.uid,
                 (int)cred.pid, launcher->state.server_uid);
    return false;
}

/* Takes the descriptor, also on failure. */
/* Room for the answers to a full queue of creates and for the ends of a thousand sandboxes at once,
 * while the server is busy with something else. */
static void widen_queue(int fd)
{
    int bytes = SEND_QUEUE_BYTES;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes,
                   sizeof(bytes)); /* up to the machine's limit */
}

static int add_peer(struct launcher *launcher, int fd, struct error *err)
{
    for (unsigned i = 0; i < PEER_MAX; i++) {
        struct peer *peer = &launcher->peers.items[i];
        if (peer->number != 0)
            continue;
        int r = loop_watch(&launcher->loop, &peer->source, fd, peer_ready, err);
        if (r < 0) {
            fd_close(fd);
            return r;
        }
        widen_queue(fd);
        peer->launcher = launcher;
        peer->fd = fd;
        peer->number = ++launcher->peers.last_number;
        peer->greeted = false;
        launcher->peers.count++;
        loop_timer_clear(&launcher->idle_timer);
        return 0;
    }
    fd_close(fd);
    return error_set(err, ERR_LIMIT, "more than %d connections", PEER_MAX);
}

static void listener_ready(struct loop_source *source)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, peers.listener);
    AUTO_CLOSE int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !is_allowed(launcher, fd))
        return;
    struct error err = ERROR_INIT;
    if (add_peer(launcher, TAKE_FD(fd), &err) < 0 && log_admits(&launcher->peers.complaints))
        log_warn("refusing a connection: %s", err.message);
}

/* A socket file that nobody serves is left over from a launcher that was killed. */
static int clear_stale(const struct sockaddr_un *address, struct error *err)
{
    struct stat st;
    if (lstat(address->sun_path, &st) < 0)
        return errno == ENOENT ? 0
                               : error_set_errno(err, errno, "cannot use '%s'", address->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, ERR_CONFLICT, "'%s' exists and is not a socket", address->sun_path);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
        return error_set(err, ERR_CONFLICT, "another process serves '%s'", address->sun_path);
    if (unlink(address->sun_path) < 0)
        return error_set_errno(err, errno, "cannot replace '%s'", address->sun_path);
    return 0;
}

static int open_listener(struct launcher *launcher, const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int r = clear_stale(&address, err);
    if (r < 0)
        return r;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot make a socket");
    mode_t before = umask(0117);
    r = bind(fd, (struct sockaddr *)&address, sizeof(address));
    umask(before);
    if (r < 0 || chown(path, launcher->state.server_uid, (gid_t)-1) < 0 || listen(fd, BACKLOG) < 0)
        return error_set_errno(err, errno, "cannot listen on '%s'", path);
    r = loop_watch(&launcher->loop, &launcher->peers.listener, fd, listener_ready, err);
    if (r == 0)
        launcher->peers.listen_fd = TAKE_FD(fd);
    return r;
}

static int open_inherited(struct launcher *launcher, int fd, struct error *err)
{
    int type = 0;
    socklen_t length = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) < 0 || type != SOCK_SEQPACKET)
        return error_set(err, ERR_INVALID, "--fd %d is not a SOCK_SEQPACKET socket", fd);
    if (!is_allowed(launcher, fd))
        return error_set(err, ERR_DENIED, "--fd %d is connected to another user", fd);
    return add_peer(launcher, fd, err);
}

int peer_open_all(struct launcher *launcher, struct error *err)
{
    launcher->peers = (struct peers){.listen_fd = -1, .listener.fd = -1};
    if (launcher->options.listen_path != NULL)
        return open_listener(launcher, launcher->options.listen_path, err);
    return open_inherited(launcher, launcher->options.fd, err);
}

void peer_close_all(struct launcher *launcher)
{
    if (launcher->peers.listen_fd >= 0) {
        loop_unwatch(&launcher->loop, &launcher->peers.listener);
        unlink(launcher->options.listen_path);
        launcher->peers.listen_fd = fd_close(launcher->peers.listen_fd);
    }
    for (unsigned i = 0; i < PEER_MAX; i++) {
        if (launcher->peers.items[i].number != 0)
            close_peer(&launcher->peers.items[i]);
    }
}
