#include "base/toml_lexer.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#define DIGITS     "0123456789"
#define HEX_DIGITS DIGITS "abcdefABCDEF"
#define LETTERS    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

#define SHOWN_MAX 40 /* characters of a wrong value that go into a message */

int(toml_lexer_fail)(struct toml_lexer *lx, int line, const char *format, ...)
{
    char text[ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(lx->err, ERR_INVALID, "%s:%d: %s", lx->name, line, text);
}

int toml_lexer_fail_expected(struct toml_lexer *lx, const char *what)
{
    size_t left = (size_t)(lx->end - lx->at);
    if (left == 0)
        return toml_lexer_fail(lx, lx->line, "expected %s, not the end of the file", what);
    if (*lx->at == '\n' || *lx->at == '\r' || *lx->at == '#')
        return toml_lexer_fail(lx, lx->line, "expected %s, not the end of the line", what);
    uint32_t code;
    size_t size = str_utf8_next(lx->at, left, &code);
    return toml_lexer_fail(lx, lx->line, "expected %s, not '%.*s'", what, (int)size, lx->at);
}

static int check_bytes(struct toml_lexer *lx)
{
    int line = 1;
    for (const char *at = lx->at; at < lx->end;) {
        uint32_t code;
        size_t size = str_utf8_next(at, (size_t)(lx->end - at), &code);
        if (size == 0)
            return toml_lexer_fail(lx, line, "byte 0x%02x is not UTF-8", (unsigned char)*at);
        bool line_end = code == '\r' && at + 1 < lx->end && at[1] == '\n';
        if ((code < 0x20 && code != '\t' && code != '\n' && !line_end) || code == 0x7f)
            return toml_lexer_fail(lx, line, "control character 0x%02x is not allowed",
                                   (unsigned int)code);
        line += code == '\n';
        at += size;
    }
    return 0;
}

int toml_lexer_init(struct toml_lexer *lx, const char *name, const char *text, size_t length,
                    struct error *err)
{
    *lx =
        (struct toml_lexer){.name = name, .at = text, .end = text + length, .line = 1, .err = err};
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        lx->at += 3;
    return check_bytes(lx);
}

char toml_lexer_peek(const struct toml_lexer *lx, size_t ahead)
{
    return ahead < (size_t)(lx->end - lx->at) ? lx->at[ahead] : '\0';
}

bool toml_lexer_accept(struct toml_lexer *lx, char c)
{
    if (toml_lexer_peek(lx, 0) != c)
        return false;
    lx->at++;
    return true;
}

int toml_lexer_expect(struct toml_lexer *lx, char c, const char *where)
{
    if (toml_lexer_accept(lx, c))
        return 0;
    char what[64];
    snprintf(what, sizeof(what), "'%c' %s", c, where);
    return toml_lexer_fail_expected(lx, what);
}

/* How many of the next characters are in `set`. */
static size_t span(const struct toml_lexer *lx, const char *set)
{
    size_t length = 0;
    for (char c; (c = toml_lexer_peek(lx, length)) != '\0' && strchr(set, c) != NULL;)
        length++;
    return length;
}

void toml_lexer_skip_blanks(struct toml_lexer *lx)
{
    lx->at += span(lx, " \t");
}

static void skip_comment(struct toml_lexer *lx)
{
    if (toml_lexer_peek(lx, 0) != '#')
        return;
    const char *newline = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
    lx->at = newline != NULL ? newline : lx->end;
}

static bool accept_line_end(struct toml_lexer *lx)
{
    toml_lexer_accept(lx, '\r');
    if (!toml_lexer_accept(lx, '\n'))
        return false;
    lx->line++;
    return true;
}

void toml_lexer_skip_lines(struct toml_lexer *lx)
{
    do {
        toml_lexer_skip_blanks(lx);
        skip_comment(lx);
    } while (accept_line_end(lx));
}

int toml_lexer_end_line(struct toml_lexer *lx)
{
    toml_lexer_skip_blanks(lx);
    skip_comment(lx);
    if (lx->at == lx->end || accept_line_end(lx))
        return 0;
    return toml_lexer_fail_expected(lx, "the end of the line");
}

/* Strings */

static void add_utf8(struct buf *buf, uint32_t code)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    buf_add_char(buf, (char)(lead[size] | code >> (6 * (size - 1))));
    for (size_t i = size - 1; i > 0; i--)
        buf_add_char(buf, (char)(0x80 | (code >> (6 * (i - 1)) & 0x3f)));
}

