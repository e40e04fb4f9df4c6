/* Conditional requests for a file: does the client have it already, is it still the one it knows?
 * Pure: no I/O. */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "http/headers.h"

#define EXECD_HTTP_DATE_MAX 64

/* What identifies a version of a file. */
struct execd_version {
    const char *etag; /* with its quotes */
    time_t modified;
};

/* "Sun, 06 Nov 1994 08:49:37 GMT" and back; the two older forms are read, too. */
void execd_http_date_write(time_t seconds, char ret[EXECD_HTTP_DATE_MAX]);
int execd_http_date_parse(const char *text, time_t *ret); /* 0 or -EINVAL */

/* If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since, in this order and with the rules
 * of RFC 9110 for GET: 0 when the file is to be sent, or the status to answer instead, 304 or 412.
 */
int execd_conditions_check(const struct http_headers *headers, const struct execd_version *version);

/* May a range be sent? With If-Range only when that names this version. */
bool execd_conditions_allow_range(const struct http_headers *headers,
                                  const struct execd_version *version);
