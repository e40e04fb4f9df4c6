/* Events are written straight into a buffer: this is the path of every line that a command prints,
 * so nothing is built in between. Beside what JSON demands, the line separators U+0085, U+2028 and
 * U+2029 are escaped, because some clients split the stream into lines with functions that count
 * these as line ends and would tear an event apart. */
#include "http/sse.h"

#include <string.h>

#include "base/clock.h"

#define EVENT_OVERHEAD_MAX 512 /* an event without its texts; types are literals of ours */
#define ESCAPED_MAX        6   /* bytes that one byte of text can become: \u00XX */

/* --- JSON strings ----------------------------------------------------------------------------- */

/* Second bytes allowed after a lead byte (RFC 3629): this is what excludes overlong forms,
 * surrogates and what is above U+10FFFF. */
static bool is_second_byte(unsigned char lead, unsigned char second)
{
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high;
}

/* Length of the sequence at `at` when it is well formed (and true), else of its maximal subpart:
 * the bytes that together are replaced by one U+FFFD. */
static bool utf8_sequence(const char *at, size_t left, size_t *ret_length)
{
    unsigned char lead = (unsigned char)at[0];
    size_t wanted = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    size_t have = 1;

    while (have < wanted && have < left) {
        unsigned char next = (unsigned char)at[have];
        if (have == 1 ? !is_second_byte(lead, next) : (next & 0xc0) != 0x80)
            break;
        have++;
    }
    *ret_length = have;
    return wanted > 1 && have == wanted;
}

/* The escape of a control character, quote or backslash. */
static size_t escape_ascii(char c, char ret[ESCAPED_MAX])
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\r\t\b\f";
    static const char to[] = "\"\\nrtbf";
    const char *found = c == '\0' ? NULL : strchr(from, c);

    ret[0] = '\\';
    if (found != NULL) {
        ret[1] = to[found - from];
        return 2;
    }
    ret[1] = 'u';
    ret[2] = '0';
    ret[3] = '0';
    ret[4] = hex[(unsigned char)c >> 4];
    ret[5] = hex[(unsigned char)c & 15];
    return 6;
}

