/* Create, get, list, delete. */
#include <stdio.h>

#include "http/json.h"
#include "model/sandbox_json.h"
#include "server/api.h"
#include "server/later.h"
#include "server/list_query.h"
#include "server/reply.h"

/* --- create ----------------------------------------------------------------------------------- */

/* What is wrong with a volume and can be seen only by trying has codes of its own, see
 * server_lifecycle_created_fn. */
static void reply_create_error(struct http_exchange *exchange, const struct error *err)
{
    const char *code = err->code == ERR_DENIED                     ? VOLUMES_NOT_ALLOWED
                       : err->code == ERR_NOT_FOUND                ? VOLUMES_PVC_MISSING
                       : err->code == ERR_INVALID && err->sys != 0 ? VOLUMES_BAD_SUB_PATH
                                                                   : NULL;
    if (code != NULL)
        http_exchange_reply_error(exchange, 400, code, "%s", err->message);
    else
        server_reply_error(exchange, err, "SANDBOX::SANDBOX_START_FAILED");
}

static void on_created(const struct error *err, const struct sandbox *sandbox, void *ctx)
{
    struct http_exchange *exchange = server_later_finish(ctx);
    if (exchange == NULL)
        return; /* the client is gone; the sandbox is in its list */
    if (err != NULL) {
        reply_create_error(exchange, err);
        return;
    }
    char location[64];
    snprintf(location, sizeof(location), "/v1/sandboxes/%s", sandbox->id);
    http_exchange_set_header(exchange, "Location", location);
    http_exchange_reply_json(exchange, 202, sandbox_to_create_json(sandbox));
}

static void on_create_body(struct http_exchange *exchange, const char *body, size_t length,
                           void *ctx)
{
    struct server *server = ctx;
    const struct create_request_rules rules = {
        .timeout_max_s = server->config->max_sandbox_timeout_seconds,
        .images = string_list_vector(&server->config->images.names),
        .host_paths = string_list_vector(&server->config->allowed_host_paths),
    };
    struct create_request request;
    struct problem problem = {0};
    if (create_request_parse(body, length, &rules, &request, &problem) < 0) {
        server_reply_problem(exchange, &problem);
        return;
    }
    struct server_later *later = server_later_new(exchange);
    struct error err = ERROR_INIT;
    if (server_lifecycle_create(server->lifecycle, &request, on_created, later, &err) < 0)
        on_created(&err, NULL, later);
    create_request_done(&request);
}

void server_api_create(struct http_exchange *exchange, const struct http_route_match *match,
                       void *ctx)
{
    (void)match;
    http_exchange_collect(exchange, CREATE_REQUEST_BODY_MAX, on_create_body, ctx);
}

/* --- get and list ----------------------------------------------------------------------------- */

void server_api_get(struct http_exchange *exchange, const struct http_route_match *match, void *ctx)
{
    struct server *server = ctx;
    const char *id = server_api_sandbox_id(exchange, match);
    if (id == NULL)
        return;
    struct sandbox sandbox = {0};
    struct error err = ERROR_INIT;
    if (store_get_sandbox(server->store, id, &sandbox, &err) < 0) {
        server_reply_error(exchange, &err, "SANDBOX::SANDBOX_QUERY_FAILED");
        return;
    }
    http_exchange_reply_json(exchange, 200, sandbox_to_json(&sandbox));
    sandbox_done(&sandbox);
}

static json_t *page_to_json(const struct store_page *page, const struct store_filter *filter)
{
    json_t *items = json_array();
    for (size_t i = 0; i < page->count; i++)
        json_array_append_new(items, sandbox_to_json(&page->items[i]));
    return json_pack("{s:o, s:o}", "items", items, "pagination",
                     sandbox_pagination_json(filter->page, filter->page_size, page->total));
}

void server_api_list(struct http_exchange *exchange, const struct http_route_match *match,
                     void *ctx)
{
    (void)match;
    struct server *server = ctx;
    struct store_filter filter;
    struct problem problem = {0};
    if (server_list_query_parse(http_exchange_query(exchange), &filter, &problem) < 0) {
        server_reply_problem(exchange, &problem);
        return;
    }
    struct store_page page = {0};
    struct error err = ERROR_INIT;
    if (store_list_sandboxes(server->store, &filter, &page, &err) < 0)
        server_reply_error(exchange, &err, "SANDBOX::SANDBOX_QUERY_FAILED");
    else
        http_exchange_reply_json(exchange, 200, page_to_json(&page, &filter));
    store_page_done(&page);
    server_list_query_done(&filter);
}

/* --- delete ----------------------------------------------------------------------------------- */

static void on_deleted(const struct error *err, void *ctx)
{
    struct http_exchange *exchange = server_later_finish(ctx);
    if (exchange == NULL)
        return;
    if (err != NULL)
        server_reply_error(exchange, err, "SANDBOX::SANDBOX_DELETE_FAILED");
    else
        http_exchange_reply(exchange, 204, NULL, NULL, 0);
}

void server_api_delete(struct http_exchange *exchange, const struct http_route_match *match,
                       void *ctx)
{
    struct server *server = ctx;
    const char *id = server_api_sandbox_id(exchange, match);
    if (id == NULL)
        return;
    struct server_later *later = server_later_new(exchange);
    struct error err = ERROR_INIT;
    if (server_lifecycle_remove(server->lifecycle, id, on_deleted, later, &err) < 0)
        on_deleted(&err, later);
}
