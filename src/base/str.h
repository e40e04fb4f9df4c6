/* Strings: strict number parsing, prefix tests, constant-time comparison. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool str_equal(const char *a, const char *b);        /* NULL equals only NULL */
bool str_equal_nocase(const char *a, const char *b); /* ASCII only */
bool str_starts_with(const char *string, const char *prefix);
/* "/a/b": absolute, of plain names only, without "." and "..", without a slash too many; shorter
 * than PATH_MAX and not the root itself. */
bool str_is_plain_path(const char *path);
bool str_is_blank(const char *string); /* NULL, empty or only ASCII space */

/* Decimal digits only, no sign, no space, no leading '+', whole string, within [min, max].
 * Returns 0, -EINVAL or -ERANGE; *ret is set only on success. */
int str_to_u64(const char *string, uint64_t min, uint64_t max, uint64_t *ret);
int str_to_i64(const char *string, int64_t min, int64_t max, int64_t *ret); /* allows one '-' */

/* 0 to 15, or -1 when it is no hexadecimal digit. */
int str_hex_value(char c);

/* True when equal; time depends only on the length of `given`. NULL is never equal. */
bool str_equal_secret(const char *given, const char *secret);

/* True for well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF). */
bool str_is_utf8(const char *bytes, size_t length);

/* The length in bytes of the UTF-8 character at the front and its code point; 0 when there is none
 * or it is malformed (then *ret is untouched). */
size_t str_utf8_next(const char *bytes, size_t length, uint32_t *ret);
