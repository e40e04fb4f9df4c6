/* One step function per state, each eating what it can of the input. The loop in http_parser_feed()
 * runs them until one needs more bytes, an event asks to stop, or a message is over.
 *
 * Heads are collected only when they arrive in pieces, and the collected bytes are released as soon
 * as the head is parsed: a connection between messages holds nothing but this structure. Body bytes
 * are passed on where they lie. Chunked bodies are decoded here rather than by llhttp, because
 * strictness is the point: a size is 1 to 16 hexadecimal digits and nothing else, and a line ends
 * in CRLF and nothing else.
 *
 * Each byte is judged when it arrives and by the state alone, so how the input is cut into pieces
 * never changes the outcome; tests and the fuzz targets hold it to that. */
#include "http/parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/head.h"
#include "http/scan.h"

#define EMPTY_LINES_MAX     2  /* before a request line: some clients end a body with CRLF */
#define INTERIM_MAX         16 /* 1xx responses before the final one */
#define CHUNK_DIGITS_MAX    16
#define CHUNK_EXTENSION_MAX 1024
#define GATHER_PIECE_MAX    512 /* chunks up to this are put together */
#define GATHER_BYTES        4096

enum state {
    STATE_START, /* between messages */
    STATE_EMPTY_LINE_LF,
    STATE_HEAD,
    STATE_BODY_LENGTH,
    STATE_BODY_CLOSE,
    STATE_CHUNK_SIZE,
    STATE_CHUNK_EXTENSION,
    STATE_CHUNK_SIZE_LF,
    STATE_CHUNK_DATA,
    STATE_CHUNK_DATA_CR,
    STATE_CHUNK_DATA_LF,
    STATE_TRAILERS,
    STATE_COMPLETE, /* all bytes seen, on_complete not yet called */
    STATE_DEAD,
};

enum step { STEP_WAIT, STEP_AGAIN, STEP_STOP }; /* or negative */

/* Small chunks become one piece of the body. How small chunks are is the peer's choice, and what is
 * done for a piece (a system call, where it is passed on) must not be: a read full of chunks of one
 * byte would keep the loop busy for a tenth of a second. Never outlives http_parser_feed(). */
struct gathered {
    size_t used;
    char bytes[GATHER_BYTES];
};

struct http_parser {
    enum http_parser_kind kind;
    enum state state;
    const struct http_parser_events *events;
    void *ctx;
    struct http_head head;
    struct buf pieces;         /* of a head that did not arrive at once */
    struct gathered *gathered; /* NULL outside of http_parser_feed() */
    struct http_scan scan;
    uint64_t remaining;   /* of the body, or of the chunk */
    uint16_t line_length; /* digits, or extension bytes, of a chunk line */
    uint8_t empty_lines;
    uint8_t interim;
    bool answers_head;
};

struct http_parser *http_parser_new(enum http_parser_kind kind,
                                    const struct http_parser_events *events, void *ctx)
{
    struct http_parser *parser = mem_alloc(sizeof(*parser));
    parser->kind = kind;
    parser->events = events;
    parser->ctx = ctx;
    http_head_init(&parser->head);
    buf_init(&parser->pieces, HTTP_HEAD_MAX);
    return parser;
}

struct http_parser *http_parser_free(struct http_parser *parser)
{
    if (parser == NULL)
        return NULL;
    http_head_done(&parser->head);
    buf_done(&parser->pieces);
    free(parser);
    return NULL;
}

void http_parser_expect_response_to(struct http_parser *parser, const char *method)
{
    parser->answers_head = str_equal(method, "HEAD");
}

/* --- heads ------------------------------------------------------------------------------------ */

static int step_start(struct http_parser *parser, struct http_input *in, struct error *err)
{
    if (in->length == 0)
        return STEP_WAIT;
    if (in->bytes[0] == '\r' && parser->kind == HTTP_PARSE_REQUESTS) {
        if (parser->empty_lines >= EMPTY_LINES_MAX)
            return error_set(err, ERR_INVALID, "more than %d empty lines before a request",
                             EMPTY_LINES_MAX);
        parser->empty_lines++;
        http_input_skip(in, 1);
        parser->state = STATE_EMPTY_LINE_LF;
        return STEP_AGAIN;
    }
    http_scan_init(&parser->scan, "head", true, HTTP_HEAD_MAX, HTTP_HEADER_COUNT_MAX);
    parser->state = STATE_HEAD;
    return STEP_AGAIN;
}

