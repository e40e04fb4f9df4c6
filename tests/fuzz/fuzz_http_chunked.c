/* The body of a chunked request: bytes 0 to 3 are the sizes of the pieces. Whole and in pieces the
 * events must be the same, and both must agree with a second decoder, written for clarity on the
 * whole body at once. */
#include "http_events.h"

#define PREFIX  4
#define REQUEST "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum verdict { BODY_WHOLE, BODY_CUT, BODY_BAD };

struct reference {
    const char *at;
    const char *end;
    struct buf body;
};

static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f);
}

/* The line that begins at `at`, of nothing but text, CRLF excluded. */
static enum verdict take_line(struct reference *ref, const char **ret, size_t *ret_length)
{
    const char *begin = ref->at;
    const char *at = begin;
    while (at < ref->end && is_text(*at))
        at++;
    *ret = begin;
    *ret_length = (size_t)(at - begin);
    if (at == ref->end || (*at == '\r' && at + 1 == ref->end))
        return BODY_CUT;
    if (at[0] != '\r' || at[1] != '\n')
        return BODY_BAD;
    ref->at = at + 2;
    return BODY_WHOLE;
}

/* A line that may still become legal, or one that never can? */
static enum verdict read_size(struct reference *ref, uint64_t *ret)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    const char *line;
    size_t length;
    enum verdict verdict = take_line(ref, &line, &length);
    size_t digits = 0;
    while (digits < length && strchr(hex, line[digits]) != NULL)
        digits++;
    if (digits > 16 || (digits < length && (digits == 0 || line[digits] != ';')))
        return BODY_BAD;
    if (digits < length && length - digits - 1 > 1024)
        return BODY_BAD;
    bool ended = digits < length || verdict == BODY_WHOLE || line + length < ref->end;
    if (ended && digits == 0)
        return BODY_BAD;
    char number[17] = {0};
    memcpy(number, line, digits);
    *ret = strtoull(number, NULL, 16);
    return ended && *ret > INT64_MAX ? BODY_BAD : verdict;
}

static bool is_trailer(const char *line, size_t length, bool whole)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t name = 0;
    while (name < length && strchr(token, line[name]) != NULL)
        name++;
    return name == length ? !whole : name > 0 && line[name] == ':';
}

static enum verdict read_trailers(struct reference *ref)
{
    for (int fields = 0;; fields++) {
        const char *line;
        size_t length;
        enum verdict verdict = take_line(ref, &line, &length);
        bool ended = verdict == BODY_WHOLE || line + length < ref->end;
        if (length == 0)
            return verdict;
        if (fields >= HTTP_HEADER_COUNT_MAX || !is_trailer(line, length, ended))
            return BODY_BAD;
        if (verdict != BODY_WHOLE)
            return verdict;
    }
}

static enum verdict decode(struct reference *ref)
{
    for (;;) {
        uint64_t chunk = 0;
        enum verdict verdict = read_size(ref, &chunk);
        if (verdict != BODY_WHOLE)
            return verdict;
        if (chunk == 0)
            return read_trailers(ref);
        size_t left = (size_t)(ref->end - ref->at);
        size_t count = (size_t)MIN(chunk, (uint64_t)left);
        buf_add(&ref->body, ref->at, count);
        ref->at += count;
        left -= count;
        if (left > 0 && ref->at[0] != '\r')
            return BODY_BAD;
        if (left > 1 && ref->at[1] != '\n')
            return BODY_BAD;
        if (left < 2)
            return BODY_CUT;
        ref->at += 2;
    }
}

static void compare(const struct events_log *log, const uint8_t *data, size_t size)
{
    struct reference ref = {.at = (const char *)data, .end = (const char *)data + size};
    buf_init(&ref.body, EVENTS_LOG_MAX);
    enum verdict verdict = decode(&ref);
    if (log->complete != (verdict == BODY_WHOLE))
        abort();
    if (!log->complete && log->failed != (verdict == BODY_BAD))
        abort();
    /* Later messages in the same input would add to the body. */
    if (log->body.length < ref.body.length ||
        memcmp(log->body.data, ref.body.data, ref.body.length) != 0)
        abort();
    if (verdict != BODY_WHOLE && log->body.length != ref.body.length)
        abort();
    buf_done(&ref.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX)
        return 0;
    struct events_log whole = {0};
    struct events_log pieces = {.stop = data[0] & 1};
    events_run(&whole, HTTP_PARSE_REQUESTS, "", REQUEST, data + PREFIX, size - PREFIX, NULL, 0);
    events_run(&pieces, HTTP_PARSE_REQUESTS, "", REQUEST, data + PREFIX, size - PREFIX, data,
               PREFIX);
    events_assert_equal(&whole, &pieces);
    compare(&whole, data + PREFIX, size - PREFIX);
    events_done(&whole);
    events_done(&pieces);
    return 0;
}
