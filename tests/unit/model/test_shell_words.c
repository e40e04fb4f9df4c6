#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/macros.h"
#include "model/shell_words.h"

#define WORDS_MAX 5

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words[WORDS_MAX];
    } rows[] = {
        {"", {NULL}},
        {" \t\r\n", {NULL}},
        {"a", {"a"}},
        {"  tail -f\t/dev/null \n", {"tail", "-f", "/dev/null"}},
        {"sh -c 'echo \"hi\" there'", {"sh", "-c", "echo \"hi\" there"}},
        {"sh -c \"echo 'hi'\"", {"sh", "-c", "echo 'hi'"}},
        {"a\\ b c", {"a b", "c"}},
        {"\\'a\\\"", {"'a\""}},
        {"'a\\b'", {"a\\b"}},
        {"\"a\\\"b\\\\c\\$d\\`e\"", {"a\"b\\c$d`e"}},
        {"\"a\\nb\"", {"a\\nb"}},
        {"a\\nb", {"anb"}},
        {"a\\\nb", {"ab"}},
        {"\"a\\\nb\"", {"ab"}},
        {"''", {""}},
        {"a '' \"\"", {"a", "", ""}},
        {"x'y'\"z\"w", {"xyzw"}},
        {"$HOME *.c #x ; | &", {"$HOME", "*.c", "#x", ";", "|"}}, /* nothing is expanded */
        {"'multi\nline'", {"multi\nline"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct string_list words = {0};
        struct error err = ERROR_INIT;
        if (shell_words_split(rows[i].text, &words, &err) < 0)
            fail_msg("\"%s\": %s", rows[i].text, err.message);
        for (size_t w = 0; w < WORDS_MAX && rows[i].words[w] != NULL; w++)
            if (w >= words.count || strcmp(words.items[w], rows[i].words[w]) != 0)
                fail_msg("\"%s\": word %zu is \"%s\"", rows[i].text, w,
                         w < words.count ? words.items[w] : "(missing)");
        if (rows[i].words[0] == NULL)
            assert_int_equal(words.count, 0);
        string_list_done(&words);
    }
}

static void test_count_is_exact(void **state)
{
    (void)state;
    struct string_list words = {0};
    assert_int_equal(shell_words_split("a 'b c' d", &words, NULL), 0);
    assert_int_equal(words.count, 3);
    assert_null(words.items[3]);
    /* Appended, not replaced. */
    assert_int_equal(shell_words_split("e", &words, NULL), 0);
    assert_int_equal(words.count, 4);
    string_list_done(&words);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const rows[] = {"'",   "\"",    "a 'b", "a \"b",
                                       "a\\", "\"a\\", "'a\\", "a 'b' \""};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct string_list words = {0};
        struct error err = ERROR_INIT;
        string_list_add(&words, "before");
        if (shell_words_split(rows[i], &words, &err) == 0)
            fail_msg("\"%s\" was accepted", rows[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(words.count, 1);
        string_list_done(&words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_count_is_exact),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
