/* From the raw bytes of a complete head to a checked `struct http_head`. Part of the parser: the
 * rules are those of http/parser.h. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "http/message.h"

/* `bytes` is one whole head that http_scan_feed() accepted: start line to empty line. `head` must
 * be initialised and is to be released by the caller also on failure. */
int http_head_parse_request(const char *bytes, size_t length, struct http_head *head,
                            struct error *err);

/* `answers_head`: the request was HEAD, so that no body follows whatever the fields say. */
int http_head_parse_response(const char *bytes, size_t length, bool answers_head,
                             struct http_head *head, struct error *err);
