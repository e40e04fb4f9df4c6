/* The characters of TOML: blanks, keys, strings and scalars. Private to base/toml*.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "base/toml.h"

struct toml_lexer {
    const char *name; /* of the document, for messages */
    const char *at;
    const char *end;
    int line;
    struct error *err;
};

/* Refuses invalid UTF-8 and control characters, wherever they are. What follows relies on it: a NUL
 * can only mean the end, and a CR is always followed by LF. Skips a byte order mark. */
int toml_lexer_init(struct toml_lexer *lx, const char *name, const char *text, size_t length,
                    struct error *err);

/* The character `ahead` of the current one; '\0' behind the end. */
char toml_lexer_peek(const struct toml_lexer *lx, size_t ahead);
bool toml_lexer_accept(struct toml_lexer *lx, char c);
int toml_lexer_expect(struct toml_lexer *lx, char c, const char *where);

void toml_lexer_skip_blanks(struct toml_lexer *lx); /* on this line */
void toml_lexer_skip_lines(struct toml_lexer *lx);  /* blanks, comments, line ends */
int toml_lexer_end_line(struct toml_lexer *lx);     /* nothing but a comment may be left */

/* One part of a dotted key, bare or quoted. */
int toml_lexer_key(struct toml_lexer *lx, char **ret);

/* A string in any of its four forms; the current character is its first quote. */
int toml_lexer_string(struct toml_lexer *lx, char **ret);

struct toml_scalar {
    enum toml_type type; /* TOML_INTEGER, TOML_FLOAT or TOML_BOOLEAN */
    union {
        int64_t integer;
        double number;
        bool boolean;
    };
};
int toml_lexer_scalar(struct toml_lexer *lx, struct toml_scalar *ret);

/* "name:line: ..." as ERR_INVALID. */
int toml_lexer_fail(struct toml_lexer *lx, int line, const char *format, ...) PRINTF_LIKE(3, 4);

/* "expected <what>, not 'x'". */
int toml_lexer_fail_expected(struct toml_lexer *lx, const char *what);

/* As error_set(): the compiler is told that it is negative. */
#define toml_lexer_fail(...) error_negative(toml_lexer_fail(__VA_ARGS__))
