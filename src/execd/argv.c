#include "execd/argv.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/env.h"

int execd_argv_read(const json_t *object, const char *key, struct execd_argv *argv,
                    struct error *err)
{
    json_t *array = NULL;
    if (http_json_array(object, key, &array, err) < 0)
        return -1;
    if (array == NULL)
        return 0;
    size_t count = json_array_size(array);
    if (count == 0 || count > EXECD_ARGV_MAX)
        return error_set(err, ERR_INVALID, "`%s` has %zu strings, 1 to %d are allowed", key, count,
                         EXECD_ARGV_MAX);
    argv->items = mem_alloc_array(count + 1, sizeof(*argv->items));
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (text == NULL || strlen(text) > EXECD_STRING_MAX)
            return error_set(err, ERR_INVALID, "`%s[%zu]` must be a string of at most %d bytes",
                             key, i, EXECD_STRING_MAX);
        argv->items[argv->count++] = mem_dup(text);
    }
    if (argv->items[0][0] == '\0')
        return error_set(err, ERR_INVALID, "`%s[0]` must name a program", key);
    return 0;
}

void execd_argv_done(struct execd_argv *argv)
{
    for (size_t i = 0; i < argv->count; i++)
        free(TAKE_PTR(argv->items[i]));
    free(TAKE_PTR(argv->items));
    argv->count = 0;
}

char *execd_argv_join(const struct execd_argv *argv)
{
    struct buf text;
    buf_init(&text, SIZE_MAX); /* the strings are bounded already */
    for (size_t i = 0; i < argv->count; i++)
        (void)buf_printf(&text, "%s%s", i > 0 ? " " : "", argv->items[i]);
    return buf_take(&text);
}
