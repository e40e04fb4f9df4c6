/* A head in three steps. http/scan.h has already refused every byte that could make two readers see
 * different lines. Here the start line is split by exact position, then llhttp reads the same bytes
 * and yields the fields: two independent readers must agree, and llhttp's own framing checks (a
 * number that is none in Content-Length, for one) come for free. Last come the rules that neither
 * knows: Host, target form, and how the body is framed.
 *
 * llhttp is given the head only and stopped at its end; bodies are decoded in http/parser.c. So its
 * state lives on the stack here and a connection carries none of it. */
#include "http/head.h"

#include <errno.h>
#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/quote.h"
#include "http/scan.h"

#define VERSION_LENGTH 8 /* HTTP/1.1 */

struct slice {
    const char *bytes;
    size_t length;
};

/* --- start lines ------------------------------------------------------------------------------ */

/* errno in err->sys tells a caller 505 (EPROTONOSUPPORT) from 501 (EOPNOTSUPP): both are
 * ERR_UNSUPPORTED. */
static int refuse_unsupported(struct error *err, int sys, const char *what, struct slice value)
{
    char quoted[HTTP_QUOTE_MAX];
    int r = error_set(err, ERR_UNSUPPORTED, "%s \"%s\" is not supported", what,
                      http_quote(quoted, sizeof(quoted), value.bytes, value.length));
    if (err != NULL)
        err->sys = sys;
    return r;
}

