#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

static void test_empty_owns_nothing(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 10);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf.capacity, 0);
    assert_int_equal(buf_add(&buf, NULL, 0), 0);
    assert_int_equal(buf.capacity, 0);
    buf_clear(&buf);
    buf_consume(&buf, 0);
    buf_commit(&buf, 0);
    AUTO_FREE char *taken = buf_take(&buf);
    assert_string_equal(taken, "");
    buf_done(&buf);
}

static void test_add(void **state)
{
    (void)state;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 1000);
    assert_int_equal(buf_add_str(&buf, "ab"), 0);
    assert_int_equal(buf_add_char(&buf, 'c'), 0);
    assert_int_equal(buf_printf(&buf, "%04d", 42), 0);
    assert_int_equal(buf_add(&buf, "x\0y", 3), 0);
    assert_int_equal(buf.length, 10);
    assert_memory_equal(buf.data, "abc0042x\0y", 11);
}

static void test_max_is_exact(void **state)
{
    (void)state;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 5);
    assert_int_equal(buf_add_str(&buf, "123456"), -EMSGSIZE);
    assert_int_equal(buf.length, 0);
    assert_int_equal(buf_add_str(&buf, "1234"), 0);
    assert_int_equal(buf_printf(&buf, "56"), -EMSGSIZE);
    assert_int_equal(buf_reserve(&buf, 2), -EMSGSIZE);
    assert_string_equal(buf.data, "1234");
    assert_int_equal(buf_printf(&buf, "5"), 0);
    assert_int_equal(buf_add_char(&buf, '6'), -EMSGSIZE);
    assert_string_equal(buf.data, "12345");
    assert_true(buf.capacity <= 6);
    assert_int_equal(buf_reserve(&buf, SIZE_MAX), -EMSGSIZE);
}

static void test_unlimited_does_not_overflow(void **state)
{
    (void)state;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, SIZE_MAX);
    assert_int_equal(buf_reserve(&buf, SIZE_MAX), -EMSGSIZE);
    assert_int_equal(buf_add_char(&buf, 'a'), 0);
    assert_int_equal(buf_reserve(&buf, SIZE_MAX - 1), -EMSGSIZE);
    assert_string_equal(buf.data, "a");
}

static void test_growth_keeps_content(void **state)
{
    (void)state;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_add_char(&buf, (char)('a' + i % 26)), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
    assert_int_equal(buf.data[100000], '\0');
}

static void test_reserve_commit(void **state)
{
    (void)state;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 300);
    assert_int_equal(buf_reserve(&buf, 300), 0);
    memset(buf.data + buf.length, 'x', 300);
    buf_commit(&buf, 200);
    assert_int_equal(buf.length, 200);
    assert_int_equal(buf.data[200], '\0');
    assert_int_equal(strlen(buf.data), 200);
}

static void test_consume_clear_take(void **state)
{
    (void)state;
    struct buf CLEANUP(buf_done) buf;
    buf_init(&buf, 100);
    buf_add_str(&buf, "hello world");
    buf_consume(&buf, 6);
    assert_string_equal(buf.data, "world");
    buf_consume(&buf, 5);
    assert_string_equal(buf.data, "");
    buf_add_str(&buf, "again");
    size_t capacity = buf.capacity;
    buf_clear(&buf);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf.capacity, capacity);
    buf_add_str(&buf, "taken");
    AUTO_FREE char *taken = buf_take(&buf);
    assert_string_equal(taken, "taken");
    assert_int_equal(buf.length, 0);
    assert_int_equal(buf.max, 100);
    buf_add_str(&buf, "usable");
    assert_string_equal(buf.data, "usable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_owns_nothing),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_max_is_exact),
        cmocka_unit_test(test_unlimited_does_not_overflow),
        cmocka_unit_test(test_growth_keeps_content),
        cmocka_unit_test(test_reserve_commit),
        cmocka_unit_test(test_consume_clear_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
