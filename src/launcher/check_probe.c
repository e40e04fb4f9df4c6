/* What the probes share: saying, reading, parsing. */
#include "launcher/check_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

void check_say(struct check_result *result, enum check_found found, const char *format, ...)
{
    va_list list;
    result->found = found;
    va_start(list, format);
    vsnprintf(result->detail, sizeof(result->detail), format, list);
    va_end(list);
}

void check_effect(struct check_result *result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(result->effect, sizeof(result->effect), format, list);
    va_end(list);
}

void check_advice(struct check_result *result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(result->advice, sizeof(result->advice), format, list);
    va_end(list);
}

void check_say_outcome(const struct check_context *context, struct check_result *result, int r,
                       const char *what)
{
    if (r >= 0)
        check_say(result, CHECK_YES, "%s: works", what);
    else if (!context->root && !context->rootless && (r == -EPERM || r == -EACCES))
        check_say(result, CHECK_UNKNOWN, "%s: only root can try it", what);
    else
        check_say(result, CHECK_NO, "%s: %s", what, strerror(-r));
}

enum check_found check_found_of(const struct check_context *context, const char *name)
{
    for (size_t i = 0; i < context->count; i++) {
        if (str_equal(context->rows[i].name, name))
            return context->rows[i].result.found;
    }
    return CHECK_UNKNOWN;
}

int check_read(const char *path, struct buf *text)
{
    struct error err = ERROR_INIT;
    if (file_read_at(AT_FDCWD, path, text, &err) < 0)
        return err.sys != 0 ? -err.sys : -EIO;
    return 0;
}

int check_read_number(const char *path, uint64_t *ret)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 4096);
    int r = check_read(path, &text);
    if (r < 0)
        return r;
    text.data[strcspn(text.data, "\n\t ")] = '\0';
    return str_to_u64(text.data, 0, UINT64_MAX, ret);
}

/* Digits at the front; *text is left behind them. */
static int take_number(const char **text, uint64_t *ret)
{
    char digits[24];
    size_t length = strspn(*text, "0123456789");
    if (length == 0 || length >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, *text, length);
    digits[length] = '\0';
    *text += length;
    return str_to_u64(digits, 0, UINT64_MAX, ret);
}

int check_parse_release(const char *release, unsigned *ret_major, unsigned *ret_minor)
{
    uint64_t major, minor;
    if (take_number(&release, &major) < 0 || *release++ != '.' || take_number(&release, &minor) < 0)
        return -EINVAL;
    if (major > UINT16_MAX || minor > UINT16_MAX)
        return -ERANGE;
    *ret_major = (unsigned)major;
    *ret_minor = (unsigned)minor;
    return 0;
}

int check_parse_meminfo(const char *text, const char *key, uint64_t *ret_bytes)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            const char *at = line + length + 1;
            uint64_t kib;
            at += strspn(at, " \t");
            if (take_number(&at, &kib) < 0 || kib > UINT64_MAX / 1024)
                return -EINVAL;
            *ret_bytes = kib * 1024;
            return 0;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return -ENOENT;
}

/* The ids of one line; -EINVAL when it is not such a line. */
static int parse_id_line(const char *line, bool subordinate, uint64_t *ret_first,
                         uint64_t *ret_last)
{
    const char *at = strchr(line, ':');
    if (at != NULL && !subordinate)
        at = strchr(at + 1, ':');
    if (at == NULL)
        return -EINVAL;
    at++;
    uint64_t first, count = 1;
    if (take_number(&at, &first) < 0 || first > UINT32_MAX)
        return -EINVAL;
    if (subordinate && (*at++ != ':' || take_number(&at, &count) < 0 || count > UINT32_MAX))
        return -EINVAL;
    if (count == 0)
        return -EINVAL;
    *ret_first = first;
    *ret_last = first + count - 1;
    return 0;
}

unsigned check_parse_ids(const char *text, bool subordinate, uint64_t first, uint64_t last,
                         char *ret_name, size_t size)
{
    unsigned found = 0;
    AUTO_FREE char *copy = mem_dup(text);
    char *save = NULL;
    ret_name[0] = '\0';
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        uint64_t line_first, line_last;
        if (parse_id_line(line, subordinate, &line_first, &line_last) < 0 || line_first > last ||
            line_last < first)
            continue;
        if (found++ == 0)
            snprintf(ret_name, size, "%.*s", (int)strcspn(line, ":"), line);
    }
    return found;
}
