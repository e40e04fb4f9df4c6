/* The other side: what the test puts in the way of attacks, on the host or in another sandbox. It
 * has its SECRET in its memory, in a descriptor, behind a port of 127.0.0.1 and an abstract socket,
 * in shared memory and in message queues; and it ends with its input. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "escapes.h"

#define SECRET_MAX 64

static char secret[SECRET_MAX];

static int listen_tcp(unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, length) < 0 || listen(fd, 16) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return -errno;
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* The kernel chooses a name. */
static int listen_abstract(char *ret_name, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(ret_name, size, "osb-victim-%d-%.8s", (int)getpid(), secret);
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", ret_name);
    size_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ret_name);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, (socklen_t)length) < 0 ||
        listen(fd, 16) < 0)
        return -errno;
    return fd;
}

/* They go with the ipc namespace that the test made for them. */
static int make_ipc(key_t key, const char *queue)
{
    int memory = shmget(key, SECRET_MAX, IPC_CREAT | IPC_EXCL | 0666);
    char *at = memory < 0 ? NULL : shmat(memory, NULL, 0);
    if (at == NULL || (intptr_t)at == -1 || msgget(key, IPC_CREAT | IPC_EXCL | 0666) < 0)
        return -errno;
    strcpy(at, secret);
    mqd_t fd = mq_open(queue, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666, NULL);
    if (fd == (mqd_t)-1 || mq_send(fd, secret, strlen(secret), 0) < 0)
        return -errno;
    return 0;
}

static int make_file(void)
{
    int fd = memfd_create("victim", 0);
    if (fd < 0 || write(fd, secret, strlen(secret)) < 0)
        return -errno;
    return fd;
}

static void serve(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, secret, strlen(secret)) < 0)
        perror("victim");
    close(fd);
}

int victim_main(char **arguments)
{
    char name[64], queue[64];
    unsigned port = 0;
    key_t key = getpid() + 0x05b00000;
    umask(0);
    (void)snprintf(secret, sizeof(secret), "%s", arguments[0]);
    (void)snprintf(queue, sizeof(queue), "/osb-victim-%d", (int)getpid());
    int tcp = listen_tcp(&port), local = listen_abstract(name, sizeof(name)), file = make_file();
    if (tcp < 0 || local < 0 || file < 0 || make_ipc(key, queue) < 0) {
        perror("victim");
        return 1;
    }
    printf("pid=%d address=%lx fd=%d port=%u name=%s key=%d queue=%s\n", (int)getpid(),
           (unsigned long)(uintptr_t)secret, file, port, name, (int)key, queue);
    (void)fflush(stdout);
    for (;;) {
        struct pollfd waiting[] = {{0, POLLIN, 0}, {tcp, POLLIN, 0}, {local, POLLIN, 0}};
        if (poll(waiting, 3, -1) < 0 && errno != EINTR)
            return 1;
        if (waiting[0].revents != 0)
            return 0;
        for (int i = 1; i < 3; i++) {
            if (waiting[i].revents != 0)
                serve(waiting[i].fd);
        }
    }
}

/* SECRET COMMAND... */
int victim_with_key(char **arguments)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 ||
        syscall(SYS_add_key, "user", "osb-victim", arguments[0], strlen(arguments[0]),
                KEY_SPEC_SESSION_KEYRING) < 0)
        perror("with-key");
    execvp(arguments[1], arguments + 1);
    perror(arguments[1]);
    return 1;
}

int victim_am_i_root(void)
{
    if (geteuid() == 0)
        return 0;
    return setuid(0) == 0 ? 0 : EPERM;
}
