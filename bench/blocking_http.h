/* The smallest HTTP client that can time a request: one keep-alive connection, blocking. Only for
 * benchmarks: it trusts the server and exits on trouble. */
#pragma once

#include <stddef.h>

struct blocking_http {
    int fd;
    char buffer[256 * 1024]; /* what was read and not used yet */
    size_t start, end;
    char body[256 * 1024]; /* body of the last answer, NUL-terminated, cut when larger */
    size_t body_length;
};

void blocking_http_open(struct blocking_http *http, const char *ip, int port);
void blocking_http_close(struct blocking_http *http);

/* Sends and reads the whole answer; returns its status. `headers` are whole lines with CRLF. */
int blocking_http_call(struct blocking_http *http, const char *method, const char *target,
                       const char *headers, const char *body);