static int step_empty_line_lf(struct http_parser *parser, struct http_input *in, struct error *err)
{
    if (in->length == 0)
        return STEP_WAIT;
    if (in->bytes[0] != '\n')
        return error_set(err, ERR_INVALID, "CR without LF before a request");
    http_input_skip(in, 1);
    parser->state = STATE_START;
    return STEP_AGAIN;
}

static enum state first_body_state(const struct http_head *head)
{
    switch (head->framing) {
    case HTTP_LENGTH:
        return head->content_length > 0 ? STATE_BODY_LENGTH : STATE_COMPLETE;
    case HTTP_CHUNKED:
        return STATE_CHUNK_SIZE;
    case HTTP_UNTIL_CLOSE:
        return STATE_BODY_CLOSE;
    case HTTP_NO_BODY:
        break;
    }
    return STATE_COMPLETE;
}

/* 100-continue, early hints and the like: the response proper is still to come. */
static int skip_interim(struct http_parser *parser, struct error *err)
{
    if (parser->interim >= INTERIM_MAX)
        return error_set(err, ERR_INVALID, "more than %d interim responses", INTERIM_MAX);
    parser->interim++;
    http_head_done(&parser->head);
    parser->state = STATE_START;
    return STEP_AGAIN;
}

static int announce_head(struct http_parser *parser)
{
    struct http_head *head = &parser->head;
    parser->state = first_body_state(head);
    parser->remaining = head->content_length;
    parser->line_length = 0;
    bool stop = parser->events->on_head(parser->ctx, head) != 0;
    return stop || head->upgrade ? STEP_STOP : STEP_AGAIN;
}

static int parse_head(struct http_parser *parser, const char *bytes, size_t length,
                      struct error *err)
{
    struct http_head *head = &parser->head;
    return parser->kind == HTTP_PARSE_REQUESTS
               ? http_head_parse_request(bytes, length, head, err)
               : http_head_parse_response(bytes, length, parser->answers_head, head, err);
}

static int step_head(struct http_parser *parser, struct http_input *in, struct error *err)
{
    ssize_t scanned = http_scan_feed(&parser->scan, in->bytes, in->length, err);
    if (scanned < 0)
        return (int)scanned;
    struct http_input piece = {in->bytes, (size_t)scanned};
    http_input_skip(in, piece.length);

    bool whole = parser->scan.state == HTTP_SCAN_DONE;
    if (!whole || parser->pieces.length > 0) {
        /* Cannot fail: the scanner's limit is the buffer's. */
        int r = buf_add(&parser->pieces, piece.bytes, piece.length);
        if (r < 0)
            return error_set(err, ERR_LIMIT, "head: more than %d bytes", HTTP_HEAD_MAX);
        piece = (struct http_input){parser->pieces.data, parser->pieces.length};
    }
    if (!whole)
        return STEP_WAIT;

    int r = parse_head(parser, piece.bytes, piece.length, err);
    buf_done(&parser->pieces);
    if (r < 0)
        return r;
    if (parser->kind == HTTP_PARSE_RESPONSES && parser->head.status < 200 &&
        parser->head.status != 101)
        return skip_interim(parser, err);
    return announce_head(parser);
}

/* --- bodies ----------------------------------------------------------------------------------- */

static int deliver_gathered(struct http_parser *parser)
{
    struct gathered *gathered = parser->gathered;
    if (gathered == NULL || gathered->used == 0)
        return STEP_AGAIN;
    size_t count = gathered->used;
    gathered->used = 0;
    return parser->events->on_body(parser->ctx, gathered->bytes, count) != 0 ? STEP_STOP
                                                                             : STEP_AGAIN;
}

static int pass_on(struct http_parser *parser, struct http_input *in, size_t count)
{
    const char *bytes = in->bytes;
    http_input_skip(in, count);
    return parser->events->on_body(parser->ctx, bytes, count) != 0 ? STEP_STOP : STEP_AGAIN;
}

/* A counted run of body bytes, after which the state is `next`. */
static int pass_on_counted(struct http_parser *parser, struct http_input *in, enum state next)
{
    if (in->length == 0)
        return STEP_WAIT;
    size_t count = (size_t)MIN((uint64_t)in->length, parser->remaining);
    parser->remaining -= count;
    if (parser->remaining == 0)
        parser->state = next;
    return pass_on(parser, in, count);
}

