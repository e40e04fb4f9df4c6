/* One exchange relayed to an upstream. The proxy object lives as long as the exchange: it is freed
 * in on_close and nowhere else. The call ends earlier, later or never; `call` is NULL when it has.
 *
 * Fields are copied one by one in their order. What belongs to one hop is left out, and the framing
 * is written anew from what the parser understood, never copied: request and response smuggling
 * lives on two readers of the same fields. */
#include "http/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/server_internal.h"
#include "http/tunnel.h"

struct proxy {
    struct http_client *client;
    struct http_exchange *exchange;
    struct http_call *call;
    char *error_code;
    char *request_id;
};

/* --- fields ----------------------------------------------------------------------------------- */

static bool is_hop_field(const char *name)
{
    static const char *const names[] = {"Connection", "Keep-Alive",        "TE",
                                        "Trailer",    "Transfer-Encoding", "Upgrade"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_equal_nocase(name, names[i]))
            return true;
    return strncasecmp(name, "Proxy-", 6) == 0;
}

static bool is_listed(const char *const *list, const char *name)
{
    for (; list != NULL && *list != NULL; list++)
        if (str_equal_nocase(*list, name))
            return true;
    return false;
}

/* May this field of `from` pass? Connection cannot name Host away: requests need it. */
static bool may_pass(const struct http_headers *from, const char *name, const char *const *drop)
{
    if (is_hop_field(name) || is_listed(drop, name))
        return false;
    return str_equal_nocase(name, "Host") || !http_headers_has_token(from, "Connection", name);
}

