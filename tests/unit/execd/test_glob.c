#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/glob.h"

static bool matches(const char *pattern, const char *text)
{
    struct execd_glob *glob = NULL;
    struct error err = ERROR_INIT;
    if (execd_glob_parse(pattern, &glob, &err) < 0)
        fail_msg("%s: %s", pattern, err.message);
    bool result = execd_glob_match(glob, text, strlen(text));
    execd_glob_free(glob);
    return result;
}

struct expectation {
    const char *pattern;
    const char *yes[8]; /* NULL: no more */
    const char *no[8];
};

static void check(const struct expectation *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < 8 && table[i].yes[k] != NULL; k++)
            if (!matches(table[i].pattern, table[i].yes[k]))
                fail_msg("\"%s\" must match \"%s\"", table[i].pattern, table[i].yes[k]);
        for (size_t k = 0; k < 8 && table[i].no[k] != NULL; k++)
            if (matches(table[i].pattern, table[i].no[k]))
                fail_msg("\"%s\" must not match \"%s\"", table[i].pattern, table[i].no[k]);
    }
}

static void test_names(void **state)
{
    (void)state;
    static const struct expectation table[] = {
        {"", {""}, {"a"}},
        {"abc", {"abc"}, {"ab", "abcd", "xabc", ""}},
        {"*", {"", "a", ".hidden", "a b", "\xff"}, {"a/b"}},
        {"**", {"", "a", "a/b", "/"}, {NULL}},
        {"***", {"a/b", ""}, {NULL}},
        {"*.py", {"a.py", ".py", "a.b.py"}, {"a.pyc", "apy", "a/b.py"}},
        {"a*", {"a", "abc"}, {"ba", ""}},
        {"a*c", {"ac", "abc", "acc"}, {"acb", "ab"}},
        {"*a*b*", {"ab", "xaybz", "aab"}, {"ba", "a"}},
        {"a**c", {"ac", "abc"}, {"a/c"}},
        {"?", {"a", "\xc3\xa4", "\xff"}, {"", "ab", "/", "\xc3\xa4x"}},
        {"??", {"ab", "\xc3\xa4\xc3\xb6"}, {"a", "\xc3\xa4"}},
        {"*??", {"ab", "abc"}, {"a", "\xc3\xa4"}},
        {"a?c",
         {"abc", "a\xe2\x82\xac"
                 "c"},
         {"ac", "a/c"}},
        {"\xc3\xa4", {"\xc3\xa4"}, {"\xc3", "a"}},
        {"\xff*", {"\xffx"}, {"\xfex"}},
        {"\\*", {"*"}, {"a", "\\*"}},
        {"\\a\\?\\[\\{\\\\", {"a?[{\\"}, {"ab[{\\"}},
    };
    check(table, ARRAY_LEN(table));
}

static void test_sets(void **state)
{
    (void)state;
    static const struct expectation table[] = {
        {"[abc]", {"a", "b", "c"}, {"d", "", "ab", "/"}},
        {"[a-c]x", {"ax", "cx"}, {"dx", "x"}},
        {"[!a-c]", {"d", "\xc3\xa4", "\xff"}, {"a", "b", "", "/"}},
        {"[^a]", {"b", "^"}, {"a", "/"}},
        {"[a^]", {"a", "^"}, {"b"}},
        {"[]]", {"]"}, {"[", "a"}},
        {"[]a]", {"]", "a"}, {"b"}},
        {"[!]]", {"a"}, {"]"}},
        {"[a-]", {"a", "-"}, {"b"}},
        {"[-a]", {"a", "-"}, {"b"}},
        {"[\\]a]", {"]", "a"}, {"\\"}},
        {"[a\\-c]", {"a", "-", "c"}, {"b"}},
        {"[a-\\c]", {"a", "b", "c"}, {"\\"}},
        {"[\xc3\xa0-\xc3\xbf]", {"\xc3\xa4"}, {"a", "\xe2\x82\xac"}},
        {"[*?{]", {"*", "?", "{"}, {"a"}},
        {"[a/b]", {"a", "b"}, {"/"}},
        {"[0-9][0-9]", {"42"}, {"4", "4a", "425"}},
        {"*[0-9]", {"a1", "7"}, {"a"}},
    };
    check(table, ARRAY_LEN(table));
}

static void test_branches(void **state)
{
    (void)state;
    static const struct expectation table[] = {
        {"{a,b}", {"a", "b"}, {"c", "ab", "", "{a,b}"}},
        {"*.{c,h}", {"x.c", "x.h"}, {"x.o", "x."}},
        {"x{,y}z", {"xz", "xyz"}, {"xyyz"}},
        {"{a}", {"a"}, {"{a}"}},
        {"{}", {""}, {"{}"}},
        {"{a,{b,c}d}e", {"ae", "bde", "cde"}, {"be", "abde", "e"}},
        {"{a*,?b}", {"a", "axx", "xb"}, {"xc"}},
        {"{a,b}{c,d}", {"ac", "bd"}, {"ab", "a"}},
        {"{\\,,x}", {",", "x"}, {"\\"}},
        {"a,b}", {"a,b}"}, {"a"}},
        {"{[,],b}", {",", "b"}, {"a"}},
    };
    check(table, ARRAY_LEN(table));
}