static int step_body_length(struct http_parser *parser, struct http_input *in, struct error *err)
{
    (void)err;
    return pass_on_counted(parser, in, STATE_COMPLETE);
}

static int step_body_close(struct http_parser *parser, struct http_input *in, struct error *err)
{
    (void)err;
    return in->length == 0 ? STEP_WAIT : pass_on(parser, in, in->length);
}

static int end_chunk_size(struct http_parser *parser, char c, struct error *err)
{
    if (parser->line_length == 0 || (c != '\r' && c != ';'))
        return error_set(err, ERR_INVALID, "byte 0x%02x is not allowed in a chunk size",
                         (unsigned char)c);
    if (parser->remaining > INT64_MAX)
        return error_set(err, ERR_INVALID, "chunk size is too large");
    parser->line_length = 0;
    parser->state = c == ';' ? STATE_CHUNK_EXTENSION : STATE_CHUNK_SIZE_LF;
    return STEP_AGAIN;
}

static int step_chunk_size(struct http_parser *parser, struct http_input *in, struct error *err)
{
    while (in->length > 0) {
        char c = in->bytes[0];
        int digit = str_hex_value(c);
        http_input_skip(in, 1);
        if (digit < 0)
            return end_chunk_size(parser, c, err);
        if (parser->line_length == 0)
            parser->remaining = 0;
        if (++parser->line_length > CHUNK_DIGITS_MAX)
            return error_set(err, ERR_INVALID, "chunk size of more than %d digits",
                             CHUNK_DIGITS_MAX);
        parser->remaining = parser->remaining << 4 | (unsigned)digit;
    }
    return STEP_WAIT;
}

static int step_chunk_extension(struct http_parser *parser, struct http_input *in,
                                struct error *err)
{
    while (in->length > 0) {
        char c = in->bytes[0];
        http_input_skip(in, 1);
        if (c == '\r') {
            parser->line_length = 0;
            parser->state = STATE_CHUNK_SIZE_LF;
            return STEP_AGAIN;
        }
        if (!http_is_field_text(&c, 1))
            return error_set(err, ERR_INVALID, "byte 0x%02x is not allowed in a chunk extension",
                             (unsigned char)c);
        if (++parser->line_length > CHUNK_EXTENSION_MAX)
            return error_set(err, ERR_LIMIT, "chunk extension of more than %d bytes",
                             CHUNK_EXTENSION_MAX);
    }
    return STEP_WAIT;
}

static int step_chunk_size_lf(struct http_parser *parser, struct http_input *in, struct error *err)
{
    if (in->length == 0)
        return STEP_WAIT;
    if (in->bytes[0] != '\n')
        return error_set(err, ERR_INVALID, "CR without LF after a chunk size");
    http_input_skip(in, 1);
    if (parser->remaining > 0) {
        parser->state = STATE_CHUNK_DATA;
    } else {
        http_scan_init(&parser->scan, "trailers", false, HTTP_HEAD_MAX, HTTP_HEADER_COUNT_MAX);
        parser->state = STATE_TRAILERS;
    }
    return STEP_AGAIN;
}

static int step_chunk_data(struct http_parser *parser, struct http_input *in, struct error *err)
{
    (void)err;
    if (in->length == 0)
        return STEP_WAIT;
    struct gathered *gathered = parser->gathered;
    size_t count = (size_t)MIN((uint64_t)in->length, parser->remaining);
    bool small = count <= GATHER_PIECE_MAX;
    if (!small || count > sizeof(gathered->bytes) - gathered->used) {
        int r = deliver_gathered(parser);
        if (r == STEP_STOP)
            return r;
    }
    if (!small)
        return pass_on_counted(parser, in, STATE_CHUNK_DATA_CR);
    memcpy(gathered->bytes + gathered->used, in->bytes, count);
    gathered->used += count;
    http_input_skip(in, count);
    parser->remaining -= count;
    if (parser->remaining == 0)
        parser->state = STATE_CHUNK_DATA_CR;
    return STEP_AGAIN;
}

static int after_chunk_data(struct http_parser *parser, struct http_input *in, char wanted,
                            enum state next, struct error *err)
{
    if (in->length == 0)
        return STEP_WAIT;
    if (in->bytes[0] != wanted)
        return error_set(err, ERR_INVALID, "chunk data is not followed by CRLF");
    http_input_skip(in, 1);
    parser->state = next;
    return STEP_AGAIN;
}

