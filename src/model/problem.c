#include "model/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Cutting well-formed UTF-8 leaves at most three bytes of a broken character at the end. */
static void trim_broken_end(char *text)
{
    size_t length = strlen(text);
    for (int i = 0; i < 3 && length > 0 && !str_is_utf8(text, length); i++)
        text[--length] = '\0';
}

static void copy_cut(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from != NULL ? from : "");
    trim_broken_end(to);
}

int problem_set(struct problem *problem, const char *code, const char *type, const char *field,
                const char *member, const char *format, ...)
{
    problem->code = code;
    problem->type = type;
    if (problem->in == NULL)
        problem->in = "body";
    copy_cut(problem->field, sizeof(problem->field), field);
    copy_cut(problem->member, sizeof(problem->member), member);

    va_list args;
    va_start(args, format);
    vsnprintf(problem->message, sizeof(problem->message), format, args);
    va_end(args);
    trim_broken_end(problem->message);
    return -EINVAL;
}

const char *problem_quote(const char *value, char out[PROBLEM_QUOTE_MAX])
{
    char cut[PROBLEM_QUOTE_MAX - sizeof("...") + 1];
    copy_cut(cut, sizeof(cut), value);
    snprintf(out, PROBLEM_QUOTE_MAX, "%s%s", cut, strlen(value) >= sizeof(cut) ? "..." : "");
    return out;
}

json_t *problem_to_json(const struct problem *problem)
{
    json_t *loc = json_pack("[s]", problem->in);
    if (problem->field[0] != '\0')
        json_array_append_new(loc, json_string(problem->field));
    if (problem->member[0] != '\0')
        json_array_append_new(loc, json_string(problem->member));
    return json_pack("{s:s, s:s, s:[{s:s, s:o, s:s}]}", "code", problem->code, "message",
                     problem->message, "detail", "type", problem->type, "loc", loc, "msg",
                     problem->message);
}
