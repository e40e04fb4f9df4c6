/* The lifecycle API: from a request to its handler. */
#pragma once

#include "http/router.h"
#include "server/server.h"

/* For http_server_config: ctx is the struct server. */
void server_api_on_request(struct http_exchange *exchange, void *ctx);

/* Handlers; ctx is the struct server. */
http_handler_fn server_api_create;   /* api_sandboxes.c */
http_handler_fn server_api_list;     /* api_sandboxes.c */
http_handler_fn server_api_get;      /* api_sandboxes.c */
http_handler_fn server_api_delete;   /* api_sandboxes.c */
http_handler_fn server_api_endpoint; /* api_endpoint.c */

/* The {id} of a route when it has the form of an id; otherwise NULL, and 404 was answered. */
const char *server_api_sandbox_id(struct http_exchange *exchange,
                                  const struct http_route_match *match);
