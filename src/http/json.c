#include "http/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/quote.h"
#include "http/server.h"

/* --- bounds before building ------------------------------------------------------------------- */

struct prescan {
    size_t depth;
    size_t values;
    bool fresh; /* an opening bracket was the last thing seen: what follows is a first element */
};

/* The byte after a string that begins (behind its quote) at `at`; `end` when it is not closed,
 * which the real parser will then report. */
static const char *skip_string(const char *at, const char *end)
{
    while (at < end && *at != '"')
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    return at < end ? at + 1 : end;
}

static void prescan_byte(struct prescan *scan, char c)
{
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
        return;
    bool closes = c == ']' || c == '}';
    if (scan->fresh && !closes)
        scan->values++;
    scan->fresh = c == '[' || c == '{';
    if (scan->fresh)
        scan->depth++;
    else if (closes && scan->depth > 0)
        scan->depth--;
    else if (c == ',')
        scan->values++;
}

/* Depth and number of values of a well-formed document exactly, and of any other one well enough:
 * nothing that passes here can make the parser build or recurse more than the limits allow. */
static int check_bounds(const char *text, size_t length, struct error *err)
{
    struct prescan scan = {.values = 1};
    const char *end = text + length;

    /* jansson does not see one that ends a number at the end of the text. */
    const char *nul = memchr(text, '\0', length);
    if (nul != NULL)
        return error_set(err, ERR_INVALID, "not valid JSON: NUL at byte %td", nul - text);

    for (const char *at = text; at < end;) {
        char c = *at++;
        prescan_byte(&scan, c);
        if (c == '"')
            at = skip_string(at, end);
        if (scan.depth > HTTP_JSON_DEPTH_MAX)
            return error_set(err, ERR_INVALID, "JSON is nested deeper than %d levels at byte %td",
                             HTTP_JSON_DEPTH_MAX, at - text);
        if (scan.values > HTTP_JSON_VALUES_MAX)
            return error_set(err, ERR_INVALID, "JSON has more than %d values at byte %td",
                             HTTP_JSON_VALUES_MAX, at - text);
    }
    return 0;
}

json_t *http_json_parse(const char *text, size_t length, struct error *err)
{
    if (check_bounds(text, length, err) < 0)
        return NULL;

    json_error_t reason;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &reason);
    if (value == NULL) {
        /* jansson quotes the input in its text. */
        char quoted[128];
        http_quote(quoted, sizeof(quoted), reason.text, strlen(reason.text));
        error_set(err, ERR_INVALID, "not valid JSON at line %d, column %d: %s", reason.line,
                  reason.column, quoted);
    }
    return value;
}

/* --- members ---------------------------------------------------------------------------------- */

/* NULL for absent and null alike. */
static json_t *member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

#define DESCRIPTION_MAX (HTTP_QUOTE_MAX + 3)

static const char *describe(const json_t *value, char ret[DESCRIPTION_MAX])
{
    char quoted[HTTP_QUOTE_MAX];
    switch (json_typeof(value)) {
    case JSON_STRING:
        http_quote(quoted, sizeof(quoted), json_string_value(value), json_string_length(value));
        snprintf(ret, DESCRIPTION_MAX, "\"%s\"", quoted);
        return ret;
    case JSON_INTEGER:
        snprintf(ret, DESCRIPTION_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return ret;
    case JSON_REAL:
        snprintf(ret, DESCRIPTION_MAX, "%.17g", json_real_value(value));
        return ret;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    }
    return "something else";
}

static int wrong_type(const char *key, const json_t *value, const char *wanted, struct error *err)
{
    char description[DESCRIPTION_MAX];
    return error_set(err, ERR_INVALID, "`%s` must be %s, not %s", key, wanted,
                     describe(value, description));
}

int http_json_string(const json_t *object, const char *key, size_t max_bytes, const char **ret,
                     struct error *err)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return 0;
    if (!json_is_string(value))
        return wrong_type(key, value, "a string", err);
    if (json_string_length(value) > max_bytes)
        return error_set(err, ERR_INVALID, "`%s` must be a string of at most %zu bytes, not %zu",
                         key, max_bytes, json_string_length(value));
    *ret = json_string_value(value);
    return 0;
}

int http_json_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *ret,
                  struct error *err)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max) {
        char wanted[96];
        snprintf(wanted, sizeof(wanted), "an integer from %" PRId64 " to %" PRId64, min, max);
        return wrong_type(key, value, wanted, err);
    }
    *ret = json_integer_value(value);
    return 0;
}

int http_json_bool(const json_t *object, const char *key, bool *ret, struct error *err)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return 0;
    if (!json_is_boolean(value))
        return wrong_type(key, value, "true or false", err);
    *ret = json_is_true(value);
    return 0;
}

int http_json_object(const json_t *object, const char *key, json_t **ret, struct error *err)
{
    json_t *value = member(object, key);
    if (value == NULL)
        return 0;
    if (!json_is_object(value))
        return wrong_type(key, value, "an object", err);
    *ret = value;
    return 0;
}

int http_json_array(const json_t *object, const char *key, json_t **ret, struct error *err)
{
    json_t *value = member(object, key);
    if (value == NULL)
        return 0;
    if (!json_is_array(value))
        return wrong_type(key, value, "an array", err);
    *ret = value;
    return 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

void http_exchange_reply_json(struct http_exchange *exchange, int status, json_t *body)
{
    AUTO_FREE char *text = json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(body);
    if (text == NULL) {
        http_exchange_reply_error(exchange, 500, "INTERNAL_ERROR", "the answer cannot be written");
        return;
    }
    http_exchange_reply(exchange, status, "application/json", text, strlen(text));
}
