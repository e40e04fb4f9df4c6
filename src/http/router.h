/* Method and path to handler. Patterns are made of literal segments and {name} segments:
 * "/sandboxes/{id}/endpoints/{port}"; a final "{name...}" takes the rest, slashes included (and may
 * be empty). Matching is on raw bytes: nothing is decoded or normalised, so "/a/../b" is not "/b".
 * Captured segments are percent-decoded (a NUL or a bad escape makes the route not match), the
 * {name...} one stays raw. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "http/server.h"

#define HTTP_ROUTE_PARAMS_MAX 4

struct http_route_match {
    size_t count;
    const char *names[HTTP_ROUTE_PARAMS_MAX];
    char *values[HTTP_ROUTE_PARAMS_MAX];
};

const char *http_route_param(const struct http_route_match *match, const char *name); /* or NULL */

typedef void http_handler_fn(struct http_exchange *exchange, const struct http_route_match *match,
                             void *ctx);

struct http_route {
    const char *method; /* "*" matches every method */
    const char *pattern;
    http_handler_fn *handler;
};

enum http_route_result { HTTP_ROUTE_FOUND, HTTP_ROUTE_NO_PATH, HTTP_ROUTE_NO_METHOD };

/* Pure matching, for tests: the first route that fits. Fill match on FOUND (release with
 * http_route_match_done). On NO_METHOD *ret_allow is "GET, DELETE" in `allow`. */
enum http_route_result http_router_match(const struct http_route *routes, size_t count,
                                         const char *method, const char *path,
                                         const struct http_route **ret_route,
                                         struct http_route_match *match, char *allow,
                                         size_t allow_size);
void http_route_match_done(struct http_route_match *match);

/* Find and call, or answer 404 / 405 (with Allow) as JSON. The match is valid during the handler.
 */
void http_router_dispatch(const struct http_route *routes, size_t count,
                          struct http_exchange *exchange, void *ctx);
