/* SOCKET: a TCP socket in the network of a sandbox, for the server to connect to a port inside.
 *
 * A socket belongs to the network namespace its maker was in, whoever holds it later. So the
 * launcher goes there for the length of one call. It has one thread, so that nothing else is made
 * meanwhile; and if it could not come back, all it made afterwards would be in a sandbox's network,
 * so it ends instead: sandboxes live on, and the next launcher adopts them. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher.h"

/* A descriptor or -errno; -ESRCH when its process has ended. */
static int socket_inside(int pidfd, int family)
{
    AUTO_CLOSE int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    /* To where it is: whoever may not do that could not come back either. */
    if (own < 0 || setns(own, CLONE_NEWNET) < 0 || setns(pidfd, CLONE_NEWNET) < 0)
        return -errno;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int r = fd < 0 ? -errno : fd;
    if (setns(own, CLONE_NEWNET) < 0) {
        log_error("cannot leave the network of a sandbox: %s", strerror(errno));
        abort();
    }
    return r;
}

void sandbox_socket(struct launcher *launcher, const char *id, unsigned family,
                    struct peer_reply reply)
{
    struct error err = ERROR_INIT;
    struct sandbox *sandbox = sandbox_find_changeable(launcher, id, reply);
    if (sandbox == NULL)
        return;
    AUTO_CLOSE int fd = socket_inside(sandbox->pidfd, family == 6 ? AF_INET6 : AF_INET);
    if (fd == -ESRCH)
        error_set(&err, ERR_CONFLICT, "sandbox %s has ended", id);
    else if (fd < 0)
        error_set_errno(&err, -fd, "cannot make a socket in the network of sandbox %s", id);
    peer_answer_with(launcher, reply, &err, fd);
}
