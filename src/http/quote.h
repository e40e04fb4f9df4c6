/* A value that somebody else chose, made fit for an error message: short, printable ASCII only. */
#pragma once

#include <stddef.h>

#define HTTP_QUOTE_MAX 64 /* bytes of the result, quotes excluded, terminating NUL included */

/* Writes at most size bytes, NUL included; what is not printable becomes \xNN; a value that does
 * not fit ends in "...". size must be at least 8. Returns ret, so that it can be used in place. */
const char *http_quote(char *ret, size_t size, const char *bytes, size_t length);
