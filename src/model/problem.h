/* What is wrong with a request, in the words of the API: the first problem found, with its code and
 * its place. The message is for people and never repeats a secret: values of env, credentials and
 * entrypoints are not in it. */
#pragma once

#include <jansson.h>

#include "base/error.h"

#define PROBLEM_INVALID "SANDBOX::INVALID_PARAMETER"
#define PROBLEM_LABEL   "SANDBOX::INVALID_METADATA_LABEL"

#define PROBLEM_QUOTE_MAX 72

struct problem {
    const char *code; /* literal */
    const char *type; /* literal: "missing", "string_type", "value_error" ... */
    const char *in;   /* literal: "body" (default) or "query" */
    char field[64];   /* member of the body or the query; "" for the whole */
    char member[128]; /* key inside that field, "" for none; cut when longer */
    char message[ERROR_MESSAGE_MAX];
};

/* Fill; returns -EINVAL, so that `return problem_set(...)` reads well. member may be NULL. */
int problem_set(struct problem *problem, const char *code, const char *type, const char *field,
                const char *member, const char *format, ...) PRINTF_LIKE(6, 7);

/* A value for use in a message: cut at a character boundary, "..." added. Returns `out`. */
const char *problem_quote(const char *value, char out[PROBLEM_QUOTE_MAX]);

/* {"code","message","detail":[{"type","loc":["body",field,member],"msg"}]}: readers of the flat
 * form and of the reference's validation form both find what they look for. */
json_t *problem_to_json(const struct problem *problem);
