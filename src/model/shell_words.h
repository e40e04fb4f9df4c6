/* Splitting one string into words as a POSIX shell would: white space separates, '...' and "..."
 * group, a backslash takes the next character as it is. Nothing is expanded. */
#pragma once

#include "base/error.h"
#include "model/string_list.h"

/* Appends the words. ERR_INVALID for a quote that is not closed or a backslash at the end; `words`
 * is then as it was. */
int shell_words_split(const char *text, struct string_list *words, struct error *err);