/* \uXXXX or \UXXXXXXXX; the current character is the first digit. */
static int read_code_point(struct toml_lexer *lx, size_t digits, struct buf *buf)
{
    char text[9] = "";
    for (size_t i = 0; i < digits; i++) {
        text[i] = toml_lexer_peek(lx, i);
        if (text[i] == '\0' || strchr(HEX_DIGITS, text[i]) == NULL)
            return toml_lexer_fail(lx, lx->line, "a \\%c escape needs %zu hexadecimal digits",
                                   digits == 4 ? 'u' : 'U', digits);
    }
    uint32_t code = (uint32_t)strtoul(text, NULL, 16);
    if (code == 0)
        return toml_lexer_fail(lx, lx->line, "the character U+0000 is not allowed");
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return toml_lexer_fail(lx, lx->line, "U+%s is not a character", text);
    lx->at += digits;
    add_utf8(buf, code);
    return 0;
}

/* A backslash at the end of a line removes the line end and all blanks up to the next text. */
static bool accept_line_continuation(struct toml_lexer *lx)
{
    size_t blanks = span(lx, " \t");
    if (toml_lexer_peek(lx, blanks) != '\n' && toml_lexer_peek(lx, blanks) != '\r')
        return false;
    do
        toml_lexer_skip_blanks(lx);
    while (accept_line_end(lx));
    return true;
}

/* The current character is the one behind the backslash. */
static int read_escape(struct toml_lexer *lx, bool multi_line, struct buf *buf)
{
    static const char names[] = "btnfr\"\\";
    static const char values[] = "\b\t\n\f\r\"\\";
    if (multi_line && accept_line_continuation(lx))
        return 0;
    char c = toml_lexer_peek(lx, 0);
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    if (name != NULL) {
        lx->at++;
        buf_add_char(buf, values[name - names]);
        return 0;
    }
    if (c == 'u' || c == 'U') {
        lx->at++;
        return read_code_point(lx, c == 'u' ? 4 : 8, buf);
    }
    return toml_lexer_fail_expected(
        lx, "one of b, t, n, f, r, \", \\, u, U after '\\' (a string in '...' takes it as it is)");
}

static int read_single_line(struct toml_lexer *lx, char quote, struct buf *buf)
{
    lx->at++;
    while (!toml_lexer_accept(lx, quote)) {
        char c = toml_lexer_peek(lx, 0);
        if (c == '\0' || c == '\n' || c == '\r')
            return toml_lexer_fail(lx, lx->line, "string is not closed with %c on its line", quote);
        lx->at++;
        if (c == '\\' && quote == '"') {
            int r = read_escape(lx, false, buf);
            if (r < 0)
                return r;
        } else {
            buf_add_char(buf, c);
        }
    }
    return 0;
}

/* Up to two quotes may stand right before the closing three. */
static bool accept_closing(struct toml_lexer *lx, char quote, struct buf *buf)
{
    const char set[] = {quote, '\0'};
    size_t quotes = MIN(span(lx, set), (size_t)5);
    if (quotes < 3)
        return false;
    lx->at += quotes;
    buf_add(buf, set, quotes > 3);
    buf_add(buf, set, quotes > 4);
    return true;
}

static int read_multi_line(struct toml_lexer *lx, char quote, struct buf *buf)
{
    int first_line = lx->line;
    lx->at += 3;
    accept_line_end(lx); /* one right after the opening is not part of the string */
    while (!accept_closing(lx, quote, buf)) {
        if (lx->at == lx->end)
            return toml_lexer_fail(lx, first_line, "string is not closed with %c%c%c", quote, quote,
                                   quote);
        if (accept_line_end(lx)) {
            buf_add_char(buf, '\n');
            continue;
        }
        char c = *lx->at++;
        if (c == '\\' && quote == '"') {
            int r = read_escape(lx, true, buf);
            if (r < 0)
                return r;
        } else {
            buf_add_char(buf, c);
        }
    }
    return 0;
}

/* Text is never longer than its source, so adding to a buffer of this size does not fail. */
static int read_string(struct toml_lexer *lx, bool multi_line_allowed, char **ret)
{
    char quote = toml_lexer_peek(lx, 0);
    bool multi_line =
        multi_line_allowed && toml_lexer_peek(lx, 1) == quote && toml_lexer_peek(lx, 2) == quote;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, TOML_MAX_BYTES);
    int r = multi_line ? read_multi_line(lx, quote, &buf) : read_single_line(lx, quote, &buf);
    if (r == 0)
        *ret = buf_take(&buf);
    return r;
}

int toml_lexer_string(struct toml_lexer *lx, char **ret)
{
    return read_string(lx, true, ret);
}

int toml_lexer_key(struct toml_lexer *lx, char **ret)
{
    char c = toml_lexer_peek(lx, 0);
    if (c == '"' || c == '\'')
        return read_string(lx, false, ret);
    size_t length = span(lx, LETTERS DIGITS "_-");
    if (length == 0)
        return toml_lexer_fail_expected(lx, "a key");
    *ret = mem_dup_n(lx->at, length);
    lx->at += length;
    return 0;
}

/* Scalars. A token is taken whole and classified after, so that messages can show it. */

