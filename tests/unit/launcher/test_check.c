#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/check_probe.h"

static struct check_row row(const char *name, enum check_weight weight, enum check_found found)
{
    struct check_row made = {.section = "part", .name = name, .weight = weight};
    made.result.found = found;
    return made;
}

static void test_verdicts(void **state)
{
    (void)state;
    struct check_row rows[] = {
        row("needed", CHECK_NEEDED, CHECK_YES),
        row("feature", CHECK_FEATURE, CHECK_YES),
        row("note", CHECK_NOTE, CHECK_NO),
    };
    struct check_report report = {.state_dir = "/s", .rows = rows, .count = 3};
    assert_true(check_can_run(&report));
    assert_true(check_has_everything(&report)); /* notes turn nothing off */
    rows[1].result.found = CHECK_PARTLY;
    assert_true(check_can_run(&report));
    assert_false(check_has_everything(&report));
    rows[0].result.found = CHECK_PARTLY;
    assert_true(check_can_run(&report));
    rows[0].result.found = CHECK_UNKNOWN;
    assert_false(check_can_run(&report));
    rows[0].result.found = CHECK_NO;
    assert_false(check_can_run(&report));
}

static void test_json_is_escaped(void **state)
{
    (void)state;
    struct check_row rows[] = {row("first", CHECK_FEATURE, CHECK_NO),
                               row("second", CHECK_NEEDED, CHECK_YES)};
    check_say(&rows[0].result, CHECK_NO, "a \"quote\" \\ \n\t\x01\x7f \xc3\xa4 \xff\xc3");
    check_effect(&rows[0].result, "off");
    check_advice(&rows[0].result, "do it");
    struct check_report report = {.state_dir = "/s\"", .rows = rows, .count = 2};
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, CHECK_PRINT_MAX);
    check_print_json(&report, &out);
    assert_string_equal(
        out.data,
        "{\n"
        "  \"state\": \"/s\\\"\",\n"
        "  \"cgroup_parent\": null,\n"
        "  \"can_run\": true,\n"
        "  \"everything\": false,\n"
        "  \"missing\": [],\n"
        "  \"off\": [\"first\"],\n"
        "  \"results\": [\n"
        "    {\"section\": \"part\", \"name\": \"first\", \"weight\": \"feature\", \"found\": "
        "\"no\",\n"
        "     \"detail\": \"a \\\"quote\\\" \\\\ \\u000a\\u0009\\u0001\\u007f \xc3\xa4 "
        "\\ufffd\\ufffd\",\n"
        "     \"effect\": \"off\",\n"
        "     \"advice\": \"do it\"},\n"
        "    {\"section\": \"part\", \"name\": \"second\", \"weight\": \"needed\", \"found\": "
        "\"yes\",\n"
        "     \"detail\": \"\",\n"
        "     \"effect\": \"\",\n"
        "     \"advice\": null}\n"
        "  ]\n"
        "}\n");
}

static void test_people_see_no_control_characters(void **state)
{
    (void)state;
    struct check_row rows[] = {row("first", CHECK_NEEDED, CHECK_NO)};
    check_say(&rows[0].result, CHECK_NO, "a\x1b[2J\n\xc2\x9b\xc3\xa4\xff");
    check_effect(&rows[0].result, "nothing runs");
    check_advice(&rows[0].result, "buy one");
    struct check_report report = {.state_dir = "/s", .rows = rows, .count = 1};
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, CHECK_PRINT_MAX);
    check_print_people(&report, &out);
    assert_string_equal(out.data, "part\n"
                                  "  no      first            nothing runs (a?[2J??\xc3\xa4?)\n"
                                  "                           to do: buy one\n"
                                  "\n"
                                  "Sandboxes cannot run here. Needed: first\n");
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    struct check_result result = {0};
    char text[2 * CHECK_TEXT_MAX];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    check_say(&result, CHECK_YES, "%s", text);
    assert_int_equal(strlen(result.detail), CHECK_TEXT_MAX - 1);
}

