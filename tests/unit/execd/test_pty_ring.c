#include "execd/pty_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The byte of every offset is known, so what comes back can be checked without a copy. */
static char byte_at(uint64_t offset)
{
    return (char)(offset * 7 + offset / 251);
}

static void add(struct execd_pty_ring *ring, size_t length)
{
    AUTO_FREE char *bytes = mem_alloc(length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(ring->end + i);
    execd_pty_ring_add(ring, bytes, length);
}

static void check(const struct execd_pty_ring *ring, uint64_t since, uint64_t first)
{
    uv_buf_t pieces[2];
    uint64_t at = execd_pty_ring_get(ring, since, pieces);
    assert_int_equal(at, first);
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < pieces[i].len; j++, at++)
            assert_int_equal(pieces[i].base[j], byte_at(at));
    }
    assert_int_equal(at, ring->end);
}

static void test_empty(void **state)
{
    (void)state;
    struct execd_pty_ring ring;
    execd_pty_ring_init(&ring);
    execd_pty_ring_add(&ring, "", 0);
    check(&ring, 0, 0);
    check(&ring, 5, 0);
    assert_int_equal(ring.capacity, 0);
    execd_pty_ring_done(&ring);
}

static void test_since(void **state)
{
    (void)state;
    struct execd_pty_ring ring;
    execd_pty_ring_init(&ring);
    add(&ring, 100);
    check(&ring, 0, 0);
    check(&ring, 40, 40);
    check(&ring, 100, 100);
    check(&ring, 101, 100);
    check(&ring, UINT64_MAX, 100);
    execd_pty_ring_done(&ring);
}

/* Memory comes as it is needed, and the oldest bytes go when there is no more to be had. */
static void test_growth(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 1000, 4095, 4096, 5000, 100000};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct execd_pty_ring ring;
        execd_pty_ring_init(&ring);
        while (ring.end < 2 * EXECD_PTY_RING_MAX + 3) {
            add(&ring, steps[i]);
            assert_true(ring.capacity <= EXECD_PTY_RING_MAX);
            assert_true(ring.capacity < 2 * ring.length || ring.capacity == 4096);
            if (steps[i] < 1000 && ring.end % 65521 != 0)
                continue;
            uint64_t oldest = ring.end < EXECD_PTY_RING_MAX ? 0 : ring.end - EXECD_PTY_RING_MAX;
            check(&ring, 0, oldest);
            check(&ring, ring.end - 1, ring.end - 1);
        }
        execd_pty_ring_done(&ring);
    }
}

static void test_more_than_fits_at_once(void **state)
{
    (void)state;
    struct execd_pty_ring ring;
    execd_pty_ring_init(&ring);
    add(&ring, 10);
    add(&ring, 3 * EXECD_PTY_RING_MAX + 7);
    assert_int_equal(ring.length, EXECD_PTY_RING_MAX);
    check(&ring, 0, ring.end - EXECD_PTY_RING_MAX);
    execd_pty_ring_done(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_since),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_more_than_fits_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
