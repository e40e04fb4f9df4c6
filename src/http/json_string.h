/* JSON strings written straight into a buffer, for answers of which nothing is built in between. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

#define HTTP_JSON_ESCAPED_MAX 6 /* bytes that one byte of text can become: \u00XX */

/* Append any bytes as a JSON string with its quotes. What is not UTF-8 becomes U+FFFD. Beside what
 * JSON demands, the line separators U+0085, U+2028 and U+2029 are escaped, because some clients
 * split streams into lines with functions that count these as line ends and would tear an event
 * apart. -EMSGSIZE when the buffer is full: a part may have been added then. */
int http_json_add_string(struct buf *out, const char *text, size_t length);
