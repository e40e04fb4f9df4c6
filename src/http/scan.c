#include "http/scan.h"

#include "base/macros.h"

/* What a byte may be part of. */
#define TOKEN 1 /* a field name or method */
#define TEXT  2 /* a field value or start line */

static const uint8_t classes[256] = {
    ['\t'] = TEXT,
    [' '] = TEXT,
    ['!'] = TOKEN | TEXT,
    ['"'] = TEXT,
    ['#' ... '\''] = TOKEN | TEXT,
    ['('] = TEXT,
    [')'] = TEXT,
    ['*'] = TOKEN | TEXT,
    ['+'] = TOKEN | TEXT,
    [','] = TEXT,
    ['-'] = TOKEN | TEXT,
    ['.'] = TOKEN | TEXT,
    ['/'] = TEXT,
    ['0' ... '9'] = TOKEN | TEXT,
    [':' ... '@'] = TEXT,
    ['A' ... 'Z'] = TOKEN | TEXT,
    ['[' ... ']'] = TEXT,
    ['^' ... 'z'] = TOKEN | TEXT,
    ['{'] = TEXT,
    ['|'] = TOKEN | TEXT,
    ['}'] = TEXT,
    ['~'] = TOKEN | TEXT,
    [0x80 ... 0xff] = TEXT,
};

static bool is_class(char c, uint8_t class)
{
    return (classes[(unsigned char)c] & class) != 0;
}

static size_t run_length(const char *bytes, size_t length, uint8_t class)
{
    size_t n = 0;
    while (n < length && is_class(bytes[n], class))
        n++;
    return n;
}

bool http_is_token(const char *bytes, size_t length)
{
    return length > 0 && run_length(bytes, length, TOKEN) == length;
}

bool http_is_field_text(const char *bytes, size_t length)
{
    return run_length(bytes, length, TEXT) == length;
}

void http_scan_init(struct http_scan *scan, const char *what, bool start_line, uint32_t bytes_max,
                    uint16_t fields_max)
{
    *scan = (struct http_scan){
        .what = what,
        .state = start_line ? HTTP_SCAN_START_LINE : HTTP_SCAN_LINE_BEGIN,
        .bytes_max = bytes_max,
        .fields_max = fields_max,
    };
}

static int refuse_byte(const struct http_scan *scan, char c, struct error *err)
{
    if (c == '\n')
        return error_set(err, ERR_INVALID, "%s: a line ends in LF without CR", scan->what);
    if (scan->state == HTTP_SCAN_LINE_CR || scan->state == HTTP_SCAN_LAST_CR)
        return error_set(err, ERR_INVALID, "%s: CR without LF", scan->what);
    if (scan->state == HTTP_SCAN_LINE_BEGIN && (c == ' ' || c == '\t'))
        return error_set(err, ERR_INVALID, "%s: a folded line", scan->what);
    if (scan->state == HTTP_SCAN_LINE_BEGIN && c == ':')
        return error_set(err, ERR_INVALID, "%s: a field without a name", scan->what);
    if (scan->state == HTTP_SCAN_NAME && c == '\r')
        return error_set(err, ERR_INVALID, "%s: a field without a colon", scan->what);
    return error_set(
        err, ERR_INVALID, "%s: byte 0x%02x is not allowed in a %s", scan->what, (unsigned char)c,
        scan->state == HTTP_SCAN_NAME || scan->state == HTTP_SCAN_LINE_BEGIN ? "field name"
        : scan->state == HTTP_SCAN_VALUE                                     ? "field value"
                                                                             : "start line");
}

static int begin_line(struct http_scan *scan, char c, struct error *err)
{
    if (c == '\r') {
        scan->state = HTTP_SCAN_LAST_CR;
        return 0;
    }
    if (!is_class(c, TOKEN))
        return refuse_byte(scan, c, err);
    if (scan->fields >= scan->fields_max)
        return error_set(err, ERR_LIMIT, "%s: more than %u fields", scan->what, scan->fields_max);
    scan->fields++;
    scan->state = HTTP_SCAN_NAME;
    return 0;
}

/* The byte that ends a run, or stands alone: moves the state on or refuses. */
static int take_byte(struct http_scan *scan, char c, struct error *err)
{
    switch (scan->state) {
    case HTTP_SCAN_LINE_BEGIN:
        return begin_line(scan, c, err);
    case HTTP_SCAN_NAME:
        if (c != ':')
            return refuse_byte(scan, c, err);
        scan->state = HTTP_SCAN_VALUE;
        return 0;
    case HTTP_SCAN_START_LINE:
    case HTTP_SCAN_VALUE:
        if (c != '\r')
            return refuse_byte(scan, c, err);
        scan->state = HTTP_SCAN_LINE_CR;
        return 0;
    case HTTP_SCAN_LINE_CR:
    case HTTP_SCAN_LAST_CR:
        if (c != '\n')
            return refuse_byte(scan, c, err);
        scan->state = scan->state == HTTP_SCAN_LAST_CR ? HTTP_SCAN_DONE : HTTP_SCAN_LINE_BEGIN;
        return 0;
    case HTTP_SCAN_DONE:
        break;
    }
    return error_set(err, ERR_INTERNAL, "%s: scanned past its end", scan->what);
}

ssize_t http_scan_feed(struct http_scan *scan, const char *bytes, size_t length, struct error *err)
{
    /* Nothing past the limit is looked at, so that the outcome does not depend on how input is cut.
     */
    size_t allowed = MIN(length, (size_t)(scan->bytes_max - scan->bytes));
    size_t n = 0;

    while (n < allowed && scan->state != HTTP_SCAN_DONE) {
        if (scan->state == HTTP_SCAN_START_LINE || scan->state == HTTP_SCAN_VALUE)
            n += run_length(bytes + n, allowed - n, TEXT);
        else if (scan->state == HTTP_SCAN_NAME)
            n += run_length(bytes + n, allowed - n, TOKEN);
        if (n == allowed)
            break;
        int r = take_byte(scan, bytes[n], err);
        if (r < 0)
            return r;
        n++;
    }
    scan->bytes += (uint32_t)n;
    if (n < length && scan->state != HTTP_SCAN_DONE)
        return error_set(err, ERR_LIMIT, "%s: more than %u bytes", scan->what, scan->bytes_max);
    return (ssize_t)n;
}
