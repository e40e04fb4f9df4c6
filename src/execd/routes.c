#include "execd/routes.h"

#include "base/str.h"
#include "execd/command.h"
#include "execd/entrypoint.h"
#include "execd/files.h"
#include "execd/metrics.h"
#include "execd/proxy.h"
#include "execd/pty.h"
#include "execd/reply.h"
#include "execd/rest.h"
#include "execd/session.h"
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
    execd_reply_not_built(exchange);
}

static const struct http_route public_routes[] = {
    {"GET", "/ping", handle_ping},

    {"POST", "/command", execd_command_handle_run},
    {"DELETE", "/command", execd_command_handle_interrupt},
    {"GET", "/command/status/{id}", execd_command_handle_status},
    {"GET", "/command/{id}/logs", execd_command_handle_logs},
    {"GET", "/command/{id}/stream", execd_command_handle_stream},
    {"POST", "/command/{id}/stdin", execd_command_handle_stdin},
    {"DELETE", "/command/{id}/stdin", execd_command_handle_stdin_close},
    {"GET", "/commands", execd_command_handle_list},

    {"POST", "/session", execd_session_handle_create},
    {"POST", "/session/{id}/run", execd_session_handle_run},
    {"DELETE", "/session/{id}", execd_session_handle_delete},
    {"GET", "/sessions", execd_session_handle_list},

    {"POST", "/pty", execd_pty_handle_create},
    {"GET", "/pty", execd_pty_handle_list},
    {"GET", "/pty/{id}", execd_pty_handle_status},
    {"DELETE", "/pty/{id}", execd_pty_handle_delete},
    {"GET", "/pty/{id}/ws", execd_pty_handle_socket},

    {"GET", "/files/info", execd_files_handle_info},
    {"GET", "/files/download", execd_files_handle_download},
    {"POST", "/files/upload", execd_files_handle_upload},
    {"GET", "/files/search", execd_files_handle_search},
    {"POST", "/files/mv", execd_files_handle_move},
    {"POST", "/files/permissions", execd_files_handle_permissions},
    {"POST", "/files/replace", execd_files_handle_replace},
    {"DELETE", "/files", execd_files_handle_delete},
    {"GET", "/directories/list", execd_directories_handle_list},
    {"POST", "/directories", execd_directories_handle_make},
    {"DELETE", "/directories", execd_directories_handle_delete},

    {"GET", "/metrics", execd_metrics_handle_get},
    {"GET", "/metrics/watch", execd_metrics_handle_watch},

    {"*", "/proxy/{port}", execd_proxy_handle},
    {"*", "/proxy/{port}/{path...}", execd_proxy_handle},

    {"POST", "/code", handle_not_built},
    {"DELETE", "/code", handle_not_built},
    {"POST", "/code/context", handle_not_built},
    {"GET", "/code/contexts", handle_not_built},
    {"DELETE", "/code/contexts", handle_not_built},
    {"GET", "/code/contexts/{id}", handle_not_built},
    {"DELETE", "/code/contexts/{id}", handle_not_built},
};

static const struct http_route internal_routes[] = {
    {"POST", "/internal/start", execd_entrypoint_handle_start},
};

void execd_routes_dispatch(struct http_exchange *exchange, struct execd *execd)
{
    http_router_dispatch(public_routes, ARRAY_LEN(public_routes), exchange, execd);
}

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
    execd_rest_postpone(execd);
    if (!has_token(exchange, execd->token)) {
        http_exchange_reply_error(exchange, 401, "UNAUTHORIZED",
                                  "the header X-EXECD-ACCESS-TOKEN is missing or wrong");
        return;
    }
    if (listener->internal && str_starts_with(http_exchange_path(exchange), "/internal/"))
        http_router_dispatch(internal_routes, ARRAY_LEN(internal_routes), exchange, execd);
    else
        execd_routes_dispatch(exchange, execd);
}
