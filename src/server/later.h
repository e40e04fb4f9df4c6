/* An answer that comes later: bridges an exchange, which the client may close at any time, and an
 * operation, which goes on regardless. Whichever ends last releases it. */
#pragma once

#include "http/server.h"

struct server_later;

struct server_later *server_later_new(struct http_exchange *exchange);

/* The operation is over: the exchange to answer, or NULL when the client is gone. The object must
 * not be used afterwards. */
struct http_exchange *server_later_finish(struct server_later *later);