static void test_negations(void **state)
{
    (void)state;
    static const struct expectation table[] = {
        {"!(a)", {"", "b", "aa", "ab"}, {"a", "x/y"}},
        {"!(a|b)", {"c", "ab", ""}, {"a", "b"}},
        {"!(*.py)", {"a.c", "py"}, {"a.py", ".py"}},
        {"!(*.py|*.c)", {"a.h"}, {"a.py", "a.c"}},
        {"!(a).c", {".c", "b.c", "aa.c"}, {"a.c", "b.h"}},
        {"x!(y)z", {"xz", "xaz", "xyyz"}, {"xyz", "x"}},
        {"!(a)?", {"a", "b", "bc"}, {"", "ab", "a\xc3\xa4"}},
        {"!(?)x", {"x", "abx"}, {"ax"}},
        {"!({a,b}*)", {"c", ""}, {"a", "bx"}},
        {"{!(a|b),a}", {"a", "c"}, {"b"}},
        {"!(a)!(b)", {"a", "b", "c", "ba"}, {NULL}},
        {"!a", {"!a"}, {"b"}},
        {"!", {"!"}, {""}},
        {"\\!(a)", {"!(a)"}, {"b"}},
        {"(a|b)", {"(a|b)"}, {"a"}},
    };
    check(table, ARRAY_LEN(table));
    /* The negation cannot end inside a character. */
    assert_false(matches("!(a)[\xc3\xa4]", "a\xc3\xa4"));
}

static void test_paths(void **state)
{
    (void)state;
    static const struct expectation table[] = {
        {"a/b", {"a/b"}, {"b", "a", "a/b/c", "x/a/b"}},
        {"*/b", {"a/b", "/b"}, {"b", "x/a/b"}},
        {"**/b", {"b", "a/b", "x/a/b"}, {"ab", "a/bc", "b/c"}},
        {"a/**", {"a/b", "a/b/c", "a/"}, {"a", "b/a/c"}},
        {"a/**/b", {"a/b", "a/x/b", "a/x/y/b"}, {"ab", "a/xb", "x/a/b"}},
        {"**/*.py", {"a.py", "x/a.py", "x/y/a.py"}, {"a.c", "x.py/a"}},
        {"**/a/**/b", {"a/b", "x/a/y/b", "a/a/b"}, {"a", "b", "x/b"}},
        {"src/{a,b/**}/*.c", {"src/a/x.c", "src/b/y/x.c", "src/b/x/y/z.c"}, {"src/c/x.c"}},
        {"{**/x,y}", {"x", "a/x", "y"}, {"a/y"}},
        {"*/!(a)/c", {"x/b/c"}, {"x/a/c", "x/b/d/c"}},
        {"?/?", {"a/b"}, {"a//", "abc"}},
        {"[a]/[!b]", {"a/a"}, {"a/b"}},
    };
    check(table, ARRAY_LEN(table));
}

static void test_slash(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        bool slash;
    } cases[] = {{"*", false},  {"**", false},     {"a/b", true},
                 {"**/", true}, {"{a,b/c}", true}, {"[/]", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct execd_glob *glob = NULL;
        assert_int_equal(execd_glob_parse(cases[i].pattern, &glob, NULL), 0);
        assert_int_equal(execd_glob_has_slash(glob), cases[i].slash);
        execd_glob_free(glob);
    }
    execd_glob_free(NULL);
}

static void test_bad_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *message;
    } cases[] = {
        {"[", "not closed"},         {"[a", "not closed"},
        {"[]", "not closed"},        {"[!]", "not closed"},
        {"[z-a]", "backwards"},      {"a\\", "nothing follows"},
        {"[\\", "nothing follows"},  {"{a,b", "not closed"},
        {"{{a}", "not closed"},      {"!(a", "not closed"},
        {"!(a|!(b))", "in another"}, {"!(a/b)", "\"/\""},
        {"!({!(a)})", "in another"}, {"{{{{{{{{{a}}}}}}}}}", "too deep"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct execd_glob *glob = NULL;
        struct error err = ERROR_INIT;
        assert_true(execd_glob_parse(cases[i].pattern, &glob, &err) < 0);
        assert_null(glob);
        assert_int_equal(err.code, ERR_INVALID);
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].pattern, err.message);
    }
    char longest[EXECD_GLOB_MAX + 2];
    memset(longest, '{', sizeof(longest));
    longest[EXECD_GLOB_MAX + 1] = '\0';
    struct execd_glob *glob = NULL;
    assert_true(execd_glob_parse(longest, &glob, NULL) < 0);
    memset(longest, '*', sizeof(longest));
    longest[EXECD_GLOB_MAX] = '\0';
    assert_int_equal(execd_glob_parse(longest, &glob, NULL), 0);
    execd_glob_free(glob);
}

/* With back-tracking each of these would not end before the sun does. */
static void test_work_is_bounded(void **state)
{
    (void)state;
    char text[256];
    memset(text, 'a', 255);
    text[255] = '\0';
    char pattern[EXECD_GLOB_MAX + 1] = "";
    static const char *const units[] = {"*a", "{a,aa,*}", "!(b)", "{*,**}a", "!(*a*b*)"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        size_t length = 0;
        while (length + strlen(units[i]) + 1 < sizeof(pattern)) {
            memcpy(pattern + length, units[i], strlen(units[i]));
            length += strlen(units[i]);
        }
        pattern[length] = 'b';
        pattern[length + 1] = '\0';
        assert_false(matches(pattern, text));
    }
}

static void test_long_text(void **state)
{
    (void)state;
    char text[3001];
    for (size_t i = 0; i < 3000; i++)
        text[i] = i % 10 == 9 ? '/' : 'a';
    text[3000] = '\0';
    assert_true(matches("**/aaaaaaaaa/", text));
    assert_false(matches("**/b", text));
    assert_true(matches("**", text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_branches),     cmocka_unit_test(test_negations),
        cmocka_unit_test(test_paths),        cmocka_unit_test(test_slash),
        cmocka_unit_test(test_bad_patterns), cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
