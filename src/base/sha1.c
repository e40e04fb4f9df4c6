#include "base/sha1.h"

#include <string.h>

#define BLOCK 64

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default:
        return (b ^ c ^ d) + 0xca62c1d6;
    }
}

static void add_block(uint32_t state[5], const uint8_t block[BLOCK])
{
    uint32_t words[80];
    for (size_t i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    uint32_t a = state[0];
    uint32_t b = state[1];
    uint32_t c = state[2];
    uint32_t d = state[3];
    uint32_t e = state[4];
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next = rotate(a, 5) + mix(i, b, c, d) + e + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1(const void *bytes, size_t length, uint8_t ret[SHA1_LEN])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const uint8_t *at = bytes;
    size_t left = length;
    for (; left >= BLOCK; at += BLOCK, left -= BLOCK)
        add_block(state, at);
    /* The rest, a one bit, zeros, and the length in bits in the last eight bytes. */
    uint8_t tail[2 * BLOCK] = {0};
    if (left > 0)
        memcpy(tail, at, left);
    tail[left] = 0x80;
    size_t size = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint64_t bits = (uint64_t)length * 8;
    for (size_t i = 0; i < 8; i++)
        tail[size - 1 - i] = (uint8_t)(bits >> 8 * i);
    for (size_t i = 0; i < size; i += BLOCK)
        add_block(state, tail + i);
    for (size_t i = 0; i < SHA1_LEN; i++)
        ret[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
