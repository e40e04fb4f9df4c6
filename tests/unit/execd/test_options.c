#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "execd/options.h"

static const char *variable_name;
static const char *variable_value;

static const char *get_variable(const char *name)
{
    return variable_name != NULL && strcmp(name, variable_name) == 0 ? variable_value : NULL;
}

/* A command line in one string, words separated by single spaces. */
static int parse(struct execd_options *options, char *line, struct error *err)
{
    static char *argv[16];
    int argc = 0;
    for (char *word = strtok(line, " "); word != NULL && argc < 15; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return execd_options_parse(options, argc, argv, get_variable, err);
}

#define PARSE(options, err, text)           \
    ({                                      \
        static char line_[] = "execd" text; \
        parse(options, line_, err);         \
    })

static void test_defaults(void **state)
{
    (void)state;
    struct execd_options options;
    assert_int_equal(PARSE(&options, NULL, ""), 0);
    assert_int_equal(options.port, EXECD_PORT_DEFAULT);
    assert_int_equal(options.listen_fd, -1);
    assert_int_equal(options.work_fds.count, 0);
    assert_int_equal(execd_options_log_level(&options), LOG_INFO);
    assert_false(options.pid1 || options.bootstrap || options.block_clone3);
    assert_null(options.token);
    assert_null(options.log_file);
    assert_null(options.entrypoint[0]);
}

static void test_all_ways_to_write_an_option(void **state)
{
    (void)state;
    struct execd_options options;
    assert_int_equal(PARSE(&options, NULL, " --port 1"), 0);
    assert_int_equal(options.port, 1);
    assert_int_equal(PARSE(&options, NULL, " -port 2"), 0);
    assert_int_equal(options.port, 2);
    assert_int_equal(PARSE(&options, NULL, " --port=3"), 0);
    assert_int_equal(options.port, 3);
    assert_int_equal(PARSE(&options, NULL, " -port=0 -pid1 --log-level=7 -access-token=a=b"), 0);
    assert_int_equal(options.port, 0);
    assert_true(options.pid1);
    assert_int_equal(execd_options_log_level(&options), LOG_DEBUG);
    assert_string_equal(options.token, "a=b");
    assert_int_equal(PARSE(&options, NULL, " --listen-fd 3"), 0);
    assert_int_equal(options.port, -1); /* the inherited socket stands for TCP */
    assert_int_equal(PARSE(&options, NULL, " --work-fd 7 --work-fd=8"), 0);
    assert_int_equal(options.work_fds.count, 2);
    assert_int_equal(options.work_fds.items[0], 7);
    assert_int_equal(options.work_fds.items[1], 8);
}

static void test_entrypoint(void **state)
{
    (void)state;
    struct execd_options options;
    assert_int_equal(PARSE(&options, NULL, " --bootstrap -- -c --port"), 0);
    assert_true(options.pid1);
    assert_string_equal(options.entrypoint[0], "-c");
    assert_string_equal(options.entrypoint[1], "--port");
    assert_null(options.entrypoint[2]);
    assert_int_equal(PARSE(&options, NULL, " --bootstrap sleep --port"), 0);
    assert_string_equal(options.entrypoint[0], "sleep");
    assert_string_equal(options.entrypoint[1], "--port");
}

static void assert_refused(int r, const struct error *err, const char *part)
{
    assert_true(r < 0);
    assert_int_equal(err->code, ERR_INVALID);
    if (strstr(err->message, part) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", err->message, part);
}

#define REFUSED(text, part)                                           \
    do {                                                              \
        struct execd_options options_;                                \
        struct error err_ = ERROR_INIT;                               \
        assert_refused(PARSE(&options_, &err_, text), &err_, (part)); \
    } while (0)

static void test_refused(void **state)
{
    (void)state;
    REFUSED(" --port 65536", "from 0 to 65535, not \"65536\"");
    REFUSED(" --port x", "not \"x\"");
    REFUSED(" --port -1", "not \"-1\"");
    REFUSED(" --port", "--port needs a value: N");
    REFUSED(" --nothing", "there is no option --nothing");
    REFUSED(" --por 5", "there is no option --por");
    REFUSED(" --pid1=1", "--pid1 takes no value");
    REFUSED(" --listen-fd 2", "from 3");
    REFUSED(" --work-fd 2", "from 3");
    REFUSED(" --work-fd=3 --work-fd=4 --work-fd=5 --work-fd=6 --work-fd=7", "more than 4 times");
    REFUSED(" --log-level 8", "from 0 to 7");
    REFUSED(" word", "unexpected argument \"word\"");
    REFUSED(" --pid1 -- word", "unexpected argument \"word\"");
    REFUSED(" --jupyter-host 127.0.0.1:8888", "must begin with http:// or https://");
    REFUSED(" --graceful-shutdown-timeout 3", "500ms, 3s or 1m30s, not \"3\"");
    REFUSED(" --jupyter-idle-poll-interval -1s", "not \"-1s\"");
}

static void test_variables(void **state)
{
    (void)state;
    struct execd_options options;
    struct error err = ERROR_INIT;
    variable_name = "EXECD_ACCESS_TOKEN";
    variable_value = "secret";
    assert_int_equal(PARSE(&options, NULL, ""), 0);
    assert_string_equal(options.token, "secret");
    assert_int_equal(PARSE(&options, NULL, " --access-token other"), 0);
    assert_string_equal(options.token, "other");
    variable_value = "";
    assert_int_equal(PARSE(&options, NULL, ""), 0);
    assert_null(options.token);

    variable_name = "EXECD_API_GRACE_SHUTDOWN";
    variable_value = "3s";
    assert_int_equal(PARSE(&options, NULL, ""), 0);
    assert_int_equal(options.shutdown_ms, 3000);
    variable_value = "soon";
    assert_refused(PARSE(&options, &err, ""), &err, "the variable EXECD_API_GRACE_SHUTDOWN must");

    variable_name = "OPENSANDBOX_LOG_OUTPUT";
    variable_value = "stdout";
    assert_int_equal(PARSE(&options, NULL, ""), 0);
    assert_string_equal(options.log_file, "stdout");
    variable_name = NULL;
}

static void test_clone3(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
        bool blocked;
    } cases[] = {{"1", 0, true},    {"TRUE", 0, true},   {"yes", 0, true},
                 {"on", 0, true},   {"reexec", 0, true}, {"0", 0, false},
                 {"off", 0, false}, {"", 0, false},      {"maybe", -1, false}};
    variable_name = "EXECD_CLONE3_COMPAT";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct execd_options options;
        variable_value = cases[i].text;
        assert_int_equal(PARSE(&options, NULL, "") < 0 ? -1 : 0, cases[i].r);
        if (cases[i].r == 0)
            assert_int_equal(options.block_clone3, cases[i].blocked);
    }
    variable_name = NULL;
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* negative: the error */
    } cases[] = {
        {"500ms", 500},         {"3s", 3000},
        {"1m30s", 90000},       {"0", 0},
        {"1.5h", 5400000},      {".5s", 500},
        {"1h1m1s1ms", 3661001}, {"+2s", 2000},
        {"999us", 0},           {"1500\xc2\xb5s", 1},
        {"2000000ns", 2},       {"0.123456789999s", 123},
        {"", -EINVAL},          {"5", -EINVAL},
        {"s", -EINVAL},         {".s", -EINVAL},
        {"3 s", -EINVAL},       {"3sec", -EINVAL},
        {"1d", -EINVAL},        {"+", -EINVAL},
        {"-3s", -ERANGE},       {"99999999999h", -ERANGE},
        {"9999999h", -ERANGE},  {"99999999999999999999s", -ERANGE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = -1;
        int r = execd_duration_parse(cases[i].text, &ms);
        if (r != MIN(cases[i].ms, 0) || (r == 0 && ms != cases[i].ms))
            fail_msg("\"%s\": %d, %lld ms", cases[i].text, r, (long long)ms);
    }
}

static void test_help_names_everything(void **state)
{
    (void)state;
    AUTO_FREE char *help = execd_options_help();
    static const char *const words[] = {"--listen-fd N", "EXECD_API_GRACE_SHUTDOWN", "--bootstrap",
                                        "EXECD_CLONE3_COMPAT", "--jupyter-idle-poll-interval TIME"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_non_null(strstr(help, words[i]));
    for (const char *line = help; line != NULL; line = strchr(line + 1, '\n'))
        assert_true(strcspn(line + 1, "\n") <= 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_all_ways_to_write_an_option),
        cmocka_unit_test(test_entrypoint), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_variables),  cmocka_unit_test(test_clone3),
        cmocka_unit_test(test_durations),  cmocka_unit_test(test_help_names_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
