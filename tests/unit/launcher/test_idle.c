/* The program that waits: executed for real. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "launcher/idle.h"

/* A process that has executed it: end of file on the pipe says so. */
static pid_t start(void)
{
    size_t length;
    const void *program = idle_program(&length);
    int file = memfd_create("tail", MFD_CLOEXEC);
    assert_int_equal(write(file, program, length), length);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static const char *const argv[] = {"tail", "-f", "/dev/null", NULL};
        static const char *const envp[] = {NULL};
        execveat(file, "", (char *const *)argv, (char *const *)envp, AT_EMPTY_PATH);
        _exit(write(ends[1], "x", 1) == 1 ? 126 : 127);
    }
    assert_true(pid > 0);
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    close(file);
    return pid;
}

static void it_waits_for_a_signal_and_ends(void **state)
{
    (void)state;
    pid_t pid = start();
    int status;
    struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(kill(pid, SIGCONT), 0); /* wakes it, and it goes on waiting */
    nanosleep(&moment, NULL);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void it_has_the_arguments(void **state)
{
    (void)state;
    pid_t pid = start();
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof(text));
    close(fd);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(n, sizeof("tail\0-f\0/dev/null"));
    assert_memory_equal(text, "tail\0-f\0/dev/null", sizeof("tail\0-f\0/dev/null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_for_a_signal_and_ends),
        cmocka_unit_test(it_has_the_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