static int refuse_token(struct toml_lexer *lx, const char *token, const char *why)
{
    return toml_lexer_fail(lx, lx->line, "'%.*s%s' %s", SHOWN_MAX, token,
                           strlen(token) > SHOWN_MAX ? "..." : "", why);
}

/* Takes the underscores out; each must stand between two digits. */
static bool strip_underscores(char *token, const char *digits)
{
    char *out = token;
    for (const char *at = token; *at != '\0'; at++) {
        if (*at != '_')
            *out++ = *at;
        else if (at == token || strchr(digits, at[-1]) == NULL || at[1] == '\0' ||
                 strchr(digits, at[1]) == NULL)
            return false;
    }
    *out = '\0';
    return true;
}

static bool looks_like_date(const char *token)
{
    size_t digits = strspn(token, DIGITS);
    return (digits == 4 && token[4] == '-') || (digits == 2 && token[2] == ':');
}

/* 0x, 0o or 0b, without sign. */
static int read_prefixed(struct toml_lexer *lx, char *token, int64_t *ret)
{
    int base = token[1] == 'x' ? 16 : token[1] == 'o' ? 8 : 2;
    const char *allowed = base == 16 ? HEX_DIGITS : base == 8 ? "01234567" : "01";
    if (token[2] == '\0' || !strip_underscores(token, HEX_DIGITS) ||
        token[2 + strspn(token + 2, allowed)] != '\0')
        return refuse_token(lx, token, "is not a number");
    errno = 0;
    unsigned long long value = strtoull(token + 2, NULL, base);
    if (errno == ERANGE || value > INT64_MAX)
        return refuse_token(lx, token, "does not fit into 64 bits");
    *ret = (int64_t)value;
    return 0;
}

/* The grammar of decimal numbers; strtod() alone would take "1.", ".5", "0x1p3" and more. */
static bool is_decimal(const char *token, bool *ret_float)
{
    const char *at = token + (*token == '+' || *token == '-');
    size_t digits = strspn(at, DIGITS);
    if (digits == 0 || (digits > 1 && *at == '0'))
        return false;
    at += digits;
    *ret_float = *at != '\0';
    if (*at == '.') {
        digits = strspn(++at, DIGITS);
        if (digits == 0)
            return false;
        at += digits;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        digits = strspn(at, DIGITS);
        if (digits == 0)
            return false;
        at += digits;
    }
    return *at == '\0';
}

static int read_decimal(struct toml_lexer *lx, char *token, struct toml_scalar *ret)
{
    bool is_float;
    if (!strip_underscores(token, DIGITS) || !is_decimal(token, &is_float)) {
        if (strspn(token + (*token == '+' || *token == '-'), DIGITS "_") == 0)
            return refuse_token(lx, token, "is not a value; strings need quotes");
        return refuse_token(lx, token, "is not a number");
    }
    errno = 0;
    if (!is_float) {
        *ret = (struct toml_scalar){.type = TOML_INTEGER, .integer = strtoll(token, NULL, 10)};
        return errno == ERANGE ? refuse_token(lx, token, "does not fit into 64 bits") : 0;
    }
    /* The decimal point of strtod() is the locale's; our programs stay in the "C" locale. */
    *ret = (struct toml_scalar){.type = TOML_FLOAT, .number = strtod(token, NULL)};
    return isinf(ret->number) ? refuse_token(lx, token, "is too large for a float") : 0;
}

static bool read_word(const char *token, struct toml_scalar *ret)
{
    bool is_true = strcmp(token, "true") == 0;
    if (is_true || strcmp(token, "false") == 0) {
        *ret = (struct toml_scalar){.type = TOML_BOOLEAN, .boolean = is_true};
        return true;
    }
    double sign = *token == '-' ? -1.0 : 1.0;
    const char *word = token + (*token == '+' || *token == '-');
    bool infinite = strcmp(word, "inf") == 0;
    if (!infinite && strcmp(word, "nan") != 0)
        return false;
    double magnitude = infinite ? (double)INFINITY : (double)NAN;
    *ret = (struct toml_scalar){.type = TOML_FLOAT, .number = copysign(magnitude, sign)};
    return true;
}

int toml_lexer_scalar(struct toml_lexer *lx, struct toml_scalar *ret)
{
    size_t length = span(lx, LETTERS DIGITS "_+-.:");
    if (length == 0)
        return toml_lexer_fail_expected(lx, "a value");
    AUTO_FREE char *token = mem_dup_n(lx->at, length);
    if (looks_like_date(token))
        return refuse_token(lx, token, "is a date or time, which is not supported here; quote it");
    if (!read_word(token, ret)) {
        bool prefixed = token[0] == '0' && token[1] != '\0' && strchr("xob", token[1]) != NULL;
        ret->type = TOML_INTEGER;
        int r = prefixed ? read_prefixed(lx, token, &ret->integer) : read_decimal(lx, token, ret);
        if (r < 0)
            return r;
    }
    lx->at += length;
    return 0;
}
