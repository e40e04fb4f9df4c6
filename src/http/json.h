/* JSON from clients, bounded before it is built: size by the caller, depth here. Built on jansson.
 * Readers for members give errors that name the field and what is allowed. JSON null counts as
 * absent everywhere: clients send explicit nulls for what they do not set. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define HTTP_JSON_DEPTH_MAX  32
#define HTTP_JSON_VALUES_MAX 100000

/* A whole document: one value, UTF-8, no duplicate keys in an object, no NUL in strings, nothing
 * after it, at most HTTP_JSON_DEPTH_MAX deep and HTTP_JSON_VALUES_MAX values. NULL with ERR_INVALID
 * (position in the message) otherwise. Release with json_decref(). */
json_t *http_json_parse(const char *text, size_t length, struct error *err);

/* Members of an object. Absent or null: 0 and *ret untouched. Wrong type or range: negative,
 * message
 * "`timeout` must be an integer from 60 to 86400, not \"abc\"". Strings are borrowed. */
int http_json_string(const json_t *object, const char *key, size_t max_bytes, const char **ret,
                     struct error *err);
int http_json_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *ret,
                  struct error *err);
int http_json_bool(const json_t *object, const char *key, bool *ret, struct error *err);
int http_json_object(const json_t *object, const char *key, json_t **ret, struct error *err);
int http_json_array(const json_t *object, const char *key, json_t **ret, struct error *err);

/* Answer with a compact JSON document; takes the reference. */
struct http_exchange;
void http_exchange_reply_json(struct http_exchange *exchange, int status, json_t *body);
