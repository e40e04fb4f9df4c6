#include "server/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/proxy.h"
#include "http/url.h"
#include "server/auth.h"
#include "server/reply.h"

#define EXECD_PORT 44772

static const char *skip(const char *text, const char *prefix)
{
    return str_starts_with(text, prefix) ? text + strlen(prefix) : NULL;
}

bool server_proxy_parse(const char *target, struct server_proxy_path *ret)
{
    const char *p = skip(target, "/v1");
    p = skip(p != NULL ? p : target, "/sandboxes/");
    if (p == NULL)
        return false;
    size_t id_length = strcspn(p, "/?");
    const char *port = skip(p + id_length, "/proxy/");
    size_t port_length = port != NULL ? strspn(port, "0123456789") : 0;
    if (id_length == 0 || port_length == 0 || strchr("/?", port[port_length]) == NULL)
        return false;

    struct server_proxy_path path = {.rest = port + port_length};
    if (id_length == ID_UUID_LEN) {
        memcpy(path.id, p, id_length);
        path.id_is_valid = id_is_uuid(path.id);
    }
    uint64_t number;
    AUTO_FREE char *digits = mem_dup_n(port, port_length);
    if (str_to_u64(digits, 1, 65535, &number) == 0)
        path.port = (int)number;
    *ret = path;
    return true;
}

/* Segments with "." and ".." taken out, as far as the first one is concerned: *ret_first is the
 * segment a normalising reader would see first. The path is decoded and is cut up. */
static const char *first_segment(char *path)
{
    const char *first = "";
    int depth = 0;
    char *save = NULL;
    for (char *part = strtok_r(path, "/\\", &save); part != NULL;
         part = strtok_r(NULL, "/\\", &save)) {
        if (strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            depth = MAX(depth - 1, 0);
            continue;
        }
        if (depth++ == 0)
            first = part;
    }
    return depth > 0 ? first : "";
}

bool server_proxy_is_internal(const char *rest)
{
    AUTO_FREE char *path = NULL;
    if (url_decode(rest, strcspn(rest, "?"), false, &path) < 0)
        return true; /* a broken escape: who knows how execd would read it */
    return str_equal_nocase(first_segment(path), "internal");
}

static bool may_pass(struct server *server, struct http_exchange *exchange,
                     const struct server_proxy_path *path, const struct store_access *access)
{
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    if (path->port != EXECD_PORT)
        return true;
    if (!server_auth_opens_execd(headers, access->execd_token, server->api_key)) {
        http_exchange_reply_error(exchange, 401, "INVALID_ACCESS_TOKEN",
                                  "send the token of this sandbox in the header "
                                  "X-EXECD-ACCESS-TOKEN; GET "
                                  "/v1/sandboxes/{id}/endpoints/44772 returns it in `headers`");
        return false;
    }
    if (server_proxy_is_internal(path->rest)) {
        http_exchange_reply_error(exchange, 404, "NOT_FOUND", "there is nothing at this path");
        return false;
    }
    return true;
}

static void pass_on(struct server *server, struct http_exchange *exchange,
                    const struct server_proxy_path *path, const struct http_address *address,
                    const char *request_id)
{
    /* Secrets between client and server: nothing inside a sandbox may see them. */
    static const char *const drop[] = {
        SERVER_AUTH_EXECD_HEADER,
        SERVER_AUTH_KEY_HEADER,
        "OPENSANDBOX-EGRESS-AUTH",
        "OpenSandbox-Secure-Access",
        NULL,
    };
    AUTO_FREE char *target = mem_printf("%s%s", path->rest[0] == '/' ? "" : "/", path->rest);
    const struct http_proxy_options options = {
        .client = server->client,
        .address = *address,
        .target = target,
        .drop = drop,
        .forwarded_proto = "http",
        .request_id = request_id,
        .error_code = "SANDBOX::PROXY_FAILED",
    };
    http_proxy_start(exchange, &options);
}

void server_proxy_handle(struct server *server, struct http_exchange *exchange,
                         const struct server_proxy_path *path, const char *request_id)
{
    struct error err = ERROR_INIT;
    struct store_access access;
    struct http_address address;
    if (!path->id_is_valid) {
        http_exchange_reply_error(exchange, 404, SERVER_CODE_NOT_FOUND, "there is no such sandbox");
        return;
    }
    if (path->port == 0) {
        http_exchange_reply_error(exchange, 400, "SANDBOX::INVALID_PORT",
                                  "the port must be a number from 1 to 65535");
        return;
    }
    if (store_get_access(server->store, path->id, &access, &err) < 0) {
        server_reply_error(exchange, &err, "SANDBOX::SANDBOX_QUERY_FAILED");
        return;
    }
    if (!may_pass(server, exchange, path, &access))
        return;
    if (access.state != SANDBOX_RUNNING) {
        http_exchange_reply_error(exchange, 503, "SANDBOX::SANDBOX_NOT_RUNNING",
                                  "sandbox %s is %s, not Running", path->id,
                                  sandbox_state_name(access.state));
        return;
    }
    if (server->runtime->address(server->runtime, path->id, path->port, &address, &err) < 0) {
        if (err.code == ERR_NOT_FOUND) /* it is there, but the runtime does not know where yet */
            err.code = ERR_UNAVAILABLE;
        server_reply_error(exchange, &err, "SANDBOX::PROXY_FAILED");
        return;
    }
    pass_on(server, exchange, path, &address, request_id);
}
