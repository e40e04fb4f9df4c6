#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/process.h"

static void test_start_time(void **state)
{
    (void)state;
    uint64_t ticks = 0;
    assert_int_equal(
        process_parse_start_time("7 (a) b) 9) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "
                                 "17 18 4242 20 21",
                                 &ticks),
        0);
    assert_int_equal(ticks, 4242);
    assert_int_equal(process_parse_start_time("7 (a) S 1 2 3", &ticks), -EINVAL);
    assert_int_equal(process_parse_start_time("", &ticks), -EINVAL);
    assert_int_equal(
        process_parse_start_time("7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x", &ticks),
        -EINVAL);
}

static void test_self(void **state)
{
    (void)state;
    uint64_t first, second;
    char boot[PROCESS_BOOT_ID_LEN + 1];
    int pidfd = -1;
    assert_int_equal(process_start_time(getpid(), &first), 0);
    assert_int_equal(process_start_time(getpid(), &second), 0);
    assert_true(first > 0 && first == second);
    assert_int_equal(process_boot_id(boot), 0);
    assert_int_equal(boot[8], '-');
    assert_int_equal(process_open(getpid(), &pidfd), 0);
    assert_int_equal(process_signal(pidfd, 0), 0);
    close(pidfd);
}

/* Run in a child, which answers with its exit status: 0 is right. */
static int in_child(int (*check)(void))
{
    int pidfd = -1;
    pid_t pid = process_clone(0, -1, &pidfd);
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(check());
    siginfo_t info;
    assert_int_equal(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED), 0);
    assert_int_equal(process_signal(pidfd, SIGKILL), -ESRCH);
    close(pidfd);
    return info.si_code == CLD_EXITED ? info.si_status : 1000 + info.si_status;
}

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir == NULL)
        return -1;
    closedir(dir);
    return count - 3; /* ".", ".." and the directory itself */
}

/* The ones to keep sit on each other's target numbers. */
static int check_settle(void)
{
    int read_end_and_more[2];
    signal(SIGUSR1, SIG_IGN);
    close_range(3, ~0u, 0);
    if (pipe2(read_end_and_more, 0) < 0) /* 3 and 4 */
        return 1;
    if (write(4, "x", 1) != 1 || open("/dev/null", O_RDONLY) != 5)
        return 2;
    const int keep[] = {4, 3, -1};
    if (process_settle(keep, 3) < 0)
        return 3;
    char c = 0;
    if (read(4, &c, 1) != 1 || c != 'x' || write(3, "y", 1) != 1)
        return 4;
    if (fcntl(5, F_GETFD) >= 0 || fcntl(3, F_GETFD) != FD_CLOEXEC)
        return 5;
    if (count_fds() != 5)
        return 6;
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    return action.sa_handler == SIG_DFL ? 0 : 7;
}

static void test_settle(void **state)
{
    (void)state;
    assert_int_equal(in_child(check_settle), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_time),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_settle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
