#include "http/headers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "http/scan.h"

#define FIRST_CAPACITY 8

void http_headers_init(struct http_headers *headers)
{
    *headers = (struct http_headers){0};
}

void http_headers_done(struct http_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        free(headers->items[i].name);
        free(headers->items[i].value);
    }
    free(headers->items);
    http_headers_init(headers);
}

/* The capacity is not stored: it is at least 8 and at least the power of two that holds count, so
 * it can only be exhausted when count is a power of two. After removals there may be more than
 * that; a resize to what the rule says then shrinks the array, and still fits. */
static void make_room(struct http_headers *headers)
{
    size_t count = headers->count;
    if (count == 0 && headers->items == NULL)
        headers->items = mem_alloc_array(FIRST_CAPACITY, sizeof(headers->items[0]));
    else if (count >= FIRST_CAPACITY && (count & (count - 1)) == 0)
        headers->items = mem_resize_array(headers->items, count * 2, sizeof(headers->items[0]));
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The value without surrounding white space, as a fresh copy; NULL when it may not be sent. */
static char *copy_value(const char *value, size_t length)
{
    if (!http_is_field_text(value, length))
        return NULL;
    while (length > 0 && is_space(value[0])) {
        value++;
        length--;
    }
    while (length > 0 && is_space(value[length - 1]))
        length--;
    return mem_dup_n(value, length);
}

int http_headers_add_n(struct http_headers *headers, const char *name, size_t name_length,
                       const char *value, size_t value_length)
{
    if (!http_is_token(name, name_length))
        return -EINVAL;
    if (headers->count >= HTTP_HEADER_COUNT_MAX)
        return -E2BIG;
    char *copy = copy_value(value, value_length);
    if (copy == NULL)
        return -EINVAL;
    make_room(headers);
    headers->items[headers->count++] =
        (struct http_header){.name = mem_dup_n(name, name_length), .value = copy};
    return 0;
}

int http_headers_add(struct http_headers *headers, const char *name, const char *value)
{
    return http_headers_add_n(headers, name, strlen(name), value, strlen(value));
}

/* Drop every field of this name from index `first` on, keeping the order of the rest. */
static void remove_from(struct http_headers *headers, const char *name, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < headers->count; i++) {
        if (strcasecmp(headers->items[i].name, name) == 0) {
            free(headers->items[i].name);
            free(headers->items[i].value);
        } else {
            headers->items[kept++] = headers->items[i];
        }
    }
    headers->count = kept;
}

static struct http_header *find(const struct http_headers *headers, const char *name)
{
    for (size_t i = 0; i < headers->count; i++)
        if (strcasecmp(headers->items[i].name, name) == 0)
            return &headers->items[i];
    return NULL;
}

int http_headers_set(struct http_headers *headers, const char *name, const char *value)
{
    struct http_header *present = find(headers, name);
    if (present == NULL)
        return http_headers_add(headers, name, value);

    /* Copied before anything is freed: value may be one of our own. */
    char *copy = copy_value(value, strlen(value));
    if (copy == NULL)
        return -EINVAL;
    free(present->value);
    present->value = copy;
    remove_from(headers, present->name, (size_t)(present - headers->items) + 1);
    return 0;
}

void http_headers_remove(struct http_headers *headers, const char *name)
{
    remove_from(headers, name, 0);
}

const char *http_headers_find(const struct http_headers *headers, const char *name)
{
    const struct http_header *header = find(headers, name);
    return header == NULL ? NULL : header->value;
}

size_t http_headers_count(const struct http_headers *headers, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < headers->count; i++)
        count += strcasecmp(headers->items[i].name, name) == 0;
    return count;
}

static bool list_has_token(const char *list, const char *token)
{
    size_t token_length = strlen(token);
    const char *at = list;
    while (*at != '\0') {
        at += strspn(at, " \t,");
        size_t length = strcspn(at, ",");
        size_t trimmed = length;
        while (trimmed > 0 && is_space(at[trimmed - 1]))
            trimmed--;
        if (trimmed == token_length && strncasecmp(at, token, token_length) == 0)
            return true;
        at += length;
    }
    return false;
}

bool http_headers_has_token(const struct http_headers *headers, const char *name, const char *token)
{
    for (size_t i = 0; i < headers->count; i++)
        if (strcasecmp(headers->items[i].name, name) == 0 &&
            list_has_token(headers->items[i].value, token))
            return true;
    return false;
}
