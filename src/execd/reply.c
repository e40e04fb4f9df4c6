#include "execd/reply.h"

void execd_reply_failure(struct http_exchange *exchange, const char *invalid_code,
                         const struct error *err)
{
    int status = 500;
    const char *code = "RUNTIME_ERROR";
    switch (err->code) {
    case ERR_INVALID:
    case ERR_LIMIT:
        status = 400;
        code = invalid_code;
        break;
    case ERR_NOT_FOUND:
        status = 404;
        code = "FILE_NOT_FOUND";
        break;
    case ERR_CONFLICT:
        status = 409;
        break;
    case ERR_UNSUPPORTED:
        status = 501;
        code = "NOT_SUPPORTED";
        break;
    case ERR_UNAVAILABLE:
        status = 503;
        break;
    default:
        break;
    }
    http_exchange_reply_error(exchange, status, code, "%s", err->message);
}

void execd_reply_not_built(struct http_exchange *exchange)
{
    http_exchange_reply_error(exchange, 501, "NOT_SUPPORTED", "%s %.200s is not supported",
                              http_exchange_head(exchange)->method, http_exchange_path(exchange));
}

void execd_reply_empty(struct http_exchange *exchange)
{
    http_exchange_reply(exchange, 200, NULL, NULL, 0);
}
