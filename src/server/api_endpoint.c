/* GET /sandboxes/{id}/endpoints/{port}. The answer always goes through this server, so that
 * use_server_proxy changes nothing; and it is the same while the sandbox is starting, since clients
 * ask for it right after create. */
#include <string.h>

#include "base/str.h"
#include "http/json.h"
#include "http/url.h"
#include "server/api.h"
#include "server/endpoint.h"
#include "server/reply.h"

static bool is_boolean(const char *text)
{
    static const char *const words[] = {"true", "false", "1", "0", "yes", "no",
                                        "on",   "off",   "t", "f", "y",   "n"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_equal_nocase(text, words[i]))
            return true;
    return false;
}

static int check_query(const char *text, struct problem *problem)
{
    struct url_query query;
    problem->in = "query";
    if (url_query_parse(text, &query) < 0)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "", NULL,
                           "the query string has a broken escape or too many parameters");
    const char *expires = url_query_find(&query, "expires");
    const char *by_proxy = url_query_find(&query, "use_server_proxy");
    int r = 0;
    if (by_proxy != NULL && !is_boolean(by_proxy))
        r = problem_set(problem, PROBLEM_INVALID, "bool_parsing", "use_server_proxy", NULL,
                        "`use_server_proxy` must be true or false");
    else if (expires != NULL)
        r = problem_set(problem, SERVER_CODE_NOT_SUPPORTED, "value_error", "expires", NULL,
                        "signed endpoints (`expires`) are not supported by this version of the "
                        "server; leave it out");
    url_query_done(&query);
    return r;
}

/* What comes before "/sandboxes/...": the configured address, else the one the client used. */
static const char *endpoint_base(struct server *server, struct http_exchange *exchange)
{
    if (server->config->eip != NULL)
        return server->config->eip;
    const char *host = http_headers_find(&http_exchange_head(exchange)->headers, "Host");
    return host != NULL && server_endpoint_host_is_valid(host) ? host : NULL;
}

void server_api_endpoint(struct http_exchange *exchange, const struct http_route_match *match,
                         void *ctx)
{
    struct server *server = ctx;
    const char *id = server_api_sandbox_id(exchange, match);
    if (id == NULL)
        return;
    uint64_t port;
    if (str_to_u64(http_route_param(match, "port"), 1, 65535, &port) < 0) {
        http_exchange_reply_error(exchange, 400, "SANDBOX::INVALID_PORT",
                                  "the port must be a number from 1 to 65535");
        return;
    }
    struct problem problem = {0};
    if (check_query(http_exchange_query(exchange), &problem) < 0) {
        server_reply_problem(exchange, &problem);
        return;
    }
    struct store_access access;
    struct error err = ERROR_INIT;
    if (store_get_access(server->store, id, &access, &err) < 0) {
        server_reply_error(exchange, &err, "SANDBOX::SANDBOX_QUERY_FAILED");
        return;
    }
    const char *base = endpoint_base(server, exchange);
    if (base == NULL) {
        http_exchange_reply_error(exchange, 400, PROBLEM_INVALID,
                                  "endpoints are named after the Host header, and this request's "
                                  "is missing or malformed");
        return;
    }
    http_exchange_reply_json(exchange, 200,
                             server_endpoint_to_json(base, id, (int)port, access.execd_token));
}
