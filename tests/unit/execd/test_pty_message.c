#include "execd/pty_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct execd_pty_message message;
static struct error err;

static int parse(const char *text)
{
    return execd_pty_message_parse(true, text, strlen(text), &message, &err);
}

static void expect(const char *text, enum execd_pty_message_type type)
{
    assert_int_equal(parse(text), 0);
    assert_int_equal(message.type, type);
}

static void done(void)
{
    execd_pty_message_done(&message);
}

static void refuse(const char *text, const char *part)
{
    assert_true(parse(text) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, err.message);
}

static void test_binary(void **state)
{
    (void)state;
    assert_int_equal(execd_pty_message_parse(false, "\0a\0b", 4, &message, &err), 0);
    assert_int_equal(message.type, EXECD_PTY_STDIN);
    assert_int_equal(message.length, 3);
    assert_memory_equal(message.bytes, "a\0b", 3);
    done();
    assert_int_equal(execd_pty_message_parse(false, "\0", 1, &message, &err), 0);
    assert_int_equal(message.type, EXECD_PTY_STDIN);
    assert_int_equal(message.length, 0);
    done();
    static const char *const ignored[] = {"", "\1x", "\3x", "{\"type\":\"ping\"}", "\xff"};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++) {
        assert_int_equal(
            execd_pty_message_parse(false, ignored[i], strlen(ignored[i]), &message, &err), 0);
        assert_int_equal(message.type, EXECD_PTY_NOTHING);
        done();
    }
}

static void test_text(void **state)
{
    (void)state;
    expect("{\"type\":\"stdin\",\"data\":\"\\u0003\\u00e4\"}", EXECD_PTY_STDIN);
    assert_int_equal(message.length, 3);
    assert_memory_equal(message.bytes, "\x03\xc3\xa4", 3);
    done();
    expect("{\"type\":\"stdin\"}", EXECD_PTY_STDIN);
    assert_int_equal(message.length, 0);
    done();
    expect("{\"type\":\"resize\",\"cols\":1,\"rows\":10000}", EXECD_PTY_RESIZE);
    assert_int_equal(message.cols, 1);
    assert_int_equal(message.rows, 10000);
    done();
    expect("{\"signal\":\"SIGQUIT\",\"type\":\"signal\",\"more\":[]}", EXECD_PTY_SIGNAL);
    assert_int_equal(message.signal, SIGQUIT);
    done();
    expect("{\"type\":\"ping\"}", EXECD_PTY_PING);
    done();
    expect("{\"type\":\"eof\"}", EXECD_PTY_EOF);
    done();
}

static void test_bad_json_is_ignored(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "x",
        "{",
        "[]",
        "5",
        "null",
        "\"ping\"",
        "{\"type\":\"ping\"} x",
        "{\"type\":\"ping\",\"type\":\"eof\"}",
        "{\"type\":\"stdin\",\"data\":\"\\u0000\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        expect(texts[i], EXECD_PTY_NOTHING);
        done();
    }
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("{}", "stdin, eof, resize, signal and ping");
    refuse("{\"type\":null}", "type");
    refuse("{\"type\":1}", "type");
    refuse("{\"type\":\"STDIN\"}", "STDIN");
    refuse("{\"type\":\"\xe2\x82\xac\"}", "\\xe2");
    refuse("{\"type\":\"stdin\",\"data\":{}}", "data");
    refuse("{\"type\":\"resize\",\"cols\":80}", "rows");
    refuse("{\"type\":\"resize\",\"cols\":0,\"rows\":1}", "10000");
    refuse("{\"type\":\"resize\",\"cols\":1,\"rows\":10001}", "10000");
    refuse("{\"type\":\"resize\",\"cols\":-1,\"rows\":1}", "cols");
    refuse("{\"type\":\"signal\",\"signal\":\"INT\"}", "SIGINT");
    refuse("{\"type\":\"signal\",\"signal\":\"SIGSTOP\"}", "SIGSTOP");
    refuse("{\"type\":\"signal\",\"signal\":2}", "signal");
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(execd_pty_signal_name(SIGKILL), "SIGKILL");
    assert_string_equal(execd_pty_signal_name(SIGSEGV), "SIGSEGV");
    assert_null(execd_pty_signal_name(0));
    assert_null(execd_pty_signal_name(60));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_bad_json_is_ignored),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
