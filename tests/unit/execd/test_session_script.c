/* The text for bash: values come back from a real bash as they went in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/session_script.h"

static void check_assign(const char *bytes, size_t length, const char *expected)
{
    struct buf out;
    buf_init(&out, 5 * length + 40);
    assert_int_equal(execd_session_script_assign(&out, "v", bytes, length), 0);
    assert_string_equal(out.data, expected);
    assert_null(strchr(out.data, '\n'));
    buf_done(&out);
}

static void test_assign(void **state)
{
    (void)state;
    check_assign("", 0, "builtin printf -v v %b ''; ");
    check_assign("a b", 3, "builtin printf -v v %b 'a b'; ");
    check_assign("'", 1, "builtin printf -v v %b '\\0047'; ");
    check_assign("\\n\n7", 4, "builtin printf -v v %b '\\\\n\\n7'; ");
    struct buf out;
    buf_init(&out, 30);
    assert_int_equal(execd_session_script_assign(&out, "v", "''''", 4), -EMSGSIZE);
    buf_done(&out);
}

/* Every byte but NUL, twice, the second time after a backslash. */
static void test_real_bash_reads_every_byte(void **state)
{
    (void)state;
    char bytes[3 * 255 + 1];
    size_t length = 0;
    for (int c = 1; c < 256; c++) {
        bytes[length++] = (char)c;
        bytes[length++] = '\\';
        bytes[length++] = (char)c;
    }
    bytes[length] = '\0';
    struct buf script;
    buf_init(&script, 64 * 1024);
    assert_int_equal(execd_session_script_assign(&script, "v", bytes, length), 0);
    assert_int_equal(buf_add_str(&script, "printf %s \"$v\""), 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execlp("bash", "bash", "-c", script.data, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    char back[sizeof(bytes)];
    size_t got = 0;
    ssize_t n;
    while (got < sizeof(back) && (n = read(ends[0], back + got, sizeof(back) - got)) > 0)
        got += (size_t)n;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        skip();
    assert_int_equal(got, length);
    assert_memory_equal(back, bytes, length);
    buf_done(&script);
}

static void check_run(const char *code, const char *cwd, bool wrap, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    assert_int_equal(execd_session_script_run(&out, "NONCE", code, cwd, wrap), 0);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void test_run(void **state)
{
    (void)state;
    check_run("x", NULL, false,
              "builtin printf -v __execd_code %b 'x'; "
              "__execd_nonce=NONCE __execd_on=yes PROMPT_COMMAND=$__execd_go\n");
    check_run("trap 'a' EXIT", "/b", true,
              "__execd wrap\nbuiltin printf -v __execd_cwd %b '/b'; "
              "builtin printf -v __execd_code %b 'trap \\0047a\\0047 EXIT'; "
              "__execd_nonce=NONCE __execd_on=trap PROMPT_COMMAND=$__execd_go\n");
    struct buf out;
    buf_init(&out, 64 * 1024);
    assert_int_equal(execd_session_script_run(&out, "N", "trap - 0", NULL, false), 0);
    assert_non_null(strstr(out.data, "__execd_on=trap"));
    buf_clear(&out);
    assert_int_equal(execd_session_script_run(&out, "N", "exit; trap x INT", NULL, false), 0);
    assert_non_null(strstr(out.data, "__execd_on=yes"));
    buf_clear(&out);
    assert_int_equal(execd_session_script_start(&out, "N", NULL, 0), 0);
    assert_null(strstr(out.data, "eval \"$__execd_code\" ||"));
    buf_clear(&out);
    assert_int_equal(execd_session_script_start(&out, "N", "a=1", 3), 0);
    assert_non_null(strstr(out.data, "%b 'a=1'; builtin eval \"$__execd_code\" ||"));
    buf_done(&out);
}

static void test_is_wrapped(void **state)
{
    (void)state;
    assert_true(execd_session_script_is_wrapped("a=1\ntrap -- '__execd exit \"$?\"' EXIT\n"));
    assert_false(execd_session_script_is_wrapped("a=1\ntrap -- 'echo bye' EXIT\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assign),
        cmocka_unit_test(test_real_bash_reads_every_byte),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_is_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
