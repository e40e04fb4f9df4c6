/* Answers that all endpoints give alike. */
#pragma once

#include "base/error.h"
#include "http/server.h"

/* A failed operation as {code, message}: the client's mistakes are 400 with `invalid_code`, what is
 * absent 404 FILE_NOT_FOUND, a wrong state 409, what is not built 501, the rest 500. */
void execd_reply_failure(struct http_exchange *exchange, const char *invalid_code,
                         const struct error *err);

/* 501: a part of the published API that this build does not have. */
void execd_reply_not_built(struct http_exchange *exchange);

/* 200 without a body: Content-Length: 0, as generated clients expect it. */
void execd_reply_empty(struct http_exchange *exchange);
