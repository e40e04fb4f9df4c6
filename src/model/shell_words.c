#include "model/shell_words.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* A backslash: what it stands for goes to *out. Between double quotes it is special only before the
 * characters that are special there. Returns the position after it, NULL at the end of the text. */
static const char *take_escape(const char *p, bool in_double_quotes, char **out)
{
    char c = p[1];
    if (c == '\0')
        return NULL;
    if (c == '\n') /* a continued line: both vanish */
        return p + 2;
    if (in_double_quotes && strchr("$`\"\\", c) == NULL)
        *(*out)++ = '\\';
    *(*out)++ = c;
    return p + 2;
}

/* One word that starts at p, into out. Returns the position after it, NULL when it does not end. */
static const char *take_word(const char *p, char *out)
{
    char quote = '\0';
    while (*p != '\0' && (quote != '\0' || !is_space(*p))) {
        if (*p == '\\' && quote != '\'') {
            p = take_escape(p, quote == '"', &out);
            if (p == NULL)
                return NULL;
        } else if (quote == '\0' && (*p == '\'' || *p == '"')) {
            quote = *p++;
        } else if (quote != '\0' && *p == quote) {
            quote = '\0';
            p++;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
    return quote == '\0' ? p : NULL;
}

int shell_words_split(const char *text, struct string_list *words, struct error *err)
{
    struct string_list found = {0};
    AUTO_FREE char *word = mem_alloc(strlen(text) + 1); /* no word is longer than the text */
    const char *p = text;
    for (;;) {
        while (is_space(*p))
            p++;
        if (*p == '\0')
            break;
        p = take_word(p, word);
        if (p == NULL) {
            string_list_done(&found);
            return error_set(err, ERR_INVALID,
                             "a quote is not closed or a backslash is the last "
                             "character");
        }
        string_list_add(&found, word);
    }
    string_list_copy(words, &found);
    string_list_done(&found);
    return 0;
}
