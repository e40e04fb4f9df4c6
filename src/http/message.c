#include "http/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/str.h"
#include "http/scan.h"

void http_head_init(struct http_head *head)
{
    *head = (struct http_head){.minor = 1};
    http_headers_init(&head->headers);
}

void http_head_done(struct http_head *head)
{
    free(head->target);
    http_headers_done(&head->headers);
    http_head_init(head);
}

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } names[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {102, "Processing"},
        {103, "Early Hints"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {407, "Proxy Authentication Required"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {423, "Locked"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
        {511, "Network Authentication Required"},
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].status == status)
            return names[i].text;
    return "Unknown";
}

bool http_response_has_body(const char *request_method, int status)
{
    if (status < 200 || status == 204 || status == 304)
        return false;
    return !str_equal(request_method, "HEAD");
}

static bool is_framing_field(const char *name)
{
    return strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0;
}

static int write_field(struct buf *out, const char *name, const char *value)
{
    int r = buf_add_str(out, name);
    if (r == 0)
        r = buf_add(out, ": ", 2);
    if (r == 0)
        r = buf_add_str(out, value);
    if (r == 0)
        r = buf_add(out, "\r\n", 2);
    return r;
}

static int write_fields(const struct http_head *head, struct buf *out)
{
    for (size_t i = 0; i < head->headers.count; i++) {
        const struct http_header *header = &head->headers.items[i];
        if (is_framing_field(header->name))
            continue;
        if (!head->upgrade && strcasecmp(header->name, "Connection") == 0)
            continue;
        int r = write_field(out, header->name, header->value);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A request of these methods without a body says so: some servers wait for one otherwise. */
static bool method_expects_body(const char *method)
{
    return str_equal(method, "POST") || str_equal(method, "PUT") || str_equal(method, "PATCH");
}

static int write_framing(const struct http_head *head, struct buf *out)
{
    switch (head->framing) {
    case HTTP_LENGTH:
        return buf_printf(out, "Content-Length: %" PRIu64 "\r\n", head->content_length);
    case HTTP_CHUNKED:
        if (head->minor == 0) /* HTTP/1.0 has no chunks: the caller must choose another framing */
            return -EINVAL;
        return write_field(out, "Transfer-Encoding", "chunked");
    case HTTP_NO_BODY:
        if (method_expects_body(head->method))
            return write_field(out, "Content-Length", "0");
        return 0;
    case HTTP_UNTIL_CLOSE:
        return 0;
    }
    return -EINVAL;
}

static int write_connection(const struct http_head *head, struct buf *out)
{
    if (head->upgrade)
        return 0;
    if (!head->keep_alive || head->framing == HTTP_UNTIL_CLOSE)
        return write_field(out, "Connection", "close");
    if (head->minor == 0)
        return write_field(out, "Connection", "keep-alive");
    return 0;
}

static int write_rest(const struct http_head *head, struct buf *out)
{
    int r = write_fields(head, out);
    if (r == 0)
        r = write_framing(head, out);
    if (r == 0)
        r = write_connection(head, out);
    if (r == 0)
        r = buf_add(out, "\r\n", 2);
    return r;
}

/* All or nothing: half a head in an output buffer could only do harm. */
static int keep_or_undo(struct buf *out, size_t before, int r)
{
    if (r < 0 && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    return r;
}

static bool is_target(const char *target)
{
    if (target == NULL || target[0] == '\0')
        return false;
    for (const char *at = target; *at != '\0'; at++)
        if (*at <= ' ' || *at == 0x7f)
            return false;
    return true;
}

int http_head_write_request(const struct http_head *head, struct buf *out)
{
    if (!http_is_token(head->method, strlen(head->method)) || !is_target(head->target) ||
        head->framing == HTTP_UNTIL_CLOSE)
        return -EINVAL;
    size_t before = out->length;
    int r = buf_printf(out, "%s %s HTTP/1.%d\r\n", head->method, head->target, head->minor);
    if (r == 0)
        r = write_rest(head, out);
    return keep_or_undo(out, before, r);
}

int http_head_write_response(const struct http_head *head, struct buf *out)
{
    size_t before = out->length;
    int r = buf_printf(out, "HTTP/1.%d %d %s\r\n", head->minor, head->status,
                       http_status_text(head->status));
    if (r == 0)
        r = write_rest(head, out);
    return keep_or_undo(out, before, r);
}
