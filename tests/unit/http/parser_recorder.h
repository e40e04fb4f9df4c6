/* What a parser says, as one line of text, for the tests of requests and of responses.
 *
 * Every input is fed whole, byte by byte and in two pieces at every possible place; all of them
 * must give the same events, written as one line of text: "GET / 1.1 none keep|complete|". */
#pragma once

#include "http/parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

#define LOG_MAX (256 * 1024)
#define HOST    "Host: h\r\n"

/* --- recording -------------------------------------------------------------------------------- */

struct recorder {
    struct buf log;
    bool in_body;
    bool upgraded;
    bool stop_always; /* every event asks to stop */
    const char *expect_method;
    struct http_parser *parser;
};

static void end_body(struct recorder *recorder)
{
    if (recorder->in_body)
        buf_add_char(&recorder->log, '|');
    recorder->in_body = false;
}

static int on_head(void *ctx, struct http_head *head)
{
    struct recorder *recorder = ctx;
    struct buf *log = &recorder->log;
    static const char *const framings[] = {
        [HTTP_NO_BODY] = "none",
        [HTTP_LENGTH] = "length",
        [HTTP_CHUNKED] = "chunked",
        [HTTP_UNTIL_CLOSE] = "until-close",
    };
    if (head->target != NULL)
        buf_printf(log, "%s %s", head->method, head->target);
    else
        buf_printf(log, "%d", head->status);
    buf_printf(log, " 1.%d %s", head->minor, framings[head->framing]);
    if (head->framing == HTTP_LENGTH)
        buf_printf(log, "=%" PRIu64, head->content_length);
    buf_printf(log, " %s%s%s|", head->keep_alive ? "keep" : "close",
               head->upgrade ? " upgrade" : "", head->expect_continue ? " continue" : "");
    recorder->upgraded |= head->upgrade;
    return recorder->stop_always;
}

static int on_body(void *ctx, const char *bytes, size_t length)
{
    struct recorder *recorder = ctx;
    assert_true(length > 0);
    buf_add(&recorder->log, bytes, length);
    recorder->in_body = true;
    return recorder->stop_always;
}

static int on_complete(void *ctx)
{
    struct recorder *recorder = ctx;
    end_body(recorder);
    buf_add_str(&recorder->log, "complete|");
    if (recorder->expect_method != NULL)
        http_parser_expect_response_to(recorder->parser, recorder->expect_method);
    return recorder->stop_always;
}

static const struct http_parser_events events = {on_head, on_body, on_complete};

static int status_of(const struct error *err)
{
    switch (err->code) {
    case ERR_INVALID:
        return 400;
    case ERR_LIMIT:
        return 431;
    case ERR_UNSUPPORTED:
        assert_true(err->sys == EPROTONOSUPPORT || err->sys == EOPNOTSUPP);
        return err->sys == EPROTONOSUPPORT ? 505 : 501;
    default:
        fail_msg("unexpected code %s: %s", error_code_name(err->code), err->message);
        return 0;
    }
}

/* One piece, through as many feeds as its events ask for. False when nothing more may be fed. */
static bool feed_piece(struct recorder *recorder, const char *bytes, size_t length)
{
    struct error err = ERROR_INIT;
    /* A copy of the exact size: reading past it is seen by AddressSanitizer, and nobody may keep a
     * pointer into it. */
    AUTO_FREE char *copy = mem_dup_n(bytes, length);
    size_t fed = 0;
    do {
        ssize_t n = http_parser_feed(recorder->parser, copy + fed, length - fed, &err);
        if (n < 0) {
            end_body(recorder);
            buf_printf(&recorder->log, "error %d", status_of(&err));
            assert_true(strlen(err.message) > 0);
            err.code = ERR_OK;
            assert_true(http_parser_feed(recorder->parser, "x", 1, &err) < 0);
            assert_true(http_parser_end(recorder->parser, &err) < 0);
            assert_false(http_parser_is_idle(recorder->parser));
            return false;
        }
        fed += (size_t)n;
        if (recorder->upgraded) {
            buf_printf(&recorder->log, "rest ");
            buf_add(&recorder->log, copy + fed, length - fed);
            return false;
        }
    } while (fed < length);
    /* What a stop held back. */
    assert_int_equal(http_parser_feed(recorder->parser, "", 0, &err), 0);
    assert_int_equal(http_parser_feed(recorder->parser, "", 0, &err), 0);
    return true;
}

/* Pieces of step bytes, or two pieces cut at `cut`. Returns the events as text; caller frees. */
static char *record(enum http_parser_kind kind, const char *method, bool stop_always,
                    const char *input, size_t length, size_t cut, size_t step)
{
    struct recorder recorder = {.expect_method = method, .stop_always = stop_always};
    buf_init(&recorder.log, LOG_MAX);
    recorder.parser = http_parser_new(kind, &events, &recorder);
    if (method != NULL)
        http_parser_expect_response_to(recorder.parser, method);

    bool open = true;
    for (size_t at = 0; open && at < length;) {
        size_t piece = step > 0 ? MIN(step, length - at) : at == 0 && cut > 0 ? cut : length - at;
        open = feed_piece(&recorder, input + at, piece);
        at += piece;
        /* After an upgrade the rest is not the parser's: log it as one. */
        if (!open && recorder.upgraded)
            buf_add(&recorder.log, input + at, length - at);
    }
    if (open) {
        struct error err = ERROR_INIT;
        bool legal = http_parser_end(recorder.parser, &err) == 0;
        end_body(&recorder);
        buf_add_str(&recorder.log, legal ? "end" : "cut");
    }
    http_parser_free(recorder.parser);
    return buf_take(&recorder.log);
}

static void assert_events(enum http_parser_kind kind, const char *method, const char *input,
                          size_t length, const char *expected)
{
    for (int stop = 0; stop < 2; stop++) {
        AUTO_FREE char *whole = record(kind, method, stop, input, length, 0, 0);
        if (!str_equal(whole, expected))
            fail_msg("%s\ngives    %s\nnot      %s", input, whole, expected);
        AUTO_FREE char *bytewise = record(kind, method, stop, input, length, 0, 1);
        if (!str_equal(bytewise, expected))
            fail_msg("%s\nbyte by byte gives %s\nnot %s", input, bytewise, expected);
        for (size_t cut = 1; cut < length; cut++) {
            AUTO_FREE char *halves = record(kind, method, stop, input, length, cut, 0);
            if (!str_equal(halves, expected))
                fail_msg("%s\ncut at %zu gives %s\nnot %s", input, cut, halves, expected);
        }
    }
}

struct exchange {
    const char *input;
    const char *expected;
};

static inline void assert_requests(const struct exchange *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_events(HTTP_PARSE_REQUESTS, NULL, cases[i].input, strlen(cases[i].input),
                      cases[i].expected);
}

static inline void assert_responses(const char *method, const struct exchange *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_events(HTTP_PARSE_RESPONSES, method, cases[i].input, strlen(cases[i].input),
                      cases[i].expected);
}
