/* Who may call. One API key; comparison in constant time. */
#pragma once

#include <stdbool.h>

#include "http/headers.h"
#include "http/server.h"

#define SERVER_AUTH_KEY_HEADER   "OPEN-SANDBOX-API-KEY"
#define SERVER_AUTH_EXECD_HEADER "X-EXECD-ACCESS-TOKEN"

/* Does any field of this name hold the secret? Clients may send a field twice. */
bool server_auth_has_secret(const struct http_headers *headers, const char *name,
                            const char *secret);

/* True when the request carries the key; otherwise it was answered with 401. */
bool server_auth_check(struct http_exchange *exchange, const char *api_key);

/* May this request reach a sandbox's execd? By the sandbox's own token, or by the API key in either
 * header. */
bool server_auth_opens_execd(const struct http_headers *headers, const char *execd_token,
                             const char *api_key);
