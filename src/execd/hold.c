#include "execd/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

struct hold {
    uv_poll_t poll;
    struct execd *execd;
    int fd;
    int name_fd;
};

static void on_closed(uv_handle_t *handle)
{
    struct hold *hold = CONTAINER_OF((uv_poll_t *)handle, struct hold, poll);
    close(hold->fd);
    fd_close(hold->name_fd);
    free(hold);
}

static bool is_wanted(const struct hold *hold)
{
    struct stat st;
    return hold->name_fd >= 0 && fstat(hold->name_fd, &st) == 0 && st.st_nlink > 1;
}

static void on_end(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct hold *hold = CONTAINER_OF(poll, struct hold, poll);
    char byte;
    ssize_t n = recv(hold->fd, &byte, 1, MSG_DONTWAIT);
    if ((n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) && status == 0)
        return; /* not the end */
    if (!is_wanted(hold))
        execd_end(hold->execd, 0);
    uv_close((uv_handle_t *)poll, on_closed);
}

int execd_hold_start(struct execd *execd, int fd, int name_fd, struct error *err)
{
    struct hold *hold = mem_alloc(sizeof(*hold));
    hold->execd = execd;
    hold->fd = fd;
    hold->name_fd = name_fd;
    int r = uv_poll_init(execd->loop, &hold->poll, fd);
    if (r < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        (name_fd >= 0 && fcntl(name_fd, F_SETFD, FD_CLOEXEC) < 0) ||
        send(fd, "", 1, MSG_NOSIGNAL) != 1) {
        error_set_errno(err, r < 0 ? -r : errno, "--hold-fd %d", fd);
        if (r == 0)
            uv_close((uv_handle_t *)&hold->poll, on_closed);
        else
            free(hold);
        return -1;
    }
    uv_poll_start(&hold->poll, UV_READABLE | UV_DISCONNECT, on_end);
    uv_unref((uv_handle_t *)&hold->poll);
    return 0;
}
