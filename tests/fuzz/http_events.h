/* What the fuzz targets of the HTTP parser share: the events of one input as one text, fed whole or
 * in pieces. How an input is cut must never change what is in it. */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "http/parser.h"

#define EVENTS_LOG_MAX (16 << 20)

struct events_log {
    struct buf text;
    struct buf body; /* of all messages together */
    bool stop;       /* every event asks to stop */
    bool upgraded;
    bool failed;
    bool complete; /* at least one message */
};

/* Things that must hold for every head that passes, whatever it was made of. */
static inline void events_check_head(const struct http_head *head)
{
    if (head->headers.count > HTTP_HEADER_COUNT_MAX ||
        http_headers_count(&head->headers, "Content-Length") > 1)
        abort();
    if (http_headers_find(&head->headers, "Transfer-Encoding") != NULL &&
        http_headers_find(&head->headers, "Content-Length") != NULL)
        abort();
    if (head->target != NULL && (strpbrk(head->target, " \t\r\n#") != NULL ||
                                 http_headers_count(&head->headers, "Host") > 1))
        abort();
    for (size_t i = 0; i < head->headers.count; i++)
        if (strpbrk(head->headers.items[i].value, "\r\n") != NULL ||
            strpbrk(head->headers.items[i].name, "\r\n: \t") != NULL)
            abort();
}

static inline int events_on_head(void *ctx, struct http_head *head)
{
    struct events_log *log = ctx;
    events_check_head(head);
    buf_printf(&log->text, "head %s %s %d 1.%d %d %" PRIu64 " %d %d %d\n", head->method,
               head->target == NULL ? "-" : head->target, head->status, head->minor, head->framing,
               head->content_length, head->keep_alive, head->upgrade, head->expect_continue);
    for (size_t i = 0; i < head->headers.count; i++)
        buf_printf(&log->text, "%s=%s\n", head->headers.items[i].name,
                   head->headers.items[i].value);
    log->upgraded |= head->upgrade;
    return log->stop;
}

static inline int events_on_body(void *ctx, const char *bytes, size_t length)
{
    struct events_log *log = ctx;
    if (length == 0)
        abort();
    buf_add(&log->body, bytes, length);
    return log->stop;
}

static inline int events_on_complete(void *ctx)
{
    struct events_log *log = ctx;
    log->complete = true;
    buf_printf(&log->text, "complete after %zu\n", log->body.length);
    return log->stop;
}

static inline void events_feed(struct events_log *log, struct http_parser *parser,
                               const char *bytes, size_t length)
{
    struct error err = ERROR_INIT;
    size_t fed = 0;
    do {
        ssize_t n = http_parser_feed(parser, bytes + fed, length - fed, &err);
        if (n < 0) {
            if (err.code == ERR_OK || err.message[0] == '\0')
                abort();
            buf_printf(&log->text, "error %d\n", err.code);
            log->failed = true;
            return;
        }
        if ((size_t)n > length - fed)
            abort();
        fed += (size_t)n;
    } while (fed < length && !log->upgraded);
    if (!log->upgraded)
        (void)http_parser_feed(parser, "", 0, NULL);
}

/* Pieces of the sizes in `sizes`, in turn; whole when there are none. `head` goes in first. */
static inline void events_run(struct events_log *log, enum http_parser_kind kind,
                              const char *method, const char *head, const uint8_t *data,
                              size_t size, const uint8_t *sizes, size_t sizes_count)
{
    static const struct http_parser_events events = {events_on_head, events_on_body,
                                                     events_on_complete};
    struct http_parser *parser = http_parser_new(kind, &events, log);
    buf_init(&log->text, EVENTS_LOG_MAX);
    buf_init(&log->body, EVENTS_LOG_MAX);
    http_parser_expect_response_to(parser, method);
    if (head[0] != '\0')
        events_feed(log, parser, head, strlen(head));
    for (size_t at = 0, turn = 0; at < size && !log->failed && !log->upgraded; turn++) {
        size_t piece = sizes_count == 0 ? size : (size_t)sizes[turn % sizes_count] + 1;
        piece = MIN(piece, size - at);
        /* A copy, so that reading outside the piece is seen. */
        char *copy = malloc(piece);
        memcpy(copy, data + at, piece);
        events_feed(log, parser, copy, piece);
        free(copy);
        at += piece;
    }
    if (!log->failed && !log->upgraded)
        buf_printf(&log->text, "end %d\n", http_parser_end(parser, NULL) == 0);
    http_parser_free(parser);
}

static inline void events_assert_equal(const struct events_log *a, const struct events_log *b)
{
    if (a->text.length != b->text.length || strcmp(a->text.data, b->text.data) != 0 ||
        a->body.length != b->body.length || memcmp(a->body.data, b->body.data, a->body.length) != 0)
        abort();
}

static inline void events_done(struct events_log *log)
{
    buf_done(&log->text);
    buf_done(&log->body);
}
