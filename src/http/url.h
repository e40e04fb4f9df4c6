/* Percent-encoding and query strings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Decode %XX (and '+' as space when `form`). -EINVAL on a bad escape or a decoded NUL. Caller
 * frees. */
int url_decode(const char *text, size_t length, bool form, char **ret);
int url_encode(struct buf *out, const char *text); /* all but unreserved characters */

struct url_query_item {
    char *name;
    char *value; /* "" when there was no '=' */
};
struct url_query {
    struct url_query_item *items;
    size_t count;
};
#define URL_QUERY_MAX 256 /* items */

int url_query_parse(const char *query, struct url_query *ret); /* -EINVAL, -E2BIG */
void url_query_done(struct url_query *query);
const char *url_query_find(const struct url_query *query, const char *name); /* first, or NULL */
