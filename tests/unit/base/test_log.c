#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

static int pipe_fds[2];
static char output[16384];

static int set_up(void **state)
{
    (void)state;
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    log_set_fd(pipe_fds[1]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_fd(2);
    fd_close(pipe_fds[0]);
    fd_close(pipe_fds[1]);
    return 0;
}

static const char *read_output(void)
{
    ssize_t n = read(pipe_fds[0], output, sizeof(output) - 1);
    output[n > 0 ? n : 0] = '\0';
    return output;
}

static void test_people(void **state)
{
    (void)state;
    log_init("server", LOG_INFO, LOG_PEOPLE);
    log_info("listening on %s", "[::1]:8080");
    int hour, minute, second, end = 0;
    const char *line = read_output();
    assert_int_equal(sscanf(line, "%2d:%2d:%2d%n", &hour, &minute, &second, &end), 3);
    assert_int_equal(end, 8);
    assert_string_equal(line + 8, " info  server: listening on [::1]:8080\n");
    log_error("x");
    assert_string_equal(read_output() + 8, " error server: x\n");
}

static void test_json(void **state)
{
    (void)state;
    log_init("server", LOG_INFO, LOG_JSON);
    log_warn("say \"%s\"", "C:\\x");
    const char *line = read_output();
    char time[CLOCK_RFC3339_MAX] = "";
    assert_int_equal(sscanf(line, "{\"time\":\"%39[^\"]", time), 1);
    int64_t ms;
    assert_int_equal(clock_parse_rfc3339(time, &ms), 0);
    const char *rest = strstr(line, "\",\"level\"");
    assert_non_null(rest);
    assert_string_equal(rest, "\",\"level\":\"warn\",\"program\":\"server\","
                              "\"message\":\"say \\\"C:\\\\x\\\"\"}\n");
}

static void test_levels(void **state)
{
    (void)state;
    log_init("server", LOG_WARN, LOG_PEOPLE);
    log_debug("no");
    log_info("no");
    assert_string_equal(read_output(), "");
    log_warn("yes");
    assert_non_null(strstr(read_output(), "yes"));
}

static void assert_message(const char *message, const char *people, const char *json)
{
    log_init("p", LOG_DEBUG, LOG_PEOPLE);
    log_info("%s", message);
    char expected[256];
    snprintf(expected, sizeof(expected), " info  p: %s\n", people);
    assert_string_equal(read_output() + 8, expected);
    log_init("p", LOG_DEBUG, LOG_JSON);
    log_info("%s", message);
    snprintf(expected, sizeof(expected), "\"message\":\"%s\"}\n", json);
    const char *rest = strstr(read_output(), "\"message\"");
    assert_non_null(rest);
    assert_string_equal(rest, expected);
}

static void test_escapes(void **state)
{
    (void)state;
    assert_message("a\nb\r\tc", "a\\nb\\r\\tc", "a\\nb\\r\\tc");
    assert_message("\x1b[31mred", "\\x1b[31mred", "\\u001b[31mred");
    assert_message("\x7f\x01", "\\x7f\\x01", "\\u007f\\u0001");
    assert_message("\xc2\x9b"
                   "31m",
                   "\\x9b31m", "\\u009b31m");                   /* C1: CSI */
    assert_message("\xff\xc3", "\\xff\\xc3", "\\\\xff\\\\xc3"); /* not UTF-8 */
    assert_message("\xe2\x80\xa8\xe2\x80\xae", "\\u2028\\u202e", "\\u2028\\u202e");
    assert_message("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                   "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_message("100% \"q\" \\", "100% \"q\" \\", "100% \\\"q\\\" \\\\");
    assert_message("", "", "");
}

static void test_long_lines_are_cut(void **state)
{
    (void)state;
    static char message[10000];
    const char *const fillings[] = {"x", "\x1b", "\xe2\x82\xac", "\xff", "\""};
    for (size_t i = 0; i < ARRAY_LEN(fillings); i++) {
        size_t size = strlen(fillings[i]), length = 0;
        for (; length + size < sizeof(message); length += size)
            memcpy(message + length, fillings[i], size);
        message[length] = '\0';
        for (int format = LOG_PEOPLE; format <= LOG_JSON; format++) {
            log_init("p", LOG_INFO, (enum log_format)format);
            log_info("%s", message);
            const char *line = read_output();
            length = strlen(line);
            assert_true(length > 3000 && length <= 4096);
            const char *ending = format == LOG_JSON ? "...\"}\n" : "...\n";
            assert_string_equal(line + length - strlen(ending), ending);
            assert_true(str_is_utf8(line, length));
            assert_ptr_equal(strchr(line, '\n'), line + length - 1);
        }
    }
}

static void test_errno_survives(void **state)
{
    (void)state;
    log_init("p", LOG_INFO, LOG_PEOPLE);
    log_set_fd(-1);
    errno = ENOTTY;
    log_info("x");
    assert_int_equal(errno, ENOTTY);
    log_set_fd(pipe_fds[1]);
}

static void test_parse_names(void **state)
{
    (void)state;
    enum log_level level = LOG_ERROR;
    enum log_format format = LOG_JSON;
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("warn", &level), 0);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(log_level_parse("Warn", &level), -EINVAL);
    assert_int_equal(log_level_parse("", &level), -EINVAL);
    assert_int_equal(log_level_parse(NULL, &level), -EINVAL);
    assert_int_equal(log_format_parse("text", &format), 0);
    assert_int_equal(format, LOG_PEOPLE);
    assert_int_equal(log_format_parse("json", &format), 0);
    assert_int_equal(format, LOG_JSON);
    assert_int_equal(log_format_parse("xml", &format), -EINVAL);
}

/* Who can cause lines at will fills no disk. */
static void test_limit(void **state)
{
    (void)state;
    log_init("p", LOG_INFO, LOG_PEOPLE);
    struct log_limit limit = {0};
    unsigned admitted = 0;
    for (int i = 0; i < 1000; i++)
        admitted += log_admits(&limit);
    assert_int_equal(admitted, LOG_LIMIT_LINES);
    assert_string_equal(read_output(), "");
    limit.since_ms -= LOG_LIMIT_MS; /* as if so much time had passed */
    assert_true(log_admits(&limit));
    assert_non_null(strstr(read_output(), "980 more lines"));
    assert_true(log_admits(&limit));
    assert_string_equal(read_output(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_people, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_escapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_lines_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errno_survives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
        cmocka_unit_test(test_parse_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
