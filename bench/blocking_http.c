#include "blocking_http.h"

#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

void blocking_http_open(struct blocking_http *http, const char *ip, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1)
        errx(1, "not an IPv4 address: %s", ip);
    http->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (http->fd < 0 || connect(http->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        err(1, "cannot connect to %s:%d", ip, port);
    int on = 1;
    setsockopt(http->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    http->start = http->end = 0;
}

void blocking_http_close(struct blocking_http *http)
{
    close(http->fd);
    http->fd = -1;
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0)
            err(1, "send");
        bytes += sent;
        length -= (size_t)sent;
    }
}

static void fill(struct blocking_http *http)
{
    if (http->start > 0) {
        memmove(http->buffer, http->buffer + http->start, http->end - http->start);
        http->end -= http->start;
        http->start = 0;
    }
    if (http->end == sizeof(http->buffer))
        errx(1, "answer line too long");
    ssize_t got = recv(http->fd, http->buffer + http->end, sizeof(http->buffer) - http->end, 0);
    if (got <= 0)
        errx(1, "the server closed the connection");
    http->end += (size_t)got;
}

/* The next line without its CRLF; valid until the next read. */
static char *read_line(struct blocking_http *http)
{
    for (;;) {
        char *from = http->buffer + http->start;
        char *end = memmem(from, http->end - http->start, "\r\n", 2);
        if (end != NULL) {
            *end = '\0';
            http->start = (size_t)(end + 2 - http->buffer);
            return from;
        }
        fill(http);
    }
}

static void read_body(struct blocking_http *http, size_t length)
{
    while (length > 0) {
        if (http->start == http->end)
            fill(http);
        size_t here = http->end - http->start;
        size_t take = here < length ? here : length;
        size_t room = sizeof(http->body) - 1 - http->body_length;
        size_t keep = take < room ? take : room;
        memcpy(http->body + http->body_length, http->buffer + http->start, keep);
        http->body_length += keep;
        http->start += take;
        length -= take;
    }
}

static void read_chunks(struct blocking_http *http)
{
    for (;;) {
        size_t length = strtoul(read_line(http), NULL, 16);
        if (length == 0) {
            read_line(http);
            return;
        }
        read_body(http, length);
        read_line(http);
    }
}

static int read_answer(struct blocking_http *http)
{
    const char *line = read_line(http);
    if (strncmp(line, "HTTP/1.1 ", 9) != 0)
        errx(1, "not an HTTP answer: %s", line);
    int status = (int)strtol(line + 9, NULL, 10);
    size_t length = 0;
    int chunked = 0;
    while (*(line = read_line(http)) != '\0') {
        if (strncasecmp(line, "content-length:", 15) == 0)
            length = strtoul(line + 15, NULL, 10);
        if (strncasecmp(line, "transfer-encoding:", 18) == 0)
            chunked = 1;
    }
    http->body_length = 0;
    if (chunked)
        read_chunks(http);
    else
        read_body(http, length);
    http->body[http->body_length] = '\0';
    return status;
}

int blocking_http_call(struct blocking_http *http, const char *method, const char *target,
                       const char *headers, const char *body)
{
    char request[8192];
    int length = snprintf(request, sizeof(request),
                          "%s %s HTTP/1.1\r\nHost: bench\r\n%sContent-Length: %zu\r\n\r\n%s",
                          method, target, headers, strlen(body), body);
    if (length < 0 || (size_t)length >= sizeof(request))
        errx(1, "request too long");
    send_all(http->fd, request, (size_t)length);
    return read_answer(http);
}
