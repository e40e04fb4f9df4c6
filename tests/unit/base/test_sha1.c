#include "base/sha1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void check(const char *text, size_t length, const char *expected)
{
    uint8_t digest[SHA1_LEN];
    char hex[2 * SHA1_LEN + 1];
    sha1(text, length, digest);
    for (size_t i = 0; i < SHA1_LEN; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, expected);
}

static void test_known_answers(void **state)
{
    (void)state;
    check("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check(two, strlen(two), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    AUTO_FREE char *million = mem_alloc(1000000);
    memset(million, 'a', 1000000);
    check(million, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* Where the padding needs a block of its own, and where it just does not. */
static void test_lengths_around_a_block(void **state)
{
    (void)state;
    char text[128];
    memset(text, 'x', sizeof(text));
    check(text, 55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1");
    check(text, 56, "901305367c259952f4e7af8323f480d59f81335b");
    check(text, 63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec");
    check(text, 64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163");
    check(text, 65, "78c741ddc482e4cdf8c474a0876347a0905b6233");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_lengths_around_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
