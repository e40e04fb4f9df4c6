#include "execd/paths.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/mem.h"

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static size_t name_length(const char *text)
{
    if (!is_name_start(*text))
        return 0;
    size_t length = 1;
    while (is_name_start(text[length]) || isdigit((unsigned char)text[length]))
        length++;
    return length;
}

static int add_variable(const char *name, size_t length, const struct execd_env *env,
                        struct buf *out, struct buf *missing)
{
    AUTO_FREE char *key = mem_dup_n(name, length);
    const char *value = execd_env_find(env, key);
    if (value != NULL)
        return buf_add_str(out, value);
    if (missing == NULL)
        return 0;
    return buf_printf(missing, "%s%s", missing->length > 0 ? ", " : "", key);
}

int execd_path_replace_variables(const char *text, const struct execd_env *env, struct buf *out,
                                 struct buf *missing)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "$");
        int r = buf_add(out, text, plain);
        text += plain;
        if (r == 0 && *text == '$') {
            bool braced = text[1] == '{';
            const char *name = text + 1 + braced;
            size_t length = name_length(name);
            if (braced && (length == 0 || name[length] != '}'))
                return -EINVAL;
            if (length == 0) {
                r = buf_add_char(out, '$');
                text++;
            } else {
                r = add_variable(name, length, env, out, missing);
                text = name + length + braced;
            }
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* Append `path` to `out`, which holds a clean absolute path, one segment at a time. */
static int add_segments(struct buf *out, const char *path)
{
    int r = 0;
    while (r == 0 && *path != '\0') {
        size_t length = strcspn(path, "/");
        if (length > 0 && !(length == 1 && *path == '.')) {
            if (out->length > 1)
                r = buf_add_char(out, '/');
            if (r == 0)
                r = buf_add(out, path, length);
        }
        path += length;
        path += strspn(path, "/");
    }
    return r;
}

static bool is_in_home(const char *path)
{
    return path[0] == '~' && (path[1] == '\0' || path[1] == '/');
}

static int make_absolute(const char *path, const char *home, const char *cwd, struct buf *out)
{
    bool in_home = is_in_home(path);
    int r = buf_add_char(out, '/');
    if (r == 0 && in_home)
        r = add_segments(out, home);
    else if (r == 0 && path[0] != '/')
        r = add_segments(out, cwd);
    return r == 0 ? add_segments(out, path + in_home) : r;
}

static int expand(const char *path, const struct execd_env *env, const char *cwd,
                  struct buf *replaced, struct buf *missing, struct buf *out, struct error *err)
{
    if (*path == '\0')
        return error_set(err, ERR_INVALID, "the path is empty");
    int r = execd_path_replace_variables(path, env, replaced, missing);
    if (missing->length > 0)
        return error_set(err, ERR_INVALID, "path %.200s uses variables that are not set: %.200s",
                         path, missing->data);
    if (r == -EINVAL)
        return error_set(err, ERR_INVALID, "path %.200s has a \"${\" that is not \"${NAME}\"",
                         path);
    const char *home = execd_env_find(env, "HOME");
    if (is_in_home(replaced->data) && (home == NULL || home[0] != '/'))
        return error_set(err, ERR_INVALID, "path %.200s needs HOME, which is not set", path);
    if (r == 0 && replaced->length == 0)
        return error_set(err, ERR_INVALID, "path %.200s is empty after expansion", path);
    if (r == 0)
        r = make_absolute(replaced->data, home, cwd, out);
    if (r < 0)
        return error_set(err, ERR_INVALID, "path %.200s... is longer than %d bytes", path,
                         PATH_MAX - 1);
    return 0;
}

int execd_path_expand(const char *path, const struct execd_env *env, const char *cwd, char **ret,
                      struct error *err)
{
    struct buf replaced;
    struct buf missing;
    struct buf out;
    buf_init(&replaced, PATH_MAX - 1);
    buf_init(&missing, PATH_MAX);
    buf_init(&out, PATH_MAX - 1);
    int r = expand(path, env, cwd, &replaced, &missing, &out, err);
    if (r == 0)
        *ret = buf_take(&out);
    buf_done(&replaced);
    buf_done(&missing);
    buf_done(&out);
    return r;
}
