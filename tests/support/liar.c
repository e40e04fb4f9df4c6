/* An execd that lies. The entrypoint of a sandbox tells how: {"entrypoint": ["START", "LATER"]}
 * names the answer to /internal/start and that to every later request. Built by
 * tests/support/liar.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define OK_HEAD "HTTP/1.1 200 OK\r\n"
#define JSON    "Content-Type: application/json\r\n"
#define GOOD    OK_HEAD JSON "Content-Length: 11\r\n\r\n{\"ok\":true}"
#define CHUNKED OK_HEAD "Transfer-Encoding: chunked\r\n\r\n"
#define STOLEN  OK_HEAD "Content-Length: 6\r\n\r\nstolen"
#define K(x)    x x x x x x x x x x x x x x x x

static char *later; /* shared by all processes of this sandbox */
static pid_t first;

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(0);
        bytes += n;
        length -= (size_t)n;
    }
}

static void say(int fd, const char *text)
{
    send_all(fd, text, strlen(text));
}

static void flood(int fd, const char *text)
{
    static char block[65536];
    size_t size = strlen(text), used = sizeof(block) / size * size;
    for (size_t i = 0; i < used; i++)
        block[i] = text[i % size];
    for (;;)
        send_all(fd, block, used);
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void slowly(int fd, const char *head, const char *rest)
{
    say(fd, head);
    for (size_t i = 0;; i = rest[i + 1] ? i + 1 : 0) {
        send_all(fd, rest + i, 1);
        usleep(20000);
    }
}

static void many_headers(int fd)
{
    say(fd, OK_HEAD);
    for (int i = 0; i < 10000; i++) {
        char line[64];
        snprintf(line, sizeof(line), "X-%d: y\r\n", i);
        say(fd, line);
    }
    say(fd, "\r\n");
}

static void garbage(int fd)
{
    char bytes[8192];
    unsigned x = 12345;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        x = x * 1103515245 + 12345;
        bytes[i] = (char)(x >> 16);
    }
    send_all(fd, bytes, sizeof(bytes));
}

static void refuse(int fd, const char *left, const char *filling, int count, const char *right)
{
    size_t length = strlen(left) + strlen(filling) * (size_t)count + strlen(right);
    char head[128];
    snprintf(head, sizeof(head), "HTTP/1.1 400 Bad\r\n" JSON "Content-Length: %zu\r\n\r\n", length);
    say(fd, head);
    say(fd, left);
    for (int i = 0; i < count; i++)
        say(fd, filling);
    say(fd, right);
}

