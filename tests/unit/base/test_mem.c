#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void test_alloc_is_zeroed(void **state)
{
    (void)state;
    AUTO_FREE char *bytes = mem_alloc_array(100, 10);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(bytes[i], 0);
    AUTO_FREE void *nothing = mem_alloc(0);
    assert_non_null(nothing);
    AUTO_FREE int *numbers = mem_resize_array(NULL, 2, sizeof(int));
    numbers[1] = 7;
    numbers = mem_resize_array(numbers, 1000, sizeof(int));
    assert_int_equal(numbers[1], 7);
}

/* Runs in a child: aborting is the contract. */
static int signal_of_child(void (*function)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        function();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void overflow_resize(void)
{
    /* volatile, so that the compiler does not see the overflow coming and refuse to build it. */
    volatile size_t count = SIZE_MAX / 2;
    free(mem_resize_array(NULL, count, 4));
}

static void overflow_alloc(void)
{
    volatile size_t count = SIZE_MAX / 2 + 2; /* 2 * count wraps to 2 */
    free(mem_alloc_array(count, 2));
}

static void test_overflow_aborts(void **state)
{
    (void)state;
    assert_int_equal(signal_of_child(overflow_resize), SIGABRT);
    assert_int_equal(signal_of_child(overflow_alloc), SIGABRT);
}

static void test_dup(void **state)
{
    (void)state;
    AUTO_FREE char *copy = mem_dup("abc");
    assert_string_equal(copy, "abc");
    assert_null(mem_dup(NULL));
    AUTO_FREE char *part = mem_dup_n("abcdef", 2);
    assert_string_equal(part, "ab");
    AUTO_FREE char *none = mem_dup_n(NULL, 0);
    assert_string_equal(none, "");
    AUTO_FREE char *text = mem_printf("%d-%s", 5, "x");
    assert_string_equal(text, "5-x");
}

static void test_fd_close(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    errno = ENOTTY;
    int number = fd;
    fd = fd_close(fd);
    assert_int_equal(fd, -1);
    assert_int_equal(errno, ENOTTY);
    assert_int_equal(fcntl(number, F_GETFD), -1);
    assert_int_equal(fd_close(-1), -1);
    {
        AUTO_CLOSE int scoped = open("/dev/null", O_RDONLY | O_CLOEXEC);
        number = scoped;
    }
    assert_int_equal(fcntl(number, F_GETFD), -1);
}

static void test_take(void **state)
{
    (void)state;
    char *owner = mem_dup("x");
    AUTO_FREE char *taken = TAKE_PTR(owner);
    assert_null(owner);
    assert_string_equal(taken, "x");
    int fd = 5;
    assert_int_equal(TAKE_FD(fd), 5);
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_is_zeroed),
        cmocka_unit_test(test_overflow_aborts),
        cmocka_unit_test(test_dup),
        cmocka_unit_test(test_fd_close),
        cmocka_unit_test(test_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
