#include "http/router.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/quote.h"
#include "http/url.h"

#define ALLOW_MAX 128

const char *http_route_param(const struct http_route_match *match, const char *name)
{
    for (size_t i = 0; i < match->count; i++)
        if (strcmp(match->names[i], name) == 0)
            return match->values[i];
    return NULL;
}

void http_route_match_done(struct http_route_match *match)
{
    for (size_t i = 0; i < match->count; i++) {
        free((char *)match->names[i]);
        free(match->values[i]);
    }
    *match = (struct http_route_match){0};
}

/* Takes ownership of value. */
static void add_param(struct http_route_match *match, const char *name, size_t name_length,
                      char *value)
{
    assert(match->count < HTTP_ROUTE_PARAMS_MAX); /* patterns are ours */
    match->names[match->count] = mem_dup_n(name, name_length);
    match->values[match->count] = value;
    match->count++;
}

/* One segment of the pattern against one of the path, both without slashes. */
static bool match_segment(const char *pattern, size_t pattern_length, const char *path,
                          size_t path_length, struct http_route_match *match)
{
    if (pattern_length < 2 || pattern[0] != '{')
        return pattern_length == path_length && memcmp(pattern, path, path_length) == 0;

    char *value;
    if (path_length == 0 || url_decode(path, path_length, false, &value) < 0)
        return false;
    add_param(match, pattern + 1, pattern_length - 2, value);
    return true;
}

/* "{name...}" */
static bool is_rest(const char *pattern, size_t length)
{
    return length > 5 && pattern[0] == '{' && memcmp(pattern + length - 4, "...}", 4) == 0;
}

/* Both begin with '/'. Segment by segment, so that a slash is never inside a captured one. */
static bool match_path(const char *pattern, const char *path, struct http_route_match *match)
{
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        size_t pattern_length = strcspn(pattern, "/");
        size_t path_length = strcspn(path, "/");
        if (is_rest(pattern, pattern_length)) {
            add_param(match, pattern + 1, pattern_length - 5, mem_dup(path));
            return true;
        }
        if (!match_segment(pattern, pattern_length, path, path_length, match))
            return false;
        pattern += pattern_length;
        path += path_length;
    }
    return *pattern == '\0' && *path == '\0';
}

/* Is `method` a member of the list "GET, DELETE"? */
static bool is_listed(const char *list, const char *method)
{
    size_t length = strlen(method);
    for (const char *at = list; *at != '\0'; at += strspn(at, ", ")) {
        size_t word = strcspn(at, ",");
        if (word == length && memcmp(at, method, length) == 0)
            return true;
        at += word;
    }
    return false;
}

static void list_method(char *list, size_t size, const char *method)
{
    size_t used = strlen(list);
    size_t need = strlen(method) + (used > 0 ? 2 : 0);
    if (!is_listed(list, method) && used + need < size)
        snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", method);
}

enum http_route_result http_router_match(const struct http_route *routes, size_t count,
                                         const char *method, const char *path,
                                         const struct http_route **ret_route,
                                         struct http_route_match *match, char *allow,
                                         size_t allow_size)
{
    bool path_known = false;

    *match = (struct http_route_match){0};
    if (allow_size > 0)
        allow[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct http_route *route = &routes[i];
        if (match_path(route->pattern, path, match)) {
            if (str_equal(route->method, "*") || str_equal(route->method, method)) {
                *ret_route = route;
                return HTTP_ROUTE_FOUND;
            }
            path_known = true;
            if (allow_size > 0)
                list_method(allow, allow_size, route->method);
        }
        http_route_match_done(match);
    }
    return path_known ? HTTP_ROUTE_NO_METHOD : HTTP_ROUTE_NO_PATH;
}

void http_router_dispatch(const struct http_route *routes, size_t count,
                          struct http_exchange *exchange, void *ctx)
{
    const char *method = http_exchange_head(exchange)->method;
    const char *path = http_exchange_path(exchange);
    const struct http_route *route = NULL;
    struct http_route_match match;
    char allow[ALLOW_MAX];
    char quoted[HTTP_QUOTE_MAX];

    switch (http_router_match(routes, count, method, path, &route, &match, allow, sizeof(allow))) {
    case HTTP_ROUTE_FOUND:
        route->handler(exchange, &match, ctx);
        http_route_match_done(&match);
        break;
    case HTTP_ROUTE_NO_METHOD:
        http_exchange_set_header(exchange, "Allow", allow);
        http_exchange_reply_error(exchange, 405, "METHOD_NOT_ALLOWED",
                                  "%s is not allowed here, but %s", method, allow);
        break;
    case HTTP_ROUTE_NO_PATH:
        http_exchange_reply_error(exchange, 404, "NOT_FOUND", "there is nothing at \"%s\"",
                                  http_quote(quoted, sizeof(quoted), path, strlen(path)));
        break;
    }
}