/* What is said before the connection is closed; NUL bytes are written as \1. */
static const struct {
    const char *name, *text;
} plain[] = {
    {"good", GOOD},
    {"close", ""},
    {"nul-head", OK_HEAD "X: a\1b\r\n\r\n"},
    {"nul-status", "HTTP/1.1 200 O\1K\r\n\r\n"},
    {"nul-first", "\1\1\1\1"},
    {"short-body", OK_HEAD "Content-Length: 100\r\n\r\n0123456789"},
    {"no-body", OK_HEAD "Content-Length: 9223372036854775807\r\n\r\n"},
    {"two-lengths", OK_HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"},
    {"length-and-chunked",
     OK_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"},
    {"negative-length", OK_HEAD "Content-Length: -1\r\n\r\n"},
    {"huge-length", OK_HEAD "Content-Length: 18446744073709551617\r\n\r\nx"},
    {"unknown-coding", OK_HEAD "Transfer-Encoding: gzip, what\r\n\r\nx"},
    {"huge-chunk", CHUNKED "ffffffffffffffff\r\nabc"},
    {"long-chunk-size", CHUNKED "00000000000000000000000000000001\r\na\r\n0\r\n\r\n"},
    {"bad-chunk", CHUNKED "zz\r\n"},
    {"cut-chunk", CHUNKED "5\r\nab"},
    {"bad-trailer", CHUNKED "0\r\nno colon\r\n\r\n"},
    {"unasked-101",
     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nxx"},
    {"bare-lf", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
    {"fold", OK_HEAD "X: a\r\n b\r\nContent-Length: 0\r\n\r\n"},
    {"http-09", "hello\r\n"},
    {"http-2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {"request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
    {"status-0", "HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n"},
    {"status-99", "HTTP/1.1 99 Few\r\nContent-Length: 0\r\n\r\n"},
    {"status-long", "HTTP/1.1 2000 Many\r\nContent-Length: 0\r\n\r\n"},
    {"status-999", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"},
    {"split-header", OK_HEAD "X: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"},
    {"double", GOOD STOLEN},
    {"interim-17", K("HTTP/1.1 103 Early\r\n\r\n") "HTTP/1.1 103 Early\r\n\r\n" GOOD},
    {"redirect",
     "HTTP/1.1 302 Found\r\nLocation: http://169.254.0.1/\r\nContent-Length: 0\r\n\r\n"},
    {"refuse-html", "HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\n<html>"},
    {"refuse-number", "HTTP/1.1 400 No\r\nContent-Length: 13\r\n\r\n{\"message\":1}"},
};

/* True: the connection may serve another request. */
static int answer(int fd, const char *how)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(plain[i].name, how) != 0)
            continue;
        size_t length = strlen(plain[i].text);
        char *bytes = strdup(plain[i].text);
        for (size_t j = 0; j < length; j++)
            if (bytes[j] == 1)
                bytes[j] = 0;
        send_all(fd, bytes, length);
        free(bytes);
        return i == 0 || !strcmp(how, "double");
    }
    if (!strcmp(how, "garbage"))
        garbage(fd);
    else if (!strcmp(how, "silent"))
        wait_for_ever();
    else if (!strcmp(how, "slow-head"))
        slowly(fd, OK_HEAD, "X: y\r\n");
    else if (!strcmp(how, "slow-body"))
        slowly(fd, OK_HEAD "Content-Length: 1000000\r\n\r\n", "z");
    else if (!strcmp(how, "endless-head"))
        say(fd, OK_HEAD), flood(fd, "X-A: aaaaaaaaaaaaaaaa\r\n");
    else if (!strcmp(how, "endless-line"))
        say(fd, OK_HEAD "X: "), flood(fd, "aaaaaaaa");
    else if (!strcmp(how, "endless-status"))
        say(fd, "HTTP/1.1 200 "), flood(fd, "OK");
    else if (!strcmp(how, "endless-interim"))
        flood(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    else if (!strcmp(how, "endless-body"))
        say(fd, OK_HEAD "\r\n"), flood(fd, "0123456789abcdef");
    else if (!strcmp(how, "endless-length"))
        say(fd, OK_HEAD "Content-Length: 9223372036854775807\r\n\r\n"),
            flood(fd, "0123456789abcdef");
    else if (!strcmp(how, "endless-chunks"))
        say(fd, CHUNKED), flood(fd, "1\r\nx\r\n");
    else if (!strcmp(how, "endless-extension"))
        say(fd, CHUNKED "5;"), flood(fd, "ext=1;");
    else if (!strcmp(how, "endless-trailers"))
        say(fd, CHUNKED "0\r\n"), flood(fd, "X: y\r\n");
    else if (!strcmp(how, "many-headers"))
        many_headers(fd);
    else if (!strcmp(how, "refuse-terminal"))
        refuse(fd, "{\"message\":\"", "\\u001b[31m\\r\\nforged\\u202e", 1, "\"}");
    else if (!strcmp(how, "refuse-long"))
        refuse(fd, "{\"message\":\"x", "\xe2\x82\xac", 5000, "\"}");
    else if (!strcmp(how, "refuse-deep"))
        refuse(fd, "", "[", 60000, "");
    else if (!strcmp(how, "refuse-latin"))
        refuse(fd, "{\"message\":\"", "\xff\xfe", 10, "\"}");
    else if (!strcmp(how, "hold"))
        say(fd, OK_HEAD "Content-Length: 11\r\n\r\n{\"ok\":"), wait_for_ever();
    else if (!strcmp(how, "later-double"))
        say(fd, GOOD), usleep(20000), say(fd, STOLEN), wait_for_ever();
    else if (!strcmp(how, "upgrade-flood"))
        say(fd, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                "websocket\r\n\r\n"),
            flood(fd, "\x81\x04text");
    else if (!strcmp(how, "upgrade-other"))
        say(fd, "HTTP/1.1 101 Switching Protocols\r\n\r\n"), wait_for_ever();
    else if (!strcmp(how, "good-dies"))
        say(fd, GOOD), kill(first, SIGUSR1), wait_for_ever();
    else if (!strcmp(how, "dies"))
        kill(first, SIGUSR1), wait_for_ever();
    else if (!strcmp(how, "good-deaf") || !strcmp(how, "good-shut"))
        say(fd, GOOD), kill(first, !strcmp(how, "good-deaf") ? SIGUSR2 : SIGHUP), wait_for_ever();
    else
        say(fd, "HTTP/1.1 500 no such lie\r\nContent-Length: 0\r\n\r\n");
    return 0;
}

/* The n-th string of the entrypoint in the start request. */
static void word(const char *body, int n, char *ret, size_t size)
{
    const char *p = strstr(body, "\"entrypoint\"");
    p = p ? strchr(p, '[') : NULL;
    for (; p && n >= 0; n--) {
        p = strchr(p, '"');
        const char *end = p ? strchr(p + 1, '"') : NULL;
        if (!end)
            return;
        snprintf(ret, size, "%.*s", (int)(end - p - 1), p + 1);
        p = end + 1;
    }
}

static void serve(int fd)
{
    static char text[65536];
    for (;;) {
        size_t used = 0;
        char *end = NULL, *length;
        while (!end) {
            ssize_t n = read(fd, text + used, sizeof(text) - 1 - used);
            if (n <= 0)
                _exit(0);
            used += (size_t)n;
            text[used] = '\0';
            end = strstr(text, "\r\n\r\n");
        }
        length = strcasestr(text, "content-length:");
        size_t whole = (size_t)(end + 4 - text) +
                       (length && length < end ? strtoul(length + 15, NULL, 10) : 0);
        while (used < whole && used < sizeof(text) - 1) {
            ssize_t n = read(fd, text + used, sizeof(text) - 1 - used);
            if (n <= 0)
                _exit(0);
            used += (size_t)n;
            text[used] = '\0';
        }
        char how[64] = "good";
        if (strstr(text, "/internal/start ")) {
            word(end, 0, how, sizeof(how));
            word(end, 1, later, 64);
        } else {
            snprintf(how, sizeof(how), "%s", later);
        }
        if (!answer(fd, how))
            _exit(0);
    }
}

static void on_signal(int number)
{
    if (number == SIGUSR1)
        _exit(7);
    if (number == SIGHUP)
        close(3);
    for (;;)
        pause(); /* deaf: connections wait to be accepted */
}

int main(int argc, char **argv)
{
#ifdef EXITS
    return 5;
#endif
    int hold = -1, name = -1;
    for (int i = 4; i + 1 < argc; i += 2) {
        int fd = atoi(argv[i + 1]);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (!strcmp(argv[i], "--hold-fd"))
            hold = fd;
        if (!strcmp(argv[i], "--name-fd"))
            name = fd;
    }
    first = getpid();
    later = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    strcpy(later, "good");
    signal(SIGCHLD, SIG_IGN);
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    signal(SIGHUP, on_signal);
#ifdef CHATTERS
    for (int i = 0; i < 1000; i++) /* the launcher waits for one byte */
        send(hold, "0123456789abcdef", 16, MSG_DONTWAIT | MSG_NOSIGNAL);
#endif
    if (write(hold, "", 1) != 1)
        return 98;
    for (;;) {
        struct pollfd waiting[] = {{3, POLLIN, 0}, {hold, POLLIN, 0}};
        poll(waiting, 2, -1);
        if (waiting[1].revents) {
            struct stat st;
            if (fstat(name, &st) < 0 || st.st_nlink < 2)
                return 0;
            close(hold);
            hold = -1;
        }
        if (!waiting[0].revents)
            continue;
        int peer = accept4(3, NULL, NULL, SOCK_CLOEXEC);
        if (peer < 0)
            continue;
        if (fork() == 0)
            serve(peer);
        close(peer);
    }
}
