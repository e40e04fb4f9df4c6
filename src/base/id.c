#include "base/id.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

static const char hex_digits[] = "0123456789abcdef";

void id_random(void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t n = getrandom(at, length, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            /* Going on with predictable secrets would be worse than not going on. */
            abort();
        }
        at += n;
        length -= (size_t)n;
    }
}

void id_new_uuid(char ret[ID_UUID_LEN + 1])
{
    uint8_t bytes[16];
    id_random(bytes, sizeof(bytes));
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40); /* version 4: random */
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80); /* variant of RFC 9562 */
    char *out = ret;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = hex_digits[bytes[i] >> 4];
        *out++ = hex_digits[bytes[i] & 15];
    }
    *out = '\0';
}

void id_new_hex(char ret[ID_HEX_LEN + 1])
{
    uint8_t bytes[ID_HEX_LEN / 2];
    id_random(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        ret[2 * i] = hex_digits[bytes[i] >> 4];
        ret[2 * i + 1] = hex_digits[bytes[i] & 15];
    }
    ret[ID_HEX_LEN] = '\0';
}

void id_new_token(char ret[ID_TOKEN_LEN + 1])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bytes[32];
    id_random(bytes, sizeof(bytes));
    uint32_t bits = 0;
    unsigned int held = 0;
    size_t length = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bits = bits << 8 | bytes[i];
        held += 8;
        while (held >= 6) {
            held -= 6;
            ret[length++] = digits[bits >> held & 63];
        }
    }
    ret[length++] = digits[bits << (6 - held) & 63]; /* 256 = 42 * 6 + 4: four bits are left */
    ret[length] = '\0';
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool id_is_uuid(const char *text)
{
    if (text == NULL)
        return false;
    for (size_t i = 0; i < ID_UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !is_hex(text[i]))
            return false; /* also at a NUL: nothing is read behind it */
    }
    char variant = text[19];
    return text[ID_UUID_LEN] == '\0' && text[14] == '4' &&
           (variant == '8' || variant == '9' || variant == 'a' || variant == 'b');
}
