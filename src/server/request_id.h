/* X-Request-ID: what the client sent, or a new one; on every answer. */
#pragma once

#include "http/headers.h"

#define SERVER_REQUEST_ID_HEADER "X-Request-ID"
#define SERVER_REQUEST_ID_MAX    128

/* The client's value when it is 1 to 128 printable ASCII characters after trimming, else a new one
 * of 32 hex digits. */
void server_request_id_choose(const struct http_headers *headers,
                              char ret[SERVER_REQUEST_ID_MAX + 1]);
