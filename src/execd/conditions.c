#include "execd/conditions.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

void execd_http_date_write(time_t seconds, char ret[EXECD_HTTP_DATE_MAX])
{
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(ret, EXECD_HTTP_DATE_MAX, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

int execd_http_date_parse(const char *text, time_t *ret)
{
    static const char *const forms[] = {
        "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a %b %d %H:%M:%S %Y",
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm tm = {0};
        const char *end = strptime(text, forms[i], &tm);
        if (end != NULL && *end == '\0') {
            *ret = timegm(&tm);
            return 0;
        }
    }
    return -EINVAL;
}

/* Is `etag` one of the list, or the list "*"? A weak tag (W/"...") is the same as a strong one only
 * where `weak` allows it. */
static bool has_tag(const char *list, const char *etag, bool weak)
{
    size_t length = strlen(etag);
    for (const char *at = list; *at != '\0';) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        bool is_weak = str_starts_with(at, "W/");
        at += is_weak ? 2 : 0;
        if (*at != '"')
            return false; /* malformed: nothing behind it can be trusted */
        const char *quote = strchr(at + 1, '"');
        if (quote == NULL)
            return false;
        size_t tag_length = (size_t)(quote + 1 - at);
        if ((weak || !is_weak) && tag_length == length && memcmp(at, etag, length) == 0)
            return true;
        at = quote + 1;
    }
    return false;
}

static bool is_modified_since(const char *text, const struct execd_version *version, bool otherwise)
{
    time_t since;
    return execd_http_date_parse(text, &since) < 0 ? otherwise : version->modified > since;
}

int execd_conditions_check(const struct http_headers *headers, const struct execd_version *version)
{
    const char *match = http_headers_find(headers, "If-Match");
    const char *unmodified = http_headers_find(headers, "If-Unmodified-Since");
    const char *none_match = http_headers_find(headers, "If-None-Match");
    const char *modified = http_headers_find(headers, "If-Modified-Since");
    if (match != NULL ? !has_tag(match, version->etag, false)
                      : unmodified != NULL && is_modified_since(unmodified, version, false))
        return 412;
    if (none_match != NULL ? has_tag(none_match, version->etag, true)
                           : modified != NULL && !is_modified_since(modified, version, true))
        return 304;
    return 0;
}

bool execd_conditions_allow_range(const struct http_headers *headers,
                                  const struct execd_version *version)
{
    const char *text = http_headers_find(headers, "If-Range");
    if (text == NULL)
        return true;
    if (text[0] == '"')
        return strcmp(text, version->etag) == 0;
    time_t date;
    return execd_http_date_parse(text, &date) == 0 && date == version->modified;
}
