#include "http/json_string.h"

#include <stdbool.h>
#include <string.h>

/* Second bytes allowed after a lead byte (RFC 3629): this is what excludes overlong forms,
 * surrogates and what is above U+10FFFF. */
static bool is_second_byte(unsigned char lead, unsigned char second)
{
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high;
}

/* Length of the sequence at `at` when it is well formed (and true), else of its maximal subpart:
 * the bytes that together are replaced by one U+FFFD. */
static bool utf8_sequence(const char *at, size_t left, size_t *ret_length)
{
    unsigned char lead = (unsigned char)at[0];
    size_t wanted = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    size_t have = 1;

    while (have < wanted && have < left) {
        unsigned char next = (unsigned char)at[have];
        if (have == 1 ? !is_second_byte(lead, next) : (next & 0xc0) != 0x80)
            break;
        have++;
    }
    *ret_length = have;
    return wanted > 1 && have == wanted;
}

/* The escape of a control character, quote or backslash. */
static size_t escape_ascii(char c, char ret[HTTP_JSON_ESCAPED_MAX])
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\r\t\b\f";
    static const char to[] = "\"\\nrtbf";
    const char *found = c == '\0' ? NULL : strchr(from, c);

    ret[0] = '\\';
    if (found != NULL) {
        ret[1] = to[found - from];
        return 2;
    }
    ret[1] = 'u';
    ret[2] = '0';
    ret[3] = '0';
    ret[4] = hex[(unsigned char)c >> 4];
    ret[5] = hex[(unsigned char)c & 15];
    return 6;
}

/* For a well-formed sequence that must not stand as it is; NULL for all others. */
static const char *separator_escape(const char *at, size_t length)
{
    if (length == 2 && memcmp(at, "\xc2\x85", 2) == 0)
        return "\\u0085";
    if (length == 3 && memcmp(at, "\xe2\x80\xa8", 3) == 0)
        return "\\u2028";
    if (length == 3 && memcmp(at, "\xe2\x80\xa9", 3) == 0)
        return "\\u2029";
    return NULL;
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* The length of what needs no escape at the start of `text`. When that is not all, *ret_skip bytes
 * after it are to be replaced by *ret_escape (6 bytes of room). */
static size_t plain_run(const char *text, size_t length, size_t *ret_skip, char *ret_escape,
                        size_t *ret_escape_length)
{
    size_t i = 0;
    while (i < length) {
        if (is_plain(text[i])) {
            i++;
            continue;
        }
        if ((unsigned char)text[i] < 0x80) {
            *ret_skip = 1;
            *ret_escape_length = escape_ascii(text[i], ret_escape);
            return i;
        }
        size_t sequence;
        bool valid = utf8_sequence(text + i, length - i, &sequence);
        const char *escape = valid ? separator_escape(text + i, sequence) : "\xef\xbf\xbd";
        if (escape != NULL) {
            *ret_skip = sequence;
            *ret_escape_length = strlen(escape);
            memcpy(ret_escape, escape, *ret_escape_length);
            return i;
        }
        i += sequence;
    }
    return i;
}

int http_json_add_string(struct buf *out, const char *text, size_t length)
{
    int r = buf_add_char(out, '"');
    while (r == 0 && length > 0) {
        char escape[HTTP_JSON_ESCAPED_MAX];
        size_t escape_length = 0;
        size_t skip = 0;
        size_t run = plain_run(text, length, &skip, escape, &escape_length);
        r = buf_add(out, text, run);
        if (r == 0)
            r = buf_add(out, escape, escape_length);
        text += run + skip;
        length -= run + skip;
    }
    return r < 0 ? r : buf_add_char(out, '"');
}
