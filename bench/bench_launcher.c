/* The runtime alone, without HTTP API and database: the CREATE message to an execd that answers,
 * beside `bwrap ... true`.
 *
 * Usage: bench-launcher SOCKET COUNT IDLE_COUNT IDLE_MS
 *
 * One sample is the time from sending CREATE to having read execd's answer to GET /ping on the
 * sandbox's socket. The sandbox is removed outside the sample. */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/id.h"
#include "bwrap.h"
#include "compare.h"
#include "runtime/native/message.h"

static int launcher = -1;
static uint32_t sequence;

static int connect_unix(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        err(1, "cannot connect to %s", path);
    return fd;
}

/* The answer to the last request; events in between are not ours to mind. */
static void ask(union message *message)
{
    struct error error = ERROR_INIT;
    if (message_send(launcher, message) < 0)
        err(1, "cannot send to the launcher");
    for (;;) {
        struct pollfd waiting = {.fd = launcher, .events = POLLIN};
        poll(&waiting, 1, -1);
        int r = message_receive(launcher, false, message, &error);
        if (r == -EAGAIN)
            continue;
        if (r != 1)
            errx(1, "the launcher is gone: %s", error.message);
        if (message->header.sequence == sequence)
            break;
    }
    if (message->header.type == MESSAGE_RESULT && message->result.code != ERR_OK)
        errx(1, "the launcher refused: %s", message->result.message);
}

static void ping(const char *socket_path)
{
    static const char request[] = "GET /ping HTTP/1.1\r\nHost: execd\r\n\r\n";
    char answer[512];
    int fd = connect_unix(socket_path, SOCK_STREAM);
    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
        err(1, "cannot send to execd");
    ssize_t n = recv(fd, answer, sizeof(answer), 0);
    if (n < 12 || memcmp(answer, "HTTP/1.1 200", 12) != 0)
        errx(1, "execd does not answer");
    close(fd);
}

static uint64_t sample_sandbox(void)
{
    union message message;
    char id[ID_UUID_LEN + 1];
    id_new_uuid(id);
    message_init(&message, MESSAGE_CREATE, ++sequence);
    memcpy(message.create.id, id, ID_UUID_LEN);
    memcpy(message.create.image, "host", 4);
    uint64_t started = compare_now_ns();
    ask(&message);
    ping(message.result.socket);
    uint64_t took = compare_now_ns() - started;
    message_init(&message, MESSAGE_REMOVE, ++sequence);
    memcpy(message.target.id, id, ID_UUID_LEN);
    ask(&message);
    return took;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        errx(2, "usage: bench-launcher SOCKET COUNT IDLE_COUNT IDLE_MS");
    struct compare_plan plan = {
        .ours = {"launcher", sample_sandbox},
        .peer = {"bwrap", bwrap_sample},
    };
    compare_read_arguments(&plan, argv + 2);
    launcher = connect_unix(argv[1], SOCK_SEQPACKET);
    union message hello;
    message_init(&hello, MESSAGE_HELLO, ++sequence);
    ask(&hello);
    printf("CREATE message -> execd answers, beside:");
    bwrap_print();
    compare_run(&plan);
    close(launcher);
    return 0;
}
