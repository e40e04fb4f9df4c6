/* The shell of a session without HTTP: what a run tells, interruption, and the end. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "execd/execd.h"
#include "execd/session_shell.h"

static struct execd execd;
static uv_poll_t signal_poll;

static void on_signals(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    int fd;
    struct signalfd_siginfo info;
    uv_fileno((uv_handle_t *)poll, &fd);
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        execd_reaper_run(&execd.reaper);
}

static int set_up(void **state)
{
    (void)state;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    execd_init(&execd, uv_default_loop());
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return uv_poll_init(execd.loop, &signal_poll, signals) < 0 ||
                   uv_poll_start(&signal_poll, UV_READABLE, on_signals) < 0
               ? -1
               : 0;
}

/* What the owner of a shell sees. */
struct owner {
    struct execd_session_shell *shell;
    size_t states;
    struct buf output[2];
    const char *wait_for; /* in stdout: then interrupt */
    bool pauses;          /* at the first output */
    int ends;
    struct execd_process_result result;
    bool over;
};

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct owner *owner = ctx;
    assert_int_equal(buf_add(&owner->output[which], bytes, length), 0);
    if (owner->pauses)
        execd_session_shell_pause(owner->shell);
    if (owner->wait_for != NULL && strstr(owner->output[0].data, owner->wait_for) != NULL)
        execd_session_shell_interrupt(owner->shell); /* again and again: that changes nothing */
}

static void on_run_end(void *ctx, const struct execd_process_result *result)
{
    struct owner *owner = ctx;
    owner->ends++;
    owner->result = *result;
}

static void on_over(void *ctx)
{
    ((struct owner *)ctx)->over = true;
}

static void open_owner(struct owner *owner)
{
    static const struct execd_session_shell_events events = {
        .on_output = on_output,
        .on_run_end = on_run_end,
        .on_over = on_over,
    };
    *owner = (struct owner){0};
    buf_init(&owner->output[0], 1024 * 1024);
    buf_init(&owner->output[1], 1024 * 1024);
    struct execd_env env;
    execd_env_init(&env);
    execd_env_copy(&env, &execd.env);
    owner->shell = execd_session_shell_new(&execd, &env, "/", NULL, &owner->states, &events, owner);
}

static void run(struct owner *owner, const char *code, uint64_t timeout_ms)
{
    struct error err = ERROR_INIT;
    int before = owner->ends;
    buf_clear(&owner->output[0]);
    buf_clear(&owner->output[1]);
    assert_int_equal(execd_session_shell_run(owner->shell, code, NULL, timeout_ms, &err), 0);
    assert_int_equal(owner->ends, before);
    while (owner->ends == before)
        uv_run(execd.loop, UV_RUN_ONCE);
    assert_int_equal(owner->ends, before + 1);
    assert_true(owner->result.started);
}

static void check(struct owner *owner, const char *code, const char *expected)
{
    run(owner, code, 20000);
    assert_string_equal(owner->output[1].data, "");
    assert_string_equal(owner->output[0].data, expected);
    assert_int_equal(owner->result.exit.signal, 0);
    assert_int_equal(owner->result.exit.code, 0);
}

static void close_owner(struct owner *owner, bool now)
{
    execd_session_shell_end(owner->shell, now);
    assert_false(owner->over);
    while (!owner->over)
        uv_run(execd.loop, UV_RUN_ONCE);
    assert_int_equal(owner->states, 0);
    assert_int_equal(execd.reaper.count, 0);
    buf_done(&owner->output[0]);
    buf_done(&owner->output[1]);
}

static void test_runs(void **state)
{
    (void)state;
    struct owner owner;
    open_owner(&owner);
    check(&owner, "x='a  b'; echo \"$x\"", "a  b\n");
    run(&owner, "echo out; echo err >&2; (exit 9)", 0);
    assert_string_equal(owner.output[0].data, "out\n");
    assert_string_equal(owner.output[1].data, "err\n");
    assert_int_equal(owner.result.exit.code, 9);
    check(&owner, "echo $? \"$x\"; cd /usr", "9 a  b\n");
    assert_string_equal(execd_session_shell_cwd(owner.shell), "/usr");
    close_owner(&owner, false);
}

