#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/id.h"
#include "base/macros.h"

static void test_uuid(void **state)
{
    (void)state;
    char first[ID_UUID_LEN + 1], second[ID_UUID_LEN + 1];
    for (int i = 0; i < 1000; i++) {
        id_new_uuid(first);
        id_new_uuid(second);
        assert_int_equal(strlen(first), ID_UUID_LEN);
        assert_true(id_is_uuid(first));
        assert_string_not_equal(first, second);
    }
}

static void test_is_uuid(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "123e4567-e89b-42d3-a456-42661417400",   /* short */
        "123e4567-e89b-42d3-a456-4266141740000", /* long */
        "123E4567-e89b-42d3-a456-426614174000",  /* upper case */
        "123e4567-e89b-12d3-a456-426614174000",  /* version 1 */
        "123e4567-e89b-42d3-c456-426614174000",  /* variant */
        "123e4567-e89b-42d3-7456-426614174000",  /* variant */
        "123e4567ae89b-42d3-a456-426614174000",  /* dash missing */
        "123e4567-e89b-42d3-a456-42661417400g",
        "../../../../../../../../../../etc/pw",
    };
    assert_true(id_is_uuid("123e4567-e89b-42d3-a456-426614174000"));
    assert_false(id_is_uuid(NULL));
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(id_is_uuid(wrong[i]));
}

static void test_hex_and_token(void **state)
{
    (void)state;
    char hex[ID_HEX_LEN + 1], token[ID_TOKEN_LEN + 1], other[ID_TOKEN_LEN + 1];
    id_new_hex(hex);
    assert_int_equal(strspn(hex, "0123456789abcdef"), ID_HEX_LEN);
    assert_int_equal(strlen(hex), ID_HEX_LEN);

    /* Every digit must turn up, and the last character carries only four bits. */
    bool seen[256] = {false};
    int distinct = 0;
    for (int i = 0; i < 2000; i++) {
        id_new_token(token);
        id_new_token(other);
        assert_string_not_equal(token, other);
        assert_int_equal(strlen(token), ID_TOKEN_LEN);
        assert_non_null(strchr("AEIMQUYcgkosw048", token[ID_TOKEN_LEN - 1]));
        for (size_t k = 0; k < ID_TOKEN_LEN; k++) {
            distinct += !seen[(unsigned char)token[k]];
            seen[(unsigned char)token[k]] = true;
        }
    }
    assert_int_equal(distinct, 64);
    assert_true(seen['-'] && seen['_'] && !seen['+'] && !seen['/'] && !seen['=']);
}

static void test_random_fills_all(void **state)
{
    (void)state;
    uint8_t bytes[1000] = {0};
    id_random(bytes, sizeof(bytes));
    int zeros = 0;
    for (size_t i = 900; i < sizeof(bytes); i++)
        zeros += bytes[i] == 0;
    assert_true(zeros < 20);
    id_random(bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uuid),
        cmocka_unit_test(test_is_uuid),
        cmocka_unit_test(test_hex_and_token),
        cmocka_unit_test(test_random_fills_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
