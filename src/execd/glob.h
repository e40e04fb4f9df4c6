/* Patterns for file names, as GET /files/search takes them:
 *
 *   *        any characters but '/'             ?        one character but '/'
 *   [a-z_]   one of these                       [!a] [^a]  one character but these and '/'
 *   {a,b*}   one of the patterns, may nest      !(a|b*)  anything without '/' that none of the
 *   \x       x itself                                    patterns matches as a whole
 *   **       as a whole segment between '/': any characters with '/'; "**" and its '/' may also
 *            stand for nothing. Elsewhere the same as *.
 *
 * Characters are those of UTF-8; a byte that is not part of one counts as a character that only
 * itself, ?, * and negated sets match. Names that begin with '.' are like all others.
 *
 * Matching keeps the set of all positions reached so far and passes it through the pattern once: no
 * back-tracking. Its time grows with pattern length times text length, and under "!(" with one more
 * text length (of a segment). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define EXECD_GLOB_MAX       1024 /* bytes of a pattern */
#define EXECD_GLOB_DEPTH_MAX 8    /* of braces and negations; negations do not nest */

struct execd_glob;

/* ERR_INVALID says what is wrong with the pattern, and where. */
int execd_glob_parse(const char *pattern, struct execd_glob **ret, struct error *err);
void execd_glob_free(struct execd_glob *glob); /* accepts NULL */

/* Is there a '/' in it, so that it is about paths rather than names? */
bool execd_glob_has_slash(const struct execd_glob *glob);

/* The whole text. Not for two threads at once: working memory is kept in the glob. */
bool execd_glob_match(struct execd_glob *glob, const char *text, size_t length);
