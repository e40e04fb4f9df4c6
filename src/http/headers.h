/* An ordered list of header fields. Names keep their spelling and are compared without case;
 * repeated fields stay apart (Set-Cookie must never be folded). Values are without surrounding
 * white space. The list owns copies of everything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEADER_COUNT_MAX 128

struct http_header {
    char *name;
    char *value;
};

struct http_headers {
    struct http_header *items; /* in the order of arrival */
    size_t count;
};

void http_headers_init(struct http_headers *headers);
void http_headers_done(struct http_headers *headers); /* frees; empty and usable again */

/* 0, -E2BIG over HTTP_HEADER_COUNT_MAX, -EINVAL when the name is not a token or the value holds CR,
 * LF, NUL or another control character except tab (so that no caller can split a response). */
int http_headers_add(struct http_headers *headers, const char *name, const char *value);
/* The same for pieces of a larger text, which need no NUL behind them. */
int http_headers_add_n(struct http_headers *headers, const char *name, size_t name_length,
                       const char *value, size_t value_length);
int http_headers_set(struct http_headers *headers, const char *name, const char *value);
void http_headers_remove(struct http_headers *headers, const char *name); /* all of that name */

const char *http_headers_find(const struct http_headers *headers, const char *name); /* first */
size_t http_headers_count(const struct http_headers *headers, const char *name);

/* Is `token` a member of the comma-separated list(s) of this name? Without case. */
bool http_headers_has_token(const struct http_headers *headers, const char *name,
                            const char *token);
