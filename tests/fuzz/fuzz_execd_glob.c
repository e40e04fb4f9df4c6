/* A pattern, a newline, a text. Whatever the pattern is, matching ends and keeps some laws: a text
 * matches itself with everything escaped, a pattern in braces means the same, its negation the
 * opposite, and for simple patterns libc agrees. */
#include <fnmatch.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* 1 or 0, or -1 for a bad pattern. */
static int match(const char *pattern, const char *text)
{
    struct execd_glob *glob = NULL;
    struct error err = ERROR_INIT;
    if (execd_glob_parse(pattern, &glob, &err) < 0) {
        require(glob == NULL && err.code == ERR_INVALID && err.message[0] != '\0');
        return -1;
    }
    bool result = execd_glob_match(glob, text, strlen(text));
    execd_glob_match(glob, "", 0);
    require(execd_glob_match(glob, text, strlen(text)) == result);
    execd_glob_free(glob);
    return result;
}

static void check_itself(const char *text)
{
    size_t length = strlen(text);
    AUTO_FREE char *escaped = mem_alloc(2 * length + 1);
    char *at = escaped;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x80)
            *at++ = '\\';
        *at++ = text[i];
    }
    require(2 * length > EXECD_GLOB_MAX || match(escaped, text) == 1);
}

/* Where brackets around the pattern cannot change how it is read. */
static void check_brackets(const char *pattern, const char *text, int result)
{
    if (strpbrk(pattern, ",|(){}[]\\") != NULL || strlen(pattern) + 3 > EXECD_GLOB_MAX)
        return;
    AUTO_FREE char *braces = mem_printf("{%s}", pattern);
    require(match(braces, text) == result);
    if (strchr(pattern, '/') != NULL || strchr(text, '/') != NULL)
        return;
    AUTO_FREE char *negation = mem_printf("!(%s)", pattern);
    require(match(negation, text) == !result);
}

static void check_with_libc(const char *pattern, const char *text, int result)
{
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            return;
    if (strpbrk(pattern, "[{!\\") != NULL || strstr(pattern, "**") != NULL)
        return;
    require((fnmatch(pattern, text, FNM_PATHNAME) == 0) == result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *pattern = mem_dup_n((const char *)data, MIN(size, (size_t)2000));
    char *newline = strchr(pattern, '\n');
    const char *text = newline != NULL ? newline + 1 : "";
    if (newline != NULL)
        *newline = '\0';
    int result = match(pattern, text);
    if (result >= 0) {
        check_brackets(pattern, text, result);
        check_with_libc(pattern, text, result);
    }
    check_itself(text);
    return 0;
}
