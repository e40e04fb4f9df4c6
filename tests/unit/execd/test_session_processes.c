/* Lines of /proc/<pid>/stat, which processes a run has started, and real ones. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/session_processes.h"

static void test_parse(void **state)
{
    (void)state;
    struct execd_session_process process;
    assert_true(
        execd_session_process_parse("12 (sh) S 34 12 56 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 "
                                    "0 789 100 200 18446744073709551615\n",
                                    &process));
    assert_int_equal(process.pid, 12);
    assert_int_equal(process.parent, 34);
    assert_int_equal(process.session, 56);
    assert_int_equal(process.start_ticks, 789);
    assert_false(process.dead);
    assert_true(
        execd_session_process_parse("7 (a) S 1 (b) ) Z 2 3 4 0 -1 5 1 2 3 4 5 6 7 8 20 0 1 0 "
                                    "99 1 2\n",
                                    &process));
    assert_int_equal(process.parent, 2);
    assert_int_equal(process.session, 4);
    assert_int_equal(process.start_ticks, 99);
    assert_true(process.dead);
    static const char *const bad[] = {"",
                                      "x",
                                      "12",
                                      "12 sh",
                                      "12 (sh",
                                      "12 (sh)",
                                      "12 (sh) S",
                                      "0 (sh) S 1 2 3",
                                      "-5 (sh) S 1 2 3",
                                      "12 (sh) S 1 2 3 4"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(execd_session_process_parse(bad[i], &process));
}

static void test_what_a_run_has_started(void **state)
{
    (void)state;
    enum { SHELL = 100 };
    static const struct execd_session_process processes[] = {
        {.pid = 1, .session = 1, .start_ticks = 1},
        {.pid = SHELL, .parent = 1, .session = SHELL, .start_ticks = 10},
        {.pid = 101, .parent = SHELL, .session = SHELL, .start_ticks = 20}, /* an old job ... */
        {.pid = 102, .parent = 101, .session = SHELL, .start_ticks = 90},   /* ... and its child */
        {.pid = 103, .parent = SHELL, .session = SHELL, .start_ticks = 50}, /* as old as the run, */
        {.pid = 104, .parent = SHELL, .session = SHELL, .start_ticks = 50}, /* but this was there */
        {.pid = 105, .parent = 103, .session = SHELL, .start_ticks = 60},
        {.pid = 106, .parent = 1, .session = SHELL, .start_ticks = 30}, /* orphans */
        {.pid = 107, .parent = 1, .session = SHELL, .start_ticks = 50},
        {.pid = 108, .parent = SHELL, .session = 108, .start_ticks = 70}, /* has left */
        {.pid = 109, .parent = 109, .session = SHELL, .start_ticks = 70}, /* cannot be */
        {.pid = 110, .parent = 1, .session = SHELL, .start_ticks = 51},
    };
    static const bool expected[] = {false, false, false, false, true, false,
                                    true,  false, false, false, true, true};
    struct execd_session_moment moment = {.ticks = 50, .children = {104}, .child_count = 1};
    for (size_t i = 0; i < ARRAY_LEN(processes); i++)
        assert_int_equal(
            execd_session_process_is_since(processes, ARRAY_LEN(processes), i, SHELL, &moment),
            expected[i]);
}

/* A child that leads a session and has two children; it tells their pids. */
static pid_t start_leader(pid_t ret_children[2])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t leader = fork();
    if (leader == 0) {
        setsid();
        for (int i = 0; i < 2; i++) {
            pid_t child = fork();
            if (child == 0) {
                pause();
                _exit(0);
            }
            (void)!write(ends[1], &child, sizeof(child));
        }
        pause();
        _exit(0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(ends[0], &ret_children[i], sizeof(pid_t)), sizeof(pid_t));
    close(ends[0]);
    close(ends[1]);
    return leader;
}

static void test_real_ones(void **state)
{
    (void)state;
    pid_t children[2];
    pid_t leader = start_leader(children);
    struct execd_session_moment moment;
    execd_session_moment_take(&moment, leader);
    assert_int_equal(execd_session_processes_signal(leader, &moment, 0, 0), 0); /* all were there */
    assert_int_equal(execd_session_processes_signal(leader, NULL, 0, 0), 2);
    uint64_t later = execd_session_ticks_now() + 1;
    assert_int_equal(execd_session_processes_signal(leader, NULL, later, 0), 0);
    if (moment.child_count > 0) { /* this kernel tells */
        assert_int_equal(moment.child_count, 2);
        assert_int_equal(moment.children[0], children[0]);
        assert_int_equal(moment.children[1], children[1]);
    }
    struct execd_session_pasts pasts = {0};
    for (int i = 0; i < EXECD_SESSION_PASTS_MAX + 2; i++)
        execd_session_pasts_add(&pasts, 2147483647);
    assert_int_equal(pasts.count, EXECD_SESSION_PASTS_MAX);
    assert_int_equal(execd_session_pasts_signal(&pasts, 0), 0);
    kill(leader, SIGKILL);
    assert_int_equal(waitpid(leader, NULL, 0), leader);
    execd_session_pasts_add(&pasts, leader);
    assert_int_equal(execd_session_pasts_signal(&pasts, SIGKILL), 2);
    /* A session that is younger than the death of the shell is another one. */
    leader = start_leader(children);
    pasts = (struct execd_session_pasts){.items = {{.shell = leader, .died_ticks = 1}}, .count = 1};
    assert_int_equal(execd_session_pasts_signal(&pasts, SIGKILL), 0);
    assert_true(execd_session_processes_signal(leader, NULL, 0, SIGKILL) == 2);
    kill(leader, SIGKILL);
    assert_int_equal(waitpid(leader, NULL, 0), leader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_what_a_run_has_started),
        cmocka_unit_test(test_real_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