static int step_chunk_data_cr(struct http_parser *parser, struct http_input *in, struct error *err)
{
    return after_chunk_data(parser, in, '\r', STATE_CHUNK_DATA_LF, err);
}

static int step_chunk_data_lf(struct http_parser *parser, struct http_input *in, struct error *err)
{
    return after_chunk_data(parser, in, '\n', STATE_CHUNK_SIZE, err);
}

static int step_trailers(struct http_parser *parser, struct http_input *in, struct error *err)
{
    ssize_t scanned = http_scan_feed(&parser->scan, in->bytes, in->length, err);
    if (scanned < 0)
        return (int)scanned;
    http_input_skip(in, (size_t)scanned);
    if (parser->scan.state != HTTP_SCAN_DONE)
        return STEP_WAIT;
    parser->state = STATE_COMPLETE;
    return STEP_AGAIN;
}

static int step_complete(struct http_parser *parser, struct http_input *in, struct error *err)
{
    (void)in;
    (void)err;
    if (deliver_gathered(parser) == STEP_STOP)
        return STEP_STOP; /* and complete when it is fed again */
    /* Ready for the next message before the callback, which may already set what that one answers.
     */
    parser->state = STATE_START;
    parser->empty_lines = 0;
    parser->interim = 0;
    parser->answers_head = false;
    parser->events->on_complete(parser->ctx);
    http_head_done(&parser->head);
    return STEP_STOP;
}

static int step_dead(struct http_parser *parser, struct http_input *in, struct error *err)
{
    (void)parser;
    (void)in;
    return error_set(err, ERR_INVALID, "the connection broke the rules of HTTP before");
}

/* --- public ----------------------------------------------------------------------------------- */

static int run_step(struct http_parser *parser, struct http_input *in, struct error *err)
{
    static int (*const steps[])(struct http_parser *, struct http_input *, struct error *) = {
        [STATE_START] = step_start,
        [STATE_EMPTY_LINE_LF] = step_empty_line_lf,
        [STATE_HEAD] = step_head,
        [STATE_BODY_LENGTH] = step_body_length,
        [STATE_BODY_CLOSE] = step_body_close,
        [STATE_CHUNK_SIZE] = step_chunk_size,
        [STATE_CHUNK_EXTENSION] = step_chunk_extension,
        [STATE_CHUNK_SIZE_LF] = step_chunk_size_lf,
        [STATE_CHUNK_DATA] = step_chunk_data,
        [STATE_CHUNK_DATA_CR] = step_chunk_data_cr,
        [STATE_CHUNK_DATA_LF] = step_chunk_data_lf,
        [STATE_TRAILERS] = step_trailers,
        [STATE_COMPLETE] = step_complete,
        [STATE_DEAD] = step_dead,
    };
    return steps[parser->state](parser, in, err);
}

ssize_t http_parser_feed(struct http_parser *parser, const char *bytes, size_t length,
                         struct error *err)
{
    struct http_input in = {bytes, length};
    struct gathered gathered;
    gathered.used = 0;
    parser->gathered = &gathered;
    int r;
    do {
        r = run_step(parser, &in, err);
    } while (r == STEP_AGAIN);
    deliver_gathered(parser); /* all input is eaten, or of no use: nothing is left to be stopped */
    parser->gathered = NULL;
    if (r < 0) {
        buf_done(&parser->pieces);
        parser->state = STATE_DEAD;
        return r;
    }
    return (ssize_t)(length - in.length);
}

int http_parser_end(struct http_parser *parser, struct error *err)
{
    if (http_parser_is_idle(parser))
        return 0;
    if (parser->state == STATE_BODY_CLOSE || parser->state == STATE_COMPLETE) {
        step_complete(parser, NULL, err);
        return 0;
    }
    bool dead = parser->state == STATE_DEAD;
    parser->state = STATE_DEAD;
    if (dead)
        return step_dead(parser, NULL, err);
    return error_set(err, ERR_INVALID, "the connection was closed in the middle of a %s",
                     parser->kind == HTTP_PARSE_REQUESTS ? "request" : "response");
}

bool http_parser_is_idle(const struct http_parser *parser)
{
    return parser->state == STATE_START && parser->interim == 0;
}

bool http_parser_in_head(const struct http_parser *parser)
{
    return parser->state == STATE_HEAD || parser->state == STATE_EMPTY_LINE_LF;
}
