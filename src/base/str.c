#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

bool str_equal(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a, b) == 0;
}

/* Not tolower(): that one asks the locale. */
static unsigned char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : (unsigned char)c;
}

bool str_equal_nocase(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    while (*a != '\0' && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

bool str_starts_with(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

bool str_is_blank(const char *string)
{
    return string == NULL || string[strspn(string, " \t\n\v\f\r")] == '\0';
}

/* Digits only; -ERANGE only for text that is a number, whatever its size. */
static int parse_digits(const char *digits, uint64_t *ret)
{
    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return -EINVAL;
    uint64_t value = 0;
    for (; *digits != '\0'; digits++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*digits - '0'), &value))
            return -ERANGE;
    }
    *ret = value;
    return 0;
}

int str_to_u64(const char *string, uint64_t min, uint64_t max, uint64_t *ret)
{
    if (string == NULL)
        return -EINVAL;
    uint64_t value;
    int r = parse_digits(string, &value);
    if (r < 0)
        return r;
    if (value < min || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

int str_to_i64(const char *string, int64_t min, int64_t max, int64_t *ret)
{
    if (string == NULL)
        return -EINVAL;
    bool negative = *string == '-';
    uint64_t magnitude;
    int r = parse_digits(string + negative, &magnitude);
    if (r < 0)
        return r;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return -ERANGE;
    /* Through unsigned: the magnitude of INT64_MIN has no positive int64_t. */
    int64_t value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (value < min || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

/* One step per character of `given` and one for its NUL. The secret's pointer stops at its own NUL
 * without a branch, so neither where they differ nor how long the secret is can be measured. */
int str_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool str_equal_secret(const char *given, const char *secret)
{
    if (given == NULL || secret == NULL)
        return false;
    size_t length = strlen(given);
    volatile unsigned char difference = 0;
    for (size_t i = 0; i <= length; i++) {
        difference |= (unsigned char)(given[i] ^ *secret);
        secret += *secret != '\0';
    }
    return difference == 0;
}

size_t str_utf8_next(const char *bytes, size_t length, uint32_t *ret)
{
    if (length == 0)
        return 0;
    const unsigned char *b = (const unsigned char *)bytes;
    size_t size = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    if (size == 0 || size > length || b[0] > 0xf4)
        return 0;
    uint32_t code = size == 1 ? b[0] : b[0] & (0xffU >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (b[i] & 0x3f);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < smallest[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret = code;
    return size;
}

bool str_is_utf8(const char *bytes, size_t length)
{
    uint32_t code;
    for (size_t at = 0, size; at < length; at += size) {
        size = str_utf8_next(bytes + at, length - at, &code);
        if (size == 0)
            return false;
    }
    return true;
}

bool str_is_plain_path(const char *path)
{
    size_t length = strlen(path);
    if (path[0] != '/' || length < 2 || length >= PATH_MAX || path[length - 1] == '/')
        return false;
    for (const char *slash = path; slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t name = strcspn(slash + 1, "/");
        if (name == 0 || (name == 1 && slash[1] == '.') ||
            (name == 2 && slash[1] == '.' && slash[2] == '.'))
            return false;
    }
    return true;
}
