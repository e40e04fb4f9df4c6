#include "server/request_id.h"

#include <stdbool.h>
#include <string.h>

#include "base/id.h"

static bool is_usable(const char *text, size_t length)
{
    if (length == 0 || length > SERVER_REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

void server_request_id_choose(const struct http_headers *headers,
                              char ret[SERVER_REQUEST_ID_MAX + 1])
{
    const char *given = http_headers_find(headers, SERVER_REQUEST_ID_HEADER);
    if (given != NULL) {
        given += strspn(given, " \t");
        size_t length = strlen(given);
        while (length > 0 && (given[length - 1] == ' ' || given[length - 1] == '\t'))
            length--;
        if (is_usable(given, length)) {
            memcpy(ret, given, length);
            ret[length] = '\0';
            return;
        }
    }
    id_new_hex(ret);
}
