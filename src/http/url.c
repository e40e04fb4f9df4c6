#include "http/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

int url_decode(const char *text, size_t length, bool form, char **ret)
{
    AUTO_FREE char *out = mem_alloc(length + 1);
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            if (length - i < 3)
                return -EINVAL;
            int high = str_hex_value(text[i + 1]);
            int low = str_hex_value(text[i + 2]);
            if (high < 0 || low < 0)
                return -EINVAL;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (form && c == '+') {
            c = ' ';
        }
        if (c == '\0')
            return -EINVAL;
        out[used++] = c;
    }
    out[used] = '\0';
    *ret = TAKE_PTR(out);
    return 0;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int url_encode(struct buf *out, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t before = out->length;

    for (const char *at = text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        char escape[3] = {'%', hex[c >> 4], hex[c & 15]};
        int r = is_unreserved(*at) ? buf_add_char(out, *at) : buf_add(out, escape, sizeof(escape));
        if (r < 0) {
            if (out->length > before) {
                out->length = before;
                out->data[before] = '\0';
            }
            return r;
        }
    }
    return 0;
}

static int parse_item(const char *text, size_t length, struct url_query_item *ret)
{
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals == NULL ? length : (size_t)(equals - text);
    AUTO_FREE char *name = NULL;

    int r = url_decode(text, name_length, true, &name);
    if (r < 0)
        return r;
    if (equals == NULL)
        ret->value = mem_dup("");
    else
        r = url_decode(equals + 1, length - name_length - 1, true, &ret->value);
    if (r < 0)
        return r;
    ret->name = TAKE_PTR(name);
    return 0;
}

int url_query_parse(const char *query, struct url_query *ret)
{
    struct url_query parsed = {0};
    int r = 0;

    for (const char *at = query; *at != '\0' && r == 0;) {
        size_t length = strcspn(at, "&");
        if (length > 0) {
            if (parsed.count >= URL_QUERY_MAX) {
                r = -E2BIG;
                break;
            }
            parsed.items =
                mem_resize_array(parsed.items, parsed.count + 1, sizeof(parsed.items[0]));
            r = parse_item(at, length, &parsed.items[parsed.count]);
            if (r == 0)
                parsed.count++;
        }
        at += length;
        at += *at == '&';
    }
    if (r < 0) {
        url_query_done(&parsed);
        return r;
    }
    *ret = parsed;
    return 0;
}

void url_query_done(struct url_query *query)
{
    for (size_t i = 0; i < query->count; i++) {
        free(query->items[i].name);
        free(query->items[i].value);
    }
    free(query->items);
    *query = (struct url_query){0};
}

const char *url_query_find(const struct url_query *query, const char *name)
{
    for (size_t i = 0; i < query->count; i++)
        if (strcmp(query->items[i].name, name) == 0)
            return query->items[i].value;
    return NULL;
}
