/* How a client reaches a port of a sandbox: the words of the answer, without any I/O. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* Is this a Host header that can be shown to other clients: a name or an address, maybe with a
 * port? */
bool server_endpoint_host_is_valid(const char *host);

/* {"endpoint": "BASE/sandboxes/ID/proxy/PORT", "headers": {...}}: no scheme, as clients put their
 * own in front. headers only where a token is needed. */
json_t *server_endpoint_to_json(const char *base, const char *id, int port,
                                const char *execd_token);