/* Somebody who takes no more holds up his own run, and only while there is something to take. */
static void test_pause(void **state)
{
    (void)state;
    struct owner owner;
    struct error err = ERROR_INIT;
    open_owner(&owner);
    owner.pauses = true;
    check(&owner, "echo all", "all\n");
    owner.pauses = false;
    check(&owner, "echo next", "next\n");

    buf_clear(&owner.output[0]);
    owner.pauses = true;
    assert_int_equal(
        execd_session_shell_run(owner.shell, "head -c 300000 /dev/zero", NULL, 20000, &err), 0);
    while (owner.output[0].length == 0)
        uv_run(execd.loop, UV_RUN_ONCE);
    for (int turn = 0; turn < 10; turn++)
        uv_run(execd.loop, UV_RUN_NOWAIT);
    assert_true(owner.output[0].length < 300000);
    int before = owner.ends;
    owner.pauses = false;
    execd_session_shell_resume(owner.shell);
    while (owner.ends == before)
        uv_run(execd.loop, UV_RUN_ONCE);
    assert_int_equal(owner.output[0].length, 300000);
    assert_int_equal(owner.result.exit.signal, 0);
    close_owner(&owner, false);
}

static void test_interrupt(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x=2; echo begun; sleep 1000; echo after",
        "x=2; echo begun; while :; do :; done; echo after",
        "x=2; trap 'echo trapped' INT; echo begun; sleep 1000; echo after",
        "x=2; f() { echo begun; sleep 1000 | cat; echo after; }; f; echo after",
    };
    struct owner owner;
    open_owner(&owner);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check(&owner, "x=1; sleep 1000 & echo", "\n");
        owner.wait_for = "begun";
        run(&owner, texts[i], 20000);
        owner.wait_for = NULL;
        assert_string_equal(owner.output[0].data, "begun\n");
        assert_int_equal(owner.result.exit.signal, SIGINT);
        check(&owner, "echo $x; jobs -r | grep -c 'sleep 1000'; kill $!; wait; trap - INT",
              "2\n1\n");
    }
    close_owner(&owner, false);
}

static void test_interrupt_before_the_shell_is_ready(void **state)
{
    (void)state;
    struct owner owner;
    struct error err = ERROR_INIT;
    open_owner(&owner);
    execd_session_shell_interrupt(owner.shell); /* nothing to do */
    assert_int_equal(execd_session_shell_run(owner.shell, "sleep 1000", NULL, 0, &err), 0);
    execd_session_shell_interrupt(owner.shell);
    while (owner.ends == 0)
        uv_run(execd.loop, UV_RUN_ONCE);
    assert_int_equal(owner.result.exit.signal, SIGINT);
    check(&owner, "echo fine", "fine\n");
    close_owner(&owner, true);
}

static void test_end_while_running(void **state)
{
    (void)state;
    for (int now = 0; now < 2; now++) {
        struct owner owner;
        struct error err = ERROR_INIT;
        open_owner(&owner);
        check(&owner, "trap '' HUP; sleep 1000 & trap - HUP", "");
        assert_int_equal(execd_session_shell_run(owner.shell, "sleep 1000", NULL, 0, &err), 0);
        close_owner(&owner, now);
        assert_int_equal(owner.ends, 2);
        assert_int_equal(owner.result.exit.signal, SIGKILL);
    }
    struct owner owner;
    open_owner(&owner); /* and one that has never run anything */
    close_owner(&owner, false);
}

static void test_bash_that_cannot_start(void **state)
{
    (void)state;
    static const struct execd_session_shell_events events = {
        .on_output = on_output,
        .on_run_end = on_run_end,
        .on_over = on_over,
    };
    struct owner owner = {0};
    struct error err = ERROR_INIT;
    struct execd_env env;
    execd_env_init(&env);
    buf_init(&owner.output[0], 16);
    buf_init(&owner.output[1], 16);
    owner.shell = execd_session_shell_new(&execd, &env, "/no/such/folder", NULL, &owner.states,
                                          &events, &owner);
    assert_int_equal(execd_session_shell_run(owner.shell, "true", NULL, 0, &err), 0);
    while (owner.ends == 0)
        uv_run(execd.loop, UV_RUN_ONCE);
    assert_false(owner.result.started);
    assert_non_null(strstr(owner.result.error.message, "working directory"));
    close_owner(&owner, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_interrupt_before_the_shell_is_ready),
        cmocka_unit_test(test_end_while_running),
        cmocka_unit_test(test_bash_that_cannot_start),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
