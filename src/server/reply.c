#include "server/reply.h"

#include "http/json.h"

void server_reply_problem(struct http_exchange *exchange, const struct problem *problem)
{
    http_exchange_reply_json(exchange, 400, problem_to_json(problem));
}

void server_reply_error(struct http_exchange *exchange, const struct error *err,
                        const char *failed_code)
{
    static const struct {
        int status;
        const char *code; /* NULL: the operation's */
        bool again;       /* trying again later may help */
    } answers[] = {
        [ERR_OK] = {500, NULL, false},
        [ERR_INVALID] = {400, PROBLEM_INVALID, false},
        [ERR_NOT_FOUND] = {404, SERVER_CODE_NOT_FOUND, false},
        [ERR_CONFLICT] = {409, "SANDBOX::INVALID_STATE", false},
        [ERR_LIMIT] = {503, "SANDBOX::TOO_MANY_OPERATIONS", true},
        [ERR_DENIED] = {500, NULL, false},
        [ERR_TIMEOUT] = {500, NULL, false},
        [ERR_UNAVAILABLE] = {503, "SANDBOX::RUNTIME_UNAVAILABLE", true},
        [ERR_UNSUPPORTED] = {501, SERVER_CODE_NOT_SUPPORTED, false},
        [ERR_INTERNAL] = {500, NULL, false},
    };
    if (answers[err->code].again)
        http_exchange_set_header(exchange, "Retry-After", "1");
    const char *code = answers[err->code].code;
    http_exchange_reply_error(exchange, answers[err->code].status,
                              code != NULL ? code : failed_code, "%s", err->message);
}

void server_reply_no_sandbox(struct http_exchange *exchange, const char *id)
{
    char quoted[PROBLEM_QUOTE_MAX];
    http_exchange_reply_error(exchange, 404, SERVER_CODE_NOT_FOUND, "there is no sandbox \"%s\"",
                              problem_quote(id, quoted));
}