static void test_releases(void **state)
{
    (void)state;
    unsigned major = 0, minor = 0;
    assert_int_equal(check_parse_release("6.1.0-18-cloud-amd64", &major, &minor), 0);
    assert_int_equal(major, 6);
    assert_int_equal(minor, 1);
    assert_int_equal(check_parse_release("5.19", &major, &minor), 0);
    assert_int_equal(minor, 19);
    static const char *const bad[] = {"", "6", "6.", ".1", "x.y", "70000.1", "6.99999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(check_parse_release(bad[i], &major, &minor) < 0);
}

static void test_meminfo(void **state)
{
    (void)state;
    static const char text[] = "MemTotal:        8 kB\nSwapTotalX: 1 kB\nSwapTotal:\t7 kB\n"
                               "Bad: x kB\nHuge: 99999999999999999999 kB\n";
    uint64_t bytes = 0;
    assert_int_equal(check_parse_meminfo(text, "MemTotal", &bytes), 0);
    assert_int_equal(bytes, 8192);
    assert_int_equal(check_parse_meminfo(text, "SwapTotal", &bytes), 0);
    assert_int_equal(bytes, 7168);
    assert_int_equal(check_parse_meminfo(text, "MemAvailable", &bytes), -ENOENT);
    assert_int_equal(check_parse_meminfo(text, "Total", &bytes), -ENOENT);
    assert_int_equal(check_parse_meminfo(text, "Bad", &bytes), -EINVAL);
    assert_int_equal(check_parse_meminfo(text, "Huge", &bytes), -EINVAL);
    assert_int_equal(check_parse_meminfo("", "MemTotal", &bytes), -ENOENT);
}

static void test_ids(void **state)
{
    (void)state;
    char name[8];
    static const char passwd[] = "root:x:0:0:::\nlow:x:99:1::\nlongername:x:100:1::\n"
                                 "top:x:200:1::\nhigh:x:201:1::\n+::::\nbroken\nneg:x:-5::\n";
    assert_int_equal(check_parse_ids(passwd, false, 100, 200, name, sizeof(name)), 2);
    assert_string_equal(name, "longern");
    assert_int_equal(check_parse_ids(passwd, false, 300, 400, name, sizeof(name)), 0);
    assert_string_equal(name, "");
    /* reaching in from below, from above, around; ending just before; empty; broken */
    static const char subuid[] = "a:50:51\nb:200:10\nc:0:1000\nd:50:50\ne:150:0\nf:150\ng:x:1\n";
    assert_int_equal(check_parse_ids(subuid, true, 100, 200, name, sizeof(name)), 3);
    assert_string_equal(name, "a");
}

static void answer(void *argument, void *result)
{
    *(int *)result = *(int *)argument + 1;
}

static void hang(void *argument, void *result)
{
    (void)argument;
    (void)result;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (fork() >= 0) { /* a child of it must not keep us waiting either */
        while (pause() < 0)
            ;
    }
}

static void die(void *argument, void *result)
{
    (void)argument;
    (void)result;
    signal(SIGSYS, SIG_DFL);
    raise(SIGSYS);
}

static void test_bounded(void **state)
{
    (void)state;
    int number = 41, result = 0, signal_number = 0;
    assert_int_equal(check_bounded(answer, &number, &result, sizeof(result), 60000, &signal_number),
                     0);
    assert_int_equal(result, 42);
    result = 7;
    assert_int_equal(check_bounded(hang, NULL, &result, sizeof(result), 50, &signal_number),
                     -ETIMEDOUT);
    assert_int_equal(result, 7);
    assert_int_equal(check_bounded(die, NULL, &result, sizeof(result), 60000, &signal_number),
                     -EPIPE);
    assert_int_equal(signal_number, SIGSYS);
    assert_int_equal(result, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_json_is_escaped),
        cmocka_unit_test(test_people_see_no_control_characters),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_releases),
        cmocka_unit_test(test_meminfo),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
