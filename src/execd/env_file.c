#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "execd/env.h"
#include "execd/paths.h"

struct reader {
    const char *at;
    const char *end;
    struct execd_env *env;
    const struct execd_env *before; /* what $NAME is replaced from */
};

static const char *line_end(const struct reader *reader, const char *from)
{
    while (from < reader->end && *from != '\n')
        from++;
    return from;
}

static const char *after(const struct reader *reader, const char *line_stop)
{
    return line_stop < reader->end ? line_stop + 1 : reader->end;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && *at != '\n' && isspace((unsigned char)*at))
        at++;
    return at;
}

/* After a closing quote only white space and a comment may follow. */
static bool line_is_over(const struct reader *reader, const char *at)
{
    const char *rest = skip_blanks(at, reader->end);
    return rest == reader->end || *rest == '\n' || (*rest == '#' && rest > at);
}

/* The closing quote of what opens at `open`; NULL when there is none that ends the value. */
static const char *find_closing(const struct reader *reader, const char *open)
{
    for (const char *c = open + 1; c < reader->end; c++) {
        if (*open == '"' && *c == '\\' && c + 1 < reader->end)
            c++;
        else if (*c == *open)
            return line_is_over(reader, c + 1) ? c : NULL;
    }
    return NULL;
}

static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

/* The inside of double quotes. What a backslash protects is not replaced, so the text is taken in
 * pieces between backslashes. */
static int add_double_quoted(struct buf *value, const struct execd_env *before, const char *text,
                             size_t length)
{
    const char *end = text + length;
    while (text < end) {
        const char *stop = memchr(text, '\\', (size_t)(end - text));
        if (stop == NULL)
            stop = end;
        AUTO_FREE char *piece = mem_dup_n(text, (size_t)(stop - text));
        if (execd_path_replace_variables(piece, before, value, NULL) < 0)
            return -1;
        if (stop == end)
            break;
        char c = stop + 1 < end ? unescape(stop[1]) : '\\';
        if (buf_add(value, &c, 1) < 0)
            return -1;
        text = stop + 1 < end ? stop + 2 : end;
    }
    return 0;
}

static int add_plain(struct buf *value, const struct execd_env *before, const char *text,
                     size_t length)
{
    if (length > 0 && text[length - 1] == '\r')
        length--;
    AUTO_FREE char *line = mem_dup_n(text, length);
    return execd_path_replace_variables(line, before, value, NULL);
}

/* The value that begins here, and where its last line ends. */
static int read_value(const struct reader *reader, const char *at, struct buf *value,
                      const char **ret_stop)
{
    const char *closing = NULL;
    if (at < reader->end && (*at == '\'' || *at == '"'))
        closing = find_closing(reader, at);
    *ret_stop = line_end(reader, closing != NULL ? closing : at);
    if (closing == NULL)
        return add_plain(value, reader->before, at, (size_t)(*ret_stop - at));
    size_t length = (size_t)(closing - at) - 1;
    if (*at == '\'')
        return buf_add(value, at + 1, length);
    return add_double_quoted(value, reader->before, at + 1, length);
}

static void read_entry(struct reader *reader)
{
    const char *line = skip_blanks(reader->at, reader->end);
    const char *stop = line_end(reader, line);
    const char *equals = line < stop ? memchr(line, '=', (size_t)(stop - line)) : NULL;
    reader->at = after(reader, stop);
    if (equals == NULL || equals == line || *line == '#')
        return;
    const char *name_end = equals;
    while (name_end > line && isspace((unsigned char)name_end[-1]))
        name_end--;
    AUTO_FREE char *name = mem_dup_n(line, (size_t)(name_end - line));
    struct buf value;
    buf_init(&value, EXECD_STRING_MAX);
    if (read_value(reader, equals + 1, &value, &stop) == 0)
        execd_env_set(reader->env, name, value.length > 0 ? value.data : ""); /* or skipped */
    buf_done(&value);
    reader->at = after(reader, stop);
}

void execd_env_add_file(struct execd_env *env, const char *text, size_t length)
{
    struct execd_env before;
    execd_env_init(&before);
    execd_env_copy(&before, env);
    struct reader reader = {
        .at = text,
        .end = text + length,
        .env = env,
        .before = &before,
    };
    while (reader.at < reader.end)
        read_entry(&reader);
    execd_env_done(&before);
}