/* An upgrade is a matter of each hop, too, but one that we make together with the next. */
static int copy_fields(struct http_headers *to, const struct http_headers *from, bool upgrade,
                       const char *const *drop)
{
    bool connection_added = false;
    for (size_t i = 0; i < from->count; i++) {
        const char *name = from->items[i].name;
        const char *value = from->items[i].value;
        int r = 0;
        if (upgrade && str_equal_nocase(name, "Connection")) {
            if (!connection_added)
                r = http_headers_add(to, name, "Upgrade");
            connection_added = true;
        } else if ((upgrade && str_equal_nocase(name, "Upgrade")) || may_pass(from, name, drop)) {
            r = http_headers_add(to, name, value);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* The last X-Forwarded-For field gets the peer appended: earlier ones belong to earlier hops. */
static int append_forwarded_for(struct http_headers *headers, const char *peer)
{
    for (size_t i = headers->count; i > 0; i--) {
        struct http_header *header = &headers->items[i - 1];
        if (!str_equal_nocase(header->name, "X-Forwarded-For"))
            continue;
        char *value = mem_printf("%s, %s", header->value, peer);
        free(header->value);
        header->value = value;
        return 0;
    }
    return http_headers_add(headers, "X-Forwarded-For", peer);
}

static int add_missing(struct http_headers *headers, const char *name, const char *value)
{
    if (value == NULL || http_headers_find(headers, name) != NULL)
        return 0;
    return http_headers_add(headers, name, value);
}

static int add_forwarded(struct http_headers *headers, const char *peer, const char *proto)
{
    int r = 0;
    if (!str_equal(peer, "unix") && peer[0] != '\0')
        r = append_forwarded_for(headers, peer);
    if (r == 0)
        r = add_missing(headers, "X-Forwarded-Host", http_headers_find(headers, "Host"));
    if (r == 0)
        r = add_missing(headers, "X-Forwarded-Proto", proto);
    if (r == 0)
        r = add_missing(headers, "Host", "localhost"); /* HTTP/1.0 clients may leave it out */
    return r;
}

static int make_request(struct http_head *to, const struct http_exchange *exchange,
                        const struct http_proxy_options *options)
{
    const struct http_head *from = http_exchange_head(exchange);
    memcpy(to->method, from->method, sizeof(to->method));
    to->target = mem_dup(options->target);
    to->framing = from->framing;
    to->content_length = from->content_length;
    to->upgrade = from->upgrade;
    int r = copy_fields(&to->headers, &from->headers, from->upgrade, options->drop);
    if (r == 0)
        r = add_forwarded(&to->headers, http_exchange_peer(exchange), options->forwarded_proto);
    return r;
}

/* --- upstream to client ----------------------------------------------------------------------- */

static void set_request_id(struct proxy *proxy)
{
    if (proxy->request_id != NULL)
        http_exchange_set_header(proxy->exchange, "X-Request-ID", proxy->request_id);
}

/* A response to HEAD has no body, but its fields tell how one would have been framed. */
static enum http_framing announced_framing(const struct http_head *head, uint64_t *ret_length)
{
    *ret_length = head->content_length;
    if (head->framing == HTTP_UNTIL_CLOSE)
        return HTTP_CHUNKED; /* keeps our connection, and a cut visible */
    if (head->framing != HTTP_NO_BODY)
        return head->framing;
    const char *length = http_headers_find(&head->headers, "Content-Length");
    if (length != NULL && str_to_u64(length, 0, INT64_MAX, ret_length) == 0)
        return HTTP_LENGTH;
    return http_headers_has_token(&head->headers, "Transfer-Encoding", "chunked") ? HTTP_CHUNKED
                                                                                  : HTTP_NO_BODY;
}

static void on_head(struct http_call *call, const struct http_head *head, void *ctx)
{
    struct proxy *proxy = ctx;
    (void)call;
    for (size_t i = 0; i < head->headers.count; i++) {
        const struct http_header *field = &head->headers.items[i];
        if (may_pass(&head->headers, field->name, NULL))
            http_exchange_add_header(proxy->exchange, field->name, field->value);
    }
    set_request_id(proxy);
    uint64_t length;
    enum http_framing framing = announced_framing(head, &length);
    http_exchange_begin_relayed(proxy->exchange, head->status, framing, length);
}

static void on_body(struct http_call *call, const char *bytes, size_t length, void *ctx)
{
    struct proxy *proxy = ctx;
    http_exchange_write(proxy->exchange, bytes, length);
    if (http_exchange_is_full(proxy->exchange))
        http_call_pause(call);
}

static void on_done(struct http_call *call, void *ctx)
{
    struct proxy *proxy = ctx;
    (void)call;
    proxy->call = NULL;
    http_exchange_end(proxy->exchange);
}

/* The reason is told without addresses: those are ours, not the client's. */
static void on_error(struct http_call *call, const struct error *err, void *ctx)
{
    struct proxy *proxy = ctx;
    int status = err->code == ERR_TIMEOUT ? 504 : http_call_is_untried(call) ? 503 : 502;
    proxy->call = NULL;
    if (http_exchange_is_begun(proxy->exchange) && !http_exchange_retract(proxy->exchange)) {
        http_exchange_abort(proxy->exchange); /* a short answer must not look whole */
        return;
    }
    set_request_id(proxy);
    if (status == 503)
        http_exchange_set_header(proxy->exchange, "Retry-After", "1");
    http_exchange_reply_error(proxy->exchange, status, proxy->error_code,
                              "no answer from the upstream: %s", err->message);
}

static void on_call_drain(struct http_call *call, void *ctx)
{
    struct proxy *proxy = ctx;
    (void)call;
    http_exchange_resume_body(proxy->exchange);
}

static void on_upgrade(struct http_call *call, const struct http_head *head,
                       struct http_stream *upstream, const char *rest, size_t rest_length,
                       void *ctx)
{
    struct proxy *proxy = ctx;
    (void)call;
    proxy->call = NULL;
    struct http_head answer;
    http_head_init(&answer);
    answer.status = head->status;
    answer.upgrade = true;
    struct buf out;
    buf_init(&out, 2 * HTTP_HEAD_MAX);
    const char *early = NULL;
    size_t early_length = 0;
    struct http_stream *client = NULL;
    if (copy_fields(&answer.headers, &head->headers, true, NULL) == 0 &&
        (proxy->request_id == NULL ||
         http_headers_set(&answer.headers, "X-Request-ID", proxy->request_id) == 0) &&
        http_head_write_response(&answer, &out) == 0)
        client = http_exchange_take_stream(proxy->exchange, &early, &early_length);
    if (client != NULL) {
        uv_buf_t parts[] = {uv_buf_init(out.data, (unsigned)out.length),
                            {.base = (char *)(uintptr_t)rest, .len = rest_length}};
        http_stream_write_parts(client, parts, ARRAY_LEN(parts));
        http_stream_write(upstream, early, early_length);
        http_tunnel_start(proxy->client, client, upstream);
    } else {
        http_stream_close(upstream);
        http_exchange_reply_error(proxy->exchange, 502, proxy->error_code,
                                  "the upstream switched protocols too early");
    }
    buf_done(&out);
    http_head_done(&answer);
}

static const struct http_call_events call_events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
    .on_error = on_error,
    .on_drain = on_call_drain,
    .on_upgrade = on_upgrade,
};

/* --- client to upstream ----------------------------------------------------------------------- */

static void on_request_data(struct http_exchange *exchange, const char *bytes, size_t length,
                            void *ctx)
{
    struct proxy *proxy = ctx;
    http_call_write(proxy->call, bytes, length);
    if (http_call_is_full(proxy->call))
        http_exchange_pause_body(exchange);
}

static void on_request_end(struct http_exchange *exchange, void *ctx)
{
    struct proxy *proxy = ctx;
    (void)exchange;
    http_call_end(proxy->call);
}

static const struct http_body_events body_events = {
    .on_data = on_request_data,
    .on_end = on_request_end,
};

static void on_drain(struct http_exchange *exchange, void *ctx)
{
    struct proxy *proxy = ctx;
    (void)exchange;
    if (proxy->call != NULL)
        http_call_resume(proxy->call);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    struct proxy *proxy = ctx;
    (void)exchange;
    (void)completed;
    http_call_cancel(proxy->call);
    free(proxy->error_code);
    free(proxy->request_id);
    free(proxy);
}

void http_proxy_start(struct http_exchange *exchange, const struct http_proxy_options *options)
{
    if (str_equal(http_exchange_head(exchange)->method, "CONNECT")) {
        http_exchange_reply_error(exchange, 501, options->error_code,
                                  "the method CONNECT is not supported");
        return;
    }
    struct http_head head;
    http_head_init(&head);
    if (make_request(&head, exchange, options) < 0) {
        http_head_done(&head);
        http_exchange_reply_error(exchange, 431, options->error_code,
                                  "more than %d header fields with those a proxy adds",
                                  HTTP_HEADER_COUNT_MAX);
        return;
    }
    struct proxy *proxy = mem_alloc(sizeof(*proxy));
    proxy->client = options->client;
    proxy->exchange = exchange;
    proxy->error_code = mem_dup(options->error_code);
    proxy->request_id = mem_dup(options->request_id);
    http_exchange_on_close(exchange, on_close, proxy);
    http_exchange_on_drain(exchange, on_drain, proxy);
    struct http_call_options call = {.address = options->address,
                                     .head = &head,
                                     .response_timeout_ms = options->response_timeout_ms};
    proxy->call = http_client_start(options->client, &call, &call_events, proxy);
    if (head.framing == HTTP_CHUNKED || head.content_length > 0)
        http_exchange_read_body(exchange, &body_events, proxy);
    http_head_done(&head);
}
