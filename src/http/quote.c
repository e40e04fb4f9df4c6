#include "http/quote.h"

#include <stdbool.h>
#include <string.h>

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

const char *http_quote(char *ret, size_t size, const char *bytes, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        size_t need = is_plain(c) ? 1 : 4;
        /* Room for this one, for the NUL and, unless it is the last, for the dots. */
        size_t reserve = i + 1 < length ? 4 : 1;
        if (used + need + reserve > size) {
            memcpy(ret + used, "...", 3);
            used += 3;
            break;
        }
        if (need == 1) {
            ret[used++] = (char)c;
        } else {
            ret[used++] = '\\';
            ret[used++] = 'x';
            ret[used++] = hex[c >> 4];
            ret[used++] = hex[c & 15];
        }
    }
    ret[used] = '\0';
    return ret;
}
