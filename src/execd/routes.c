#include "execd/routes.h"

#include "base/str.h"
#include "execd/command.h"
#include "execd/entrypoint.h"
#include "execd/files.h"
#include "execd/reply.h"
#include "http/router.h"

static void handle_ping(struct http_exchange *exchange, const struct http_route_match *match,
                        void *ctx)
{
    (void)match;
    (void)ctx;
    execd_reply_empty(exchange);
}

/* Parts of the published API that this build does not have. */
static void handle_not_built(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx)
{
    (void)match;
    (void)ctx;
    http_exchange_reply_error(exchange, 501, "NOT_SUPPORTED", "%s %.200s is not supported",
                              http_exchange_head(exchange)->method, http_exchange_path(exchange));
}

static const struct http_route public_routes[] = {
    {"GET", "/ping", handle_ping},
    {"POST", "/command", execd_command_handle_run},
    {"GET", "/files/info", execd_files_handle_info},
    {"GET", "/files/download", execd_files_handle_download},
    {"POST", "/files/upload", execd_files_handle_upload},

    {"DELETE", "/command", handle_not_built},
    {"GET", "/command/status/{id}", handle_not_built},
    {"GET", "/command/{id}/logs", handle_not_built},
    {"POST", "/session", handle_not_built},
    {"POST", "/session/{id}/run", handle_not_built},
    {"DELETE", "/session/{id}", handle_not_built},
    {"POST", "/code", handle_not_built},
    {"DELETE", "/code", handle_not_built},
    {"POST", "/code/context", handle_not_built},
    {"GET", "/code/contexts", handle_not_built},
    {"DELETE", "/code/contexts", handle_not_built},
    {"GET", "/code/contexts/{id}", handle_not_built},
    {"DELETE", "/code/contexts/{id}", handle_not_built},
    {"DELETE", "/files", handle_not_built},
    {"POST", "/files/mv", handle_not_built},
    {"POST", "/files/permissions", handle_not_built},
    {"POST", "/files/replace", handle_not_built},
    {"GET", "/files/search", handle_not_built},
    {"GET", "/directories/list", handle_not_built},
    {"POST", "/directories", handle_not_built},
    {"DELETE", "/directories", handle_not_built},
    {"GET", "/metrics", handle_not_built},
    {"GET", "/metrics/watch", handle_not_built},
    {"POST", "/pty", handle_not_built},
    {"GET", "/pty/{id}", handle_not_built},
    {"DELETE", "/pty/{id}", handle_not_built},
    {"GET", "/pty/{id}/ws", handle_not_built},
    {"*", "/proxy/{port}", handle_not_built},
    {"*", "/proxy/{port}/{path...}", handle_not_built},
};

static const struct http_route internal_routes[] = {
    {"POST", "/internal/start", execd_entrypoint_handle_start},
};

static bool has_token(const struct http_exchange *exchange, const char *token)
{
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    return token == NULL ||
           str_equal_secret(http_headers_find(headers, "X-EXECD-ACCESS-TOKEN"), token);
}

void execd_routes_handle(struct http_exchange *exchange, void *ctx)
{
    const struct execd_listener *listener = ctx;
    struct execd *execd = listener->execd;
    if (!has_token(exchange, execd->token)) {
        http_exchange_reply_error(exchange, 401, "UNAUTHORIZED",
                                  "the header X-EXECD-ACCESS-TOKEN is missing or wrong");
        return;
    }
    if (listener->internal && str_starts_with(http_exchange_path(exchange), "/internal/"))
        http_router_dispatch(internal_routes, ARRAY_LEN(internal_routes), exchange, execd);
    else
        http_router_dispatch(public_routes, ARRAY_LEN(public_routes), exchange, execd);
}
