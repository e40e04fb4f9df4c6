/* /sandboxes/{id}/proxy/{port}/...: requests that go on to a port inside a sandbox. They are not
 * under the API key: the sandbox's own token opens port 44772. */
#pragma once

#include <stdbool.h>

#include "base/id.h"
#include "server/server.h"

struct server_proxy_path {
    char id[ID_UUID_LEN + 1];
    bool id_is_valid;
    int port;         /* 0: digits, but no port number */
    const char *rest; /* of the target, after the port: "", "/..." or "?..." */
};

/* Is this request target a proxied one? Byte for byte: nothing is decoded, so that what passes is
 * what was checked. */
bool server_proxy_parse(const char *target, struct server_proxy_path *ret);

/* Would execd, or anything on the way that decodes or normalises, read this as /internal/...? That
 * part of execd's API is the server's alone. */
bool server_proxy_is_internal(const char *rest);

void server_proxy_handle(struct server *server, struct http_exchange *exchange,
                         const struct server_proxy_path *path, const char *request_id);
