/* Events are written straight into a buffer: this is the path of every line that a command prints,
 * so nothing is built in between. */
#include "http/sse.h"

#include <string.h>

#include "base/clock.h"
#include "http/json_string.h"

#define EVENT_OVERHEAD_MAX 512 /* an event without its texts; types are literals of ours */

static int add_member(struct buf *out, const char *key, const char *text, size_t length)
{
    int r = buf_add_char(out, '"');
    if (r == 0)
        r = buf_add_str(out, key);
    if (r == 0)
        r = buf_add(out, "\":", 2);
    return r < 0 ? r : http_json_add_string(out, text, length);
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
    buf_init(event, text_length * HTTP_JSON_ESCAPED_MAX + EVENT_OVERHEAD_MAX);
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
        (void)http_json_add_string(&event, traceback, traceback_length);
    (void)buf_add_str(&event, "]},");
    (void)close_event(&event);
    event_send(exchange, &event);
}
