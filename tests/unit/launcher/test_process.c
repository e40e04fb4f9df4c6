#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static bool is_default(int signal_number)
{
    struct sigaction action;
    return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
}

/* The ones to keep sit on each other's target numbers; one is in its place, and not CLOEXEC. */
static int check_settle(void)
{
    int read_end_and_more[2];
    signal(SIGUSR1, SIG_IGN);
    close_range(3, ~0u, 0);
    if (pipe2(read_end_and_more, 0) < 0) /* 3 and 4 */
        return 1;
    if (write(4, "x", 1) != 1 || open("/dev/null", O_RDONLY) != 5 || dup(5) != 6 || dup(5) != 7)
        return 2;
    const int keep[] = {4, 3, -1, 6};
    if (process_settle(keep, 4) < 0)
        return 3;
    char c = 0;
    if (read(4, &c, 1) != 1 || c != 'x' || write(3, "y", 1) != 1)
        return 4;
    if (fcntl(5, F_GETFD) >= 0 || fcntl(3, F_GETFD) != FD_CLOEXEC ||
        fcntl(6, F_GETFD) != FD_CLOEXEC)
        return 5;
    if (count_fds() != 6)
        return 6;
    return is_default(SIGUSR1) ? 0 : 7;
}

static void test_settle(void **state)
{
    (void)state;
    assert_int_equal(in_child(check_settle), 0);
}

/* Round and round: each is where the next one shall be. */
static int check_keep(void)
{
    close_range(3, ~0u, 0);
    int size[4];
    for (int i = 0; i < 4; i++) {
        int fd = memfd_create("x", 0);
        size[i] = 100 + i;
        if (fd != 3 + i || ftruncate(fd, size[i]) < 0)
            return 1;
    }
    const int keep[] = {4, 5, 6, 3};
    if (process_keep(keep, 4) < 0 || count_fds() != 7)
        return 2;
    for (int i = 0; i < 4; i++) {
        struct stat st;
        if (fstat(3 + i, &st) < 0 || st.st_size != size[keep[i] - 3])
            return 3;
    }
    const int many[17] = {3};
    return process_keep(many, 17) == -E2BIG ? 0 : 4;
}

static void test_keep(void **state)
{
    (void)state;
    assert_int_equal(in_child(check_keep), 0);
}

static void ignore(int signal_number)
{
    (void)signal_number;
}

/* Also the last of all numbers. */
static int check_noted_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, ignore);
    signal(SIGRTMAX, SIG_IGN);
    process_note_signals();
    const int keep[] = {-1};
    if (process_settle(keep, 1) < 0)
        return 1;
    return is_default(SIGPIPE) && is_default(SIGHUP) && is_default(SIGRTMAX) ? 0 : 2;
}

static void test_noted_signals(void **state)
{
    (void)state;
    assert_int_equal(in_child(check_noted_signals), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_time),    cmocka_unit_test(test_self),
        cmocka_unit_test(test_settle),        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_noted_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
