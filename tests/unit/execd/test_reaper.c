/* The reaper and the spawner together, on real processes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "execd/reaper.h"
#include "execd/spawn.h"

static int signals = -1;
static struct execd_reaper reaper;

static int set_up(void **state)
{
    (void)state;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -1 : 0;
}

struct owner {
    struct execd_child child;
    int report;
    int exits;
    struct execd_exit exit;
};

static void on_child_exit(void *ctx, struct execd_exit exit)
{
    struct owner *owner = ctx;
    assert_int_equal(owner->child.pid, 0);
    owner->exits++;
    owner->exit = exit;
}

static void start_as(struct owner *owner, const char *shell, const char *script, const char *cwd,
                     const struct execd_credentials *credentials)
{
    struct execd_programs programs;
    struct error err = ERROR_INIT;
    execd_programs_init(&programs);
    execd_programs_add(&programs, shell, EXECD_PATH_DEFAULT);
    char option[] = "-c";
    AUTO_FREE char *text = mem_dup(script);
    char *argv[] = {NULL, option, text, NULL};
    char *envp[] = {NULL};
    struct execd_spawn spawn = {
        .programs = &programs,
        .argv = argv,
        .envp = envp,
        .cwd = cwd,
        .credentials = credentials,
        .in_fd = -1,
        .out_fd = -1,
        .err_fd = -1,
    };
    pid_t pid;
    *owner = (struct owner){0};
    assert_int_equal(execd_spawn_start(&spawn, &pid, &owner->report, &err), 0);
    execd_reaper_add(&reaper, &owner->child, pid, on_child_exit, owner);
    execd_programs_done(&programs);
}

static void start(struct owner *owner, const char *script)
{
    start_as(owner, "sh", script, "/", NULL);
}

/* What the loop does: wait for SIGCHLD, reap everything. */
static void reap_until(const struct owner *owner)
{
    while (owner->exits == 0) {
        struct pollfd poll_fd = {.fd = signals, .events = POLLIN};
        assert_int_equal(poll(&poll_fd, 1, 10000), 1);
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof(info)) > 0)
            continue;
        execd_reaper_run(&reaper);
    }
}

static void check_started(struct owner *owner)
{
    struct error err = ERROR_INIT;
    assert_int_equal(execd_spawn_check(owner->report, &err), 1);
    owner->report = fd_close(owner->report);
}

static void check_not_started(struct owner *owner, int sys)
{
    struct error err = ERROR_INIT;
    assert_true(execd_spawn_check(owner->report, &err) < 0);
    assert_int_equal(err.sys, sys);
    assert_int_equal(owner->exit.code, 127);
    owner->report = fd_close(owner->report);
}

static void test_exits(void **state)
{
    (void)state;
    struct owner owner;
    start(&owner, "exit 7");
    reap_until(&owner);
    assert_int_equal(owner.exit.code, 7);
    assert_int_equal(owner.exit.signal, 0);
    check_started(&owner);

    start(&owner, "kill -TERM $$");
    reap_until(&owner);
    assert_int_equal(owner.exit.signal, SIGTERM);
    check_started(&owner);
    assert_int_equal(reaper.count, 0);
}

static void test_many_at_once(void **state)
{
    (void)state;
    struct owner owners[200];
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        AUTO_FREE char *script = mem_printf("exit %zu", i);
        start(&owners[i], script);
    }
    assert_int_equal(reaper.count, ARRAY_LEN(owners));
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        reap_until(&owners[i]);
        assert_int_equal(owners[i].exits, 1);
        assert_int_equal(owners[i].exit.code, i);
        check_started(&owners[i]);
    }
    assert_int_equal(reaper.count, 0);
}

/* An orphan comes to us as to PID 1; it is reaped, and owners get only what is theirs. */
static void test_orphans(void **state)
{
    (void)state;
    struct owner owner;
    start(&owner, "sh -c 'exit 3' & exit 4");
    reap_until(&owner);
    assert_int_equal(owner.exit.code, 4);
    check_started(&owner);
    while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0) /* until ECHILD */
        execd_reaper_run(&reaper);
    assert_int_equal(owner.exits, 1);
}

static void test_group_is_killed(void **state)
{
    (void)state;
    struct owner owner;
    start(&owner, "sleep 1000 & sleep 1000");
    execd_child_kill_group(&owner.child, SIGKILL); /* at once: the group exists already */
    reap_until(&owner);
    assert_int_equal(owner.exit.signal, SIGKILL);
    fd_close(owner.report);
    execd_child_kill_group(&owner.child, SIGKILL); /* reaped: nothing happens */
}

static void test_failures_are_told(void **state)
{
    (void)state;
    struct owner owner;
    start_as(&owner, "no-such-program", "", "/", NULL);
    reap_until(&owner);
    check_not_started(&owner, ENOENT);

    start_as(&owner, "/etc/passwd", "", "/", NULL);
    reap_until(&owner);
    check_not_started(&owner, EACCES);

    start_as(&owner, "sh", "", "/no/such/directory", NULL);
    reap_until(&owner);
    check_not_started(&owner, ENOENT);
}

/* The child has its signals, its stdio and nothing else of ours. */
static void test_child_is_clean(void **state)
{
    (void)state;
    struct owner owner;
    int inherited = open("/dev/null", O_RDONLY); /* not CLOEXEC */
    assert_true(inherited > 2);
    signal(SIGPIPE, SIG_IGN);
    start(&owner, "set -- /proc/$$/fd/*; [ $# -le 4 ] || exit 10;"
                  "[ -e /proc/$$/fd/2 ] && [ ! -e /proc/$$/fd/3 ] || exit 11;"
                  "while read name value; do case $name in SigBlk:|SigIgn:)"
                  "  [ $value = 0000000000000000 ] || exit 12;; esac; done </proc/$$/status;"
                  "[ \"$(cut -d' ' -f5 /proc/$$/stat)\" = $$ ] || exit 13;"
                  "read x && exit 14; exit 0");
    reap_until(&owner);
    assert_int_equal(owner.exit.code, 0);
    check_started(&owner);
    signal(SIGPIPE, SIG_DFL);
    fd_close(inherited);
}

static void test_credentials(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct execd_credentials credentials = {
        .uid = 12345, .gid = 23456, .groups = {23456, 34567}, .group_count = 2};
    struct owner owner;
    start_as(&owner, "sh", "[ \"$(id -u):$(id -g):$(id -G)\" = '12345:23456:23456 34567' ]", "/",
             &credentials);
    reap_until(&owner);
    assert_int_equal(owner.exit.code, 0);
    check_started(&owner);
}

static void test_program_candidates(void **state)
{
    (void)state;
    struct execd_programs programs;
    execd_programs_init(&programs);
    execd_programs_add(&programs, "x", "/a::/b/c:");
    assert_int_equal(programs.count, 4);
    assert_string_equal(programs.items[0].path, "/a/x");
    assert_string_equal(programs.items[1].path, "./x");
    assert_string_equal(programs.items[2].path, "/b/c/x");
    assert_string_equal(programs.items[3].path, "./x");
    execd_programs_add(&programs, "./y", "/a");
    assert_int_equal(programs.count, 5);
    assert_string_equal(programs.items[4].path, "./y");

    char many[4 * EXECD_PROGRAMS_MAX];
    memset(many, ':', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    execd_programs_add(&programs, "z", many);
    assert_int_equal(programs.count, EXECD_PROGRAMS_MAX);
    execd_programs_done(&programs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exits),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_orphans),
        cmocka_unit_test(test_group_is_killed),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_child_is_clean),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_program_candidates),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