/* For a well-formed sequence that must not stand as it is; NULL for all others. */
static const char *separator_escape(const char *at, size_t length)
{
    if (length == 2 && memcmp(at, "\xc2\x85", 2) == 0)
        return "\\u0085";
    if (length == 3 && memcmp(at, "\xe2\x80\xa8", 3) == 0)
        return "\\u2028";
    if (length == 3 && memcmp(at, "\xe2\x80\xa9", 3) == 0)
        return "\\u2029";
    return NULL;
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* The length of what needs no escape at the start of `text`. When that is not all, *ret_skip bytes
 * after it are to be replaced by *ret_escape (6 bytes of room). */
static size_t plain_run(const char *text, size_t length, size_t *ret_skip, char *ret_escape,
                        size_t *ret_escape_length)
{
    size_t i = 0;
    while (i < length) {
        if (is_plain(text[i])) {
            i++;
            continue;
        }
        if ((unsigned char)text[i] < 0x80) {
            *ret_skip = 1;
            *ret_escape_length = escape_ascii(text[i], ret_escape);
            return i;
        }
        size_t sequence;
        bool valid = utf8_sequence(text + i, length - i, &sequence);
        const char *escape = valid ? separator_escape(text + i, sequence) : "\xef\xbf\xbd";
        if (escape != NULL) {
            *ret_skip = sequence;
            *ret_escape_length = strlen(escape);
            memcpy(ret_escape, escape, *ret_escape_length);
            return i;
        }
        i += sequence;
    }
    return i;
}

static int add_string(struct buf *out, const char *text, size_t length)
{
    int r = buf_add_char(out, '"');
    while (r == 0 && length > 0) {
        char escape[ESCAPED_MAX];
        size_t escape_length = 0;
        size_t skip = 0;
        size_t run = plain_run(text, length, &skip, escape, &escape_length);
        r = buf_add(out, text, run);
        if (r == 0)
            r = buf_add(out, escape, escape_length);
        text += run + skip;
        length -= run + skip;
    }
    return r < 0 ? r : buf_add_char(out, '"');
}

static int add_member(struct buf *out, const char *key, const char *text, size_t length)
{
    int r = buf_add_char(out, '"');
    if (r == 0)
        r = buf_add_str(out, key);
    if (r == 0)
        r = buf_add(out, "\":", 2);
    return r < 0 ? r : add_string(out, text, length);
}

/* Without printf, which would cost more than all the rest of a short event. */
static int add_number(struct buf *out, int64_t number)
{
    char digits[20];
    size_t begin = sizeof(digits);
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do {
        digits[--begin] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        digits[--begin] = '-';
    return buf_add(out, digits + begin, sizeof(digits) - begin);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Every event is {"type":T, ... ,"timestamp":N}. */
static int open_event(struct buf *out, const char *type)
{
    int r = buf_add_str(out, "{\"type\":\"");
    if (r == 0)
        r = buf_add_str(out, type);
    return r < 0 ? r : buf_add(out, "\",", 2);
}

static int close_event(struct buf *out)
{
    int r = buf_add_str(out, "\"timestamp\":");
    if (r == 0)
        r = add_number(out, clock_unix_ms());
    return r < 0 ? r : buf_add(out, "}\n\n", 3);
}

static int add_number_member(struct buf *out, const struct http_sse_number *number)
{
    int r = buf_add_char(out, '"');
    if (r == 0)
        r = buf_add_str(out, number->key);
    if (r == 0)
        r = buf_add(out, "\":", 2);
    if (r == 0)
        r = add_number(out, number->value);
    return r < 0 ? r : buf_add_char(out, ',');
}

int http_sse_format(struct buf *out, const char *type, const char *text, size_t length,
                    const struct http_sse_number *numbers, size_t count)
{
    size_t before = out->length;
    int r = open_event(out, type);
    if (r == 0 && length > 0) {
        r = add_member(out, "text", text, length);
        if (r == 0)
            r = buf_add_char(out, ',');
    }
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_number_member(out, &numbers[i]);
    if (r == 0)
        r = close_event(out);
    if (r < 0 && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    return r;
}

int http_sse_format_text(struct buf *out, const char *type, const char *text, size_t length)
{
    return http_sse_format(out, type, text, length, NULL, 0);
}

void http_sse_begin(struct http_exchange *exchange)
{
    http_exchange_set_header(exchange, "Content-Type", "text/event-stream");
    http_exchange_set_header(exchange, "Cache-Control", "no-cache");
    http_exchange_set_header(exchange, "X-Accel-Buffering", "no");
    http_exchange_begin(exchange, 200, -1);
}

/* A buffer that holds any event with so much text: formatting into it cannot fail. */
static void event_init(struct buf *event, size_t text_length)
{
    buf_init(event, text_length * ESCAPED_MAX + EVENT_OVERHEAD_MAX);
    (void)buf_reserve(event, text_length + EVENT_OVERHEAD_MAX / 4);
}

static void event_send(struct http_exchange *exchange, struct buf *event)
{
    http_exchange_write(exchange, event->data, event->length);
    buf_done(event);
}

void http_sse_send_text(struct http_exchange *exchange, const char *type, const char *text,
                        size_t length)
{
    struct buf event;
    event_init(&event, length);
    (void)http_sse_format_text(&event, type, text, length);
    event_send(exchange, &event);
}

void http_sse_send_complete(struct http_exchange *exchange, int64_t execution_time_ms)
{
    struct buf event;
    event_init(&event, 0);
    (void)open_event(&event, "execution_complete");
    if (execution_time_ms != 0) {
        (void)buf_add_str(&event, "\"execution_time\":");
        (void)add_number(&event, execution_time_ms);
        (void)buf_add_char(&event, ',');
    }
    (void)close_event(&event);
    event_send(exchange, &event);
}

void http_sse_send_error(struct http_exchange *exchange, const char *ename, const char *evalue,
                         const char *traceback)
{
    size_t traceback_length = traceback == NULL ? 0 : strlen(traceback);
    struct buf event;

    event_init(&event, strlen(ename) + strlen(evalue) + traceback_length);
    (void)open_event(&event, "error");
    (void)buf_add_str(&event, "\"error\":{");
    (void)add_member(&event, "ename", ename, strlen(ename));
    (void)buf_add_char(&event, ',');
    (void)add_member(&event, "evalue", evalue, strlen(evalue));
    (void)buf_add_str(&event, ",\"traceback\":[");
    if (traceback != NULL)
        (void)add_string(&event, traceback, traceback_length);
    (void)buf_add_str(&event, "]},");
    (void)close_event(&event);
    event_send(exchange, &event);
}
