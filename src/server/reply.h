/* How failures look to clients: {"code", "message"} with a status, from one table. */
#pragma once

#include "base/error.h"
#include "http/server.h"
#include "model/problem.h"

#define SERVER_CODE_NOT_FOUND     "SANDBOX::SANDBOX_NOT_FOUND"
#define SERVER_CODE_NOT_SUPPORTED "SANDBOX::API_NOT_SUPPORTED"

/* 400 with `detail`. */
void server_reply_problem(struct http_exchange *exchange, const struct problem *problem);

/* `failed_code` names the operation when the failure is ours: "SANDBOX::SANDBOX_START_FAILED". */
void server_reply_error(struct http_exchange *exchange, const struct error *err,
                        const char *failed_code);

void server_reply_no_sandbox(struct http_exchange *exchange, const char *id);
