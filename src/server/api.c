/* Each request gets its id, shows its key, and finds its handler. Auth comes before routing, so
 * that without the key one cannot even learn which paths exist. */
#include "server/api.h"

#include <string.h>

#include "base/id.h"
#include "server/auth.h"
#include "server/proxy.h"
#include "server/reply.h"
#include "server/request_id.h"

static void handle_health(struct http_exchange *exchange)
{
    static const char body[] = "{\"status\":\"healthy\"}";
    http_exchange_reply(exchange, 200, "application/json", body, sizeof(body) - 1);
}

/* Clients report how long their calls took. There is nothing to keep yet, but an error would fill
 * their logs. */
static void handle_client_event(struct http_exchange *exchange,
                                const struct http_route_match *match, void *ctx)
{
    (void)match;
    (void)ctx;
    http_exchange_reply(exchange, 204, NULL, NULL, 0);
}

static void handle_unbuilt(struct http_exchange *exchange, const struct http_route_match *match,
                           void *ctx)
{
    (void)match;
    (void)ctx;
    http_exchange_reply_error(exchange, 501, SERVER_CODE_NOT_SUPPORTED,
                              "this version of the server does not have this call");
}

/* Every route exists at the root and below /v1. */
#define ROUTE(method, path, handler) \
    {method, path, handler},         \
    {                                \
        method, "/v1" path, handler  \
    }

static const struct http_route routes[] = {
    ROUTE("POST", "/sandboxes", server_api_create),
    ROUTE("GET", "/sandboxes", server_api_list),
    ROUTE("GET", "/sandboxes/{id}", server_api_get),
    ROUTE("DELETE", "/sandboxes/{id}", server_api_delete),
    ROUTE("GET", "/sandboxes/{id}/endpoints/{port}", server_api_endpoint),
    ROUTE("POST", "/metrics/events", handle_client_event),
    ROUTE("PATCH", "/sandboxes/{id}/metadata", handle_unbuilt),
    ROUTE("POST", "/sandboxes/{id}/pause", handle_unbuilt),
    ROUTE("POST", "/sandboxes/{id}/resume", handle_unbuilt),
    ROUTE("POST", "/sandboxes/{id}/renew-expiration", handle_unbuilt),
    ROUTE("POST", "/sandboxes/{id}/snapshots", handle_unbuilt),
    ROUTE("GET", "/sandboxes/{id}/diagnostics/{kind}", handle_unbuilt),
    ROUTE("GET", "/snapshots", handle_unbuilt),
    ROUTE("GET", "/snapshots/{id}", handle_unbuilt),
    ROUTE("DELETE", "/snapshots/{id}", handle_unbuilt),
    ROUTE("GET", "/pools", handle_unbuilt),
    ROUTE("POST", "/pools", handle_unbuilt),
    ROUTE("GET", "/pools/{name}", handle_unbuilt),
    ROUTE("PUT", "/pools/{name}", handle_unbuilt),
    ROUTE("DELETE", "/pools/{name}", handle_unbuilt),
};

void server_api_on_request(struct http_exchange *exchange, void *ctx)
{
    struct server *server = ctx;
    const struct http_head *head = http_exchange_head(exchange);
    char request_id[SERVER_REQUEST_ID_MAX + 1];
    server_request_id_choose(&head->headers, request_id);
    http_exchange_set_header(exchange, SERVER_REQUEST_ID_HEADER, request_id);

    struct server_proxy_path proxied;
    if (server_proxy_parse(head->target, &proxied)) {
        server_proxy_handle(server, exchange, &proxied, request_id);
        return;
    }
    if (strcmp(http_exchange_path(exchange), "/health") == 0 && strcmp(head->method, "GET") == 0) {
        handle_health(exchange);
        return;
    }
    if (server_auth_check(exchange, server->api_key))
        http_router_dispatch(routes, ARRAY_LEN(routes), exchange, server);
}

const char *server_api_sandbox_id(struct http_exchange *exchange,
                                  const struct http_route_match *match)
{
    const char *id = http_route_param(match, "id");
    if (id_is_uuid(id))
        return id;
    server_reply_no_sandbox(exchange, id);
    return NULL;
}
