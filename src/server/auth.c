#include "server/auth.h"

#include "base/str.h"

bool server_auth_has_secret(const struct http_headers *headers, const char *name,
                            const char *secret)
{
    bool found = false;
    for (size_t i = 0; i < headers->count; i++)
        if (str_equal_nocase(headers->items[i].name, name) &&
            str_equal_secret(headers->items[i].value, secret))
            found = true;
    return found;
}

bool server_auth_check(struct http_exchange *exchange, const char *api_key)
{
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    if (server_auth_has_secret(headers, SERVER_AUTH_KEY_HEADER, api_key))
        return true;
    if (http_headers_find(headers, SERVER_AUTH_KEY_HEADER) == NULL)
        http_exchange_reply_error(exchange, 401, "MISSING_API_KEY",
                                  "send the server's API key in the header %s",
                                  SERVER_AUTH_KEY_HEADER);
    else
        http_exchange_reply_error(exchange, 401, "INVALID_API_KEY",
                                  "the API key in the header " SERVER_AUTH_KEY_HEADER
                                  " is not this server's");
    return false;
}

bool server_auth_opens_execd(const struct http_headers *headers, const char *execd_token,
                             const char *api_key)
{
    /* An empty token is a row that was never finished: it opens nothing. */
    bool by_token = execd_token[0] != '\0' &&
                    server_auth_has_secret(headers, SERVER_AUTH_EXECD_HEADER, execd_token);
    return by_token || server_auth_has_secret(headers, SERVER_AUTH_EXECD_HEADER, api_key) ||
           server_auth_has_secret(headers, SERVER_AUTH_KEY_HEADER, api_key);
}