static int refuse_value(struct error *err, const char *what, struct slice value)
{
    char quoted[HTTP_QUOTE_MAX];
    return error_set(err, ERR_INVALID, "%s: \"%s\"", what,
                     http_quote(quoted, sizeof(quoted), value.bytes, value.length));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int parse_version(struct slice version, int *ret_minor, struct error *err)
{
    if (version.length != VERSION_LENGTH || memcmp(version.bytes, "HTTP/", 5) != 0 ||
        !is_digit(version.bytes[5]) || version.bytes[6] != '.' || !is_digit(version.bytes[7]))
        return refuse_value(err, "malformed HTTP version", version);
    if (version.bytes[5] != '1' || version.bytes[7] > '1')
        return refuse_unsupported(err, EPROTONOSUPPORT, "HTTP version", version);
    *ret_minor = version.bytes[7] - '0';
    return 0;
}

/* Origin form, or "*" for OPTIONS. Absolute and authority form would name a second host beside
 * Host. */
static int check_target(const char *method, struct slice target, struct error *err)
{
    if (target.length == 1 && target.bytes[0] == '*' && str_equal(method, "OPTIONS"))
        return 0;
    if (target.length == 0 || target.bytes[0] != '/')
        return refuse_value(err, "the request target must begin with \"/\"", target);
    for (size_t i = 0; i < target.length; i++)
        if (target.bytes[i] <= ' ' || target.bytes[i] == 0x7f || target.bytes[i] == '#')
            return refuse_value(err, "the request target holds a byte that must be escaped",
                                target);
    return 0;
}

/* method SP target SP version, each separated by exactly one space. */
static int parse_request_line(struct slice line, struct http_head *head, struct error *err)
{
    const char *space = memchr(line.bytes, ' ', line.length);
    const char *last = memrchr(line.bytes, ' ', line.length);
    if (space == NULL || space == last)
        return refuse_value(err, "malformed request line", line);

    struct slice method = {line.bytes, (size_t)(space - line.bytes)};
    struct slice target = {space + 1, (size_t)(last - space - 1)};
    struct slice version = {last + 1, line.length - (size_t)(last + 1 - line.bytes)};
    if (!http_is_token(method.bytes, method.length))
        return refuse_value(err, "malformed request method", method);
    int r = parse_version(version, &head->minor, err);
    if (r < 0)
        return r;
    if (method.length >= HTTP_METHOD_MAX)
        return refuse_unsupported(err, EOPNOTSUPP, "method", method);
    memcpy(head->method, method.bytes, method.length);
    head->method[method.length] = '\0';
    if (str_equal(head->method, "CONNECT"))
        return refuse_unsupported(err, EOPNOTSUPP, "method", method);
    r = check_target(head->method, target, err);
    if (r < 0)
        return r;
    head->target = mem_dup_n(target.bytes, target.length);
    return 0;
}

/* version SP 3DIGIT, then nothing or SP reason. */
static int parse_status_line(struct slice line, struct http_head *head, struct error *err)
{
    const char *code = line.bytes + VERSION_LENGTH + 1;
    if (line.length < VERSION_LENGTH + 4 || code[-1] != ' ' || !is_digit(code[0]) ||
        !is_digit(code[1]) || !is_digit(code[2]) ||
        (line.length > VERSION_LENGTH + 4 && code[3] != ' '))
        return refuse_value(err, "malformed status line", line);
    int r = parse_version((struct slice){line.bytes, VERSION_LENGTH}, &head->minor, err);
    if (r < 0)
        return r;
    head->status = (code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0');
    if (head->status < 100 || head->status > 599)
        return error_set(err, ERR_INVALID, "status %d is not from 100 to 599", head->status);
    return 0;
}

/* --- fields ----------------------------------------------------------------------------------- */

struct field_reader {
    struct http_head *head;
    struct slice name;
    bool complete;
};

static int on_field_name(llhttp_t *llhttp, const char *at, size_t length)
{
    struct field_reader *reader = llhttp->data;
    reader->name = (struct slice){at, length};
    return 0;
}

static int on_field_value(llhttp_t *llhttp, const char *at, size_t length)
{
    struct field_reader *reader = llhttp->data;
    /* A head given in one piece yields each value in one piece. */
    if (reader->name.bytes == NULL)
        return -1;
    int r = http_headers_add_n(&reader->head->headers, reader->name.bytes, reader->name.length, at,
                               length);
    reader->name.bytes = NULL;
    return r < 0 ? -1 : 0;
}

static int on_fields_complete(llhttp_t *llhttp)
{
    struct field_reader *reader = llhttp->data;
    reader->complete = true;
    return HPE_PAUSED;
}

static int refuse_as_llhttp(llhttp_t *llhttp, const struct http_head *head, struct error *err)
{
    if (llhttp_get_errno(llhttp) == HPE_INVALID_METHOD)
        return refuse_unsupported(err, EOPNOTSUPP, "method",
                                  (struct slice){head->method, strlen(head->method)});
    return error_set(err, ERR_INVALID, "malformed head: %s", llhttp_get_error_reason(llhttp));
}

static int read_fields(const char *bytes, size_t length, llhttp_type_t type, struct http_head *head,
                       struct error *err)
{
    static const llhttp_settings_t settings = {
        .on_header_field = on_field_name,
        .on_header_value = on_field_value,
        .on_headers_complete = on_fields_complete,
    };
    struct field_reader reader = {.head = head};
    llhttp_t llhttp;

    llhttp_init(&llhttp, type, &settings);
    llhttp.data = &reader;
    llhttp_errno_t e = llhttp_execute(&llhttp, bytes, length);
    if (e != HPE_PAUSED || !reader.complete)
        return refuse_as_llhttp(&llhttp, head, err);
    /* The two readers of the start line must have seen the same. */
    if (llhttp.http_major != 1 || llhttp.http_minor != head->minor ||
        (type == HTTP_RESPONSE && llhttp.status_code != head->status) ||
        (type == HTTP_REQUEST && !str_equal(llhttp_method_name(llhttp.method), head->method)))
        return error_set(err, ERR_INVALID, "ambiguous start line");
    return 0;
}

/* --- framing ---------------------------------------------------------------------------------- */

/* The two fields that say how long a body is. */
struct lengths {
    bool chunked;
    bool has_length;
    uint64_t length;
};

static int read_lengths(const struct http_head *head, struct lengths *ret, struct error *err)
{
    const char *coding = http_headers_find(&head->headers, "Transfer-Encoding");
    const char *length = http_headers_find(&head->headers, "Content-Length");

    if (http_headers_count(&head->headers, "Content-Length") > 1)
        return error_set(err, ERR_INVALID, "Content-Length is given more than once");
    if (http_headers_count(&head->headers, "Transfer-Encoding") > 1)
        return error_set(err, ERR_INVALID, "Transfer-Encoding is given more than once");
    if (coding != NULL && length != NULL)
        return error_set(err, ERR_INVALID, "both Content-Length and Transfer-Encoding are given");
    if (coding != NULL && head->minor == 0)
        return error_set(err, ERR_INVALID, "Transfer-Encoding is not allowed in HTTP/1.0");
    if (coding != NULL && !str_equal_nocase(coding, "chunked"))
        return refuse_unsupported(err, EOPNOTSUPP, "Transfer-Encoding",
                                  (struct slice){coding, strlen(coding)});
    if (length != NULL && str_to_u64(length, 0, INT64_MAX, &ret->length) < 0)
        return refuse_value(err, "malformed Content-Length",
                            (struct slice){length, strlen(length)});
    ret->chunked = coding != NULL;
    ret->has_length = length != NULL;
    return 0;
}

static void set_framing(struct http_head *head, const struct lengths *lengths,
                        enum http_framing otherwise)
{
    head->framing = lengths->chunked ? HTTP_CHUNKED : lengths->has_length ? HTTP_LENGTH : otherwise;
    head->content_length = lengths->length;
}

static bool wants_keep_alive(const struct http_head *head)
{
    if (http_headers_has_token(&head->headers, "Connection", "close"))
        return false;
    return head->minor == 1 || http_headers_has_token(&head->headers, "Connection", "keep-alive");
}

/* --- Host ------------------------------------------------------------------------------------- */

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
           (c != '\0' && strchr("-._~%!$&'()*+,;=", c) != NULL);
}

/* Length of the host at the start of an authority: a name, an IPv4 or a bracketed IPv6 address. */
static size_t host_length(const char *host)
{
    size_t length = 0;
    if (host[0] == '[') {
        length = 1 + strspn(host + 1, "0123456789abcdefABCDEF:.");
        return length > 2 && host[length] == ']' ? length + 1 : 0;
    }
    while (is_host_char(host[length]))
        length++;
    return length;
}

static bool is_authority(const char *host)
{
    size_t length = host_length(host);
    uint64_t port;
    if (length == 0)
        return false;
    return host[length] == '\0' ||
           (host[length] == ':' && str_to_u64(host + length + 1, 0, 65535, &port) == 0);
}

static int check_host(const struct http_head *head, struct error *err)
{
    const char *host = http_headers_find(&head->headers, "Host");
    if (http_headers_count(&head->headers, "Host") > 1)
        return error_set(err, ERR_INVALID, "Host is given more than once");
    if (host == NULL && head->minor == 1)
        return error_set(err, ERR_INVALID, "Host is missing");
    if (host != NULL && !is_authority(host))
        return refuse_value(err, "malformed Host", (struct slice){host, strlen(host)});
    return 0;
}

/* --- whole heads ------------------------------------------------------------------------------ */

static struct slice first_line(const char *bytes, size_t length)
{
    const char *end = memchr(bytes, '\r', length);
    return (struct slice){bytes, end == NULL ? length : (size_t)(end - bytes)};
}

int http_head_parse_request(const char *bytes, size_t length, struct http_head *head,
                            struct error *err)
{
    struct lengths lengths = {0};
    int r = parse_request_line(first_line(bytes, length), head, err);
    if (r == 0)
        r = read_fields(bytes, length, HTTP_REQUEST, head, err);
    if (r == 0)
        r = check_host(head, err);
    if (r == 0)
        r = read_lengths(head, &lengths, err);
    if (r < 0)
        return r;

    set_framing(head, &lengths, HTTP_NO_BODY);
    const char *upgrade = http_headers_find(&head->headers, "Upgrade");
    const char *expect = http_headers_find(&head->headers, "Expect");
    head->keep_alive = wants_keep_alive(head);
    head->expect_continue = head->minor == 1 && str_equal_nocase(expect, "100-continue");
    /* What follows an upgrade request is the new protocol if it is taken and HTTP if it is not; a
     * body in between would leave it open where either begins. So one with a body is an ordinary
     * request: a server is free to ignore Upgrade (Java's client offers h2c on every POST). */
    bool has_body = lengths.chunked || lengths.length > 0;
    head->upgrade = !str_is_blank(upgrade) && head->minor == 1 && !has_body &&
                    http_headers_has_token(&head->headers, "Connection", "upgrade");
    return 0;
}

/* A body is announced where there can be none: peers differ in whether they read it. */
static int check_bodyless(const struct http_head *head, const struct lengths *lengths,
                          struct error *err)
{
    if ((head->status < 200 || head->status == 204) && (lengths->chunked || lengths->length > 0))
        return error_set(err, ERR_INVALID, "a %d response announces a body", head->status);
    return 0;
}

int http_head_parse_response(const char *bytes, size_t length, bool answers_head,
                             struct http_head *head, struct error *err)
{
    struct lengths lengths = {0};
    int r = parse_status_line(first_line(bytes, length), head, err);
    if (r == 0)
        r = read_fields(bytes, length, HTTP_RESPONSE, head, err);
    if (r == 0)
        r = read_lengths(head, &lengths, err);
    if (r == 0)
        r = check_bodyless(head, &lengths, err);
    if (r < 0)
        return r;

    set_framing(head, &lengths, HTTP_UNTIL_CLOSE);
    if (!http_response_has_body(answers_head ? "HEAD" : "", head->status))
        head->framing = HTTP_NO_BODY;
    head->upgrade = head->status == 101;
    head->keep_alive = wants_keep_alive(head) && head->framing != HTTP_UNTIL_CLOSE;
    return 0;
}
