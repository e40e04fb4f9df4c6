#include "model/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* JSON carries only UTF-8. Cutting a well-formed text leaves at most three bytes of a character at
 * its end, which go; in one that was never well-formed every byte beyond ASCII becomes '?'. */
static void make_utf8(char *text)
{
    size_t length = strlen(text);
    for (size_t cut = 0; cut <= MIN(length, (size_t)3); cut++) {
        if (str_is_utf8(text, length - cut)) {
            text[length - cut] = '\0';
            return;
        }
    }
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
}

static void copy_cut(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from != NULL ? from : "");
    make_utf8(to);
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
    make_utf8(problem->message);
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
