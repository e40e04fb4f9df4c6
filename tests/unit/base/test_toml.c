#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/toml.h"

static struct toml *doc;

static int tear_down(void **state)
{
    (void)state;
    doc = toml_free(doc);
    return 0;
}

static const struct toml_value *parse(const char *text)
{
    struct error err = ERROR_INIT;
    doc = toml_free(doc);
    if (toml_parse("config.toml", text, strlen(text), &doc, &err) < 0)
        fail_msg("%s", err.message);
    return toml_root(doc);
}

static const char *string_at(const struct toml_value *table, const char *key)
{
    struct error err = ERROR_INIT;
    const char *value = NULL;
    if (toml_get_string(doc, table, key, &value, &err) < 0)
        fail_msg("%s", err.message);
    return value;
}

static int64_t int_at(const struct toml_value *table, const char *key)
{
    struct error err = ERROR_INIT;
    int64_t value = -99;
    if (toml_get_int(doc, table, key, INT64_MIN, INT64_MAX, &value, &err) < 0)
        fail_msg("%s", err.message);
    return value;
}

static double float_at(const struct toml_value *table, const char *key)
{
    struct error err = ERROR_INIT;
    double value = -99;
    if (toml_get_float(doc, table, key, (double)-INFINITY, (double)INFINITY, &value, &err) < 0)
        fail_msg("%s", err.message);
    return value;
}

static void test_empty(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    static const char *const texts[] = {"", "\n\n", "# comment", " \t# comment\r\n\n  ",
                                        "\xef\xbb\xbf# with a byte order mark\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct toml_value *root = parse(texts[i]);
        assert_int_equal(toml_type(root), TOML_TABLE);
        assert_null(toml_table_key(root, 0));
        assert_int_equal(toml_check_unused(doc, &err), 0);
    }
    struct toml *none = NULL;
    assert_int_equal(toml_parse("x", NULL, 0, &none, &err), 0);
    assert_null(toml_free(none));
    assert_null(toml_free(NULL));
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"a = 0", 0},
        {"a = +99", 99},
        {"a = -17", -17},
        {"a = +0", 0},
        {"a = 1_000_000", 1000000},
        {"a = 9223372036854775807", INT64_MAX},
        {"a = -9223372036854775808", INT64_MIN},
        {"a = 0xDEAD_beef", 0xdeadbeef},
        {"a = 0x00ff", 255},
        {"a = 0o755", 0755},
        {"a = 0b1101_0110", 0xd6},
        {"a = 0x7fffffffffffffff", INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(int_at(parse(cases[i].text), "a"), cases[i].value);
}

static void test_floats(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"a = 1.5", 1.5},  {"a = -0.01", -0.01},          {"a = 5e+2", 500},
        {"a = 1E06", 1e6}, {"a = 6.25e-2", 0.0625},       {"a = 9_0.5_0", 90.5},
        {"a = 3", 3},      {"a = inf", (double)INFINITY}, {"a = -inf", (double)-INFINITY},
        {"a = +0.0", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_true(float_at(parse(cases[i].text), "a") == cases[i].value);
    assert_int_equal(toml_type(toml_find(parse("a = nan"), "a")), TOML_FLOAT);
    assert_int_equal(toml_type(toml_find(parse("a = -nan"), "a")), TOML_FLOAT);
}

static void test_booleans(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    const struct toml_value *root = parse("yes = true\nno = false");
    bool yes = false, no = true, absent = true;
    assert_int_equal(toml_get_bool(doc, root, "yes", &yes, &err), 0);
    assert_int_equal(toml_get_bool(doc, root, "no", &no, &err), 0);
    assert_int_equal(toml_get_bool(doc, root, "absent", &absent, &err), 0);
    assert_true(yes && !no && absent);
}

static void test_strings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *value;
    } cases[] = {
        {"a = \"\"", ""},
        {"a = ''", ""},
        {"a = \"b\\t\\n\\\"\\\\\\b\\f\\r\"", "b\t\n\"\\\b\f\r"},
        {"a = \"\\u00e9\\u20AC\\U0001f600\\u007f\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f"},
        {"a = \"\xc3\xa9\"", "\xc3\xa9"},
        {"a = 'C:\\Users\\n'", "C:\\Users\\n"},
        {"a = \"# no comment\" # comment", "# no comment"},
        {"a = \"\"\"\none\ntwo\"\"\"", "one\ntwo"},
        {"a = \"\"\"\r\none\r\ntwo\r\n\"\"\"", "one\ntwo\n"},
        {"a = \"\"\"one \\\n   two \\  \n\n\n  three\"\"\"", "one two three"},
        {"a = \"\"\"\"quoted\"\"\"\"", "\"quoted\""},
        {"a = \"\"\"\"\"two\"\"\"\"\"", "\"\"two\"\""},
        {"a = \"\"\"x\"\"y\"\"\"", "x\"\"y"},
        {"a = \"\"\"\"\"\"", ""},
        {"a = '''\nno \\escape'\n'''", "no \\escape'\n"},
        {"a = '''''two'''''", "''two''"},
        {"a = \"tab\there\"", "tab\there"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(string_at(parse(cases[i].text), "a"), cases[i].value);
}

static void test_keys(void **state)
{
    (void)state;
    const struct toml_value *root = parse("bare_key-1 = 1\n"
                                          "1234 = 2\n"
                                          "\"with space\" = 3\n"
                                          "'literal\\' = 4\n"
                                          "\"\\u00e9\" = 5\n"
                                          "\"\" = 6\n"
                                          "a . \"b.c\" . d = 7\n"
                                          "a.x = 8\n"
                                          "true = 9\n");
    assert_int_equal(int_at(root, "bare_key-1"), 1);
    assert_int_equal(int_at(root, "1234"), 2);
    assert_int_equal(int_at(root, "with space"), 3);
    assert_int_equal(int_at(root, "literal\\"), 4);
    assert_int_equal(int_at(root, "\xc3\xa9"), 5);
    assert_int_equal(int_at(root, ""), 6);
    const struct toml_value *a = toml_find(root, "a");
    assert_int_equal(int_at(toml_find(a, "b.c"), "d"), 7);
    assert_int_equal(int_at(a, "x"), 8);
    assert_int_equal(int_at(root, "true"), 9);
    assert_string_equal(toml_table_key(root, 0), "bare_key-1");
    assert_string_equal(toml_table_key(root, 6), "a");
    assert_null(toml_table_key(root, 8));
    assert_null(toml_table_key(NULL, 0));
    assert_null(toml_table_key(toml_find(root, "1234"), 0));
}

static void test_tables(void **state)
{
    (void)state;
    const struct toml_value *root = parse("top = 1\n"
                                          "[a.b.c] # comment\n"
                                          "x = 2\n"
                                          "[a]\n"
                                          "x = 3\n"
                                          "y.z = 4\n"
                                          "[ a . 'y' . \"w\" ]\n"
                                          "v = 5\n"
                                          "[a.b]\n"
                                          "x = 6\n");
    const struct toml_value *a = toml_find(root, "a"), *b = toml_find(a, "b");
    assert_int_equal(int_at(root, "top"), 1);
    assert_int_equal(int_at(toml_find(b, "c"), "x"), 2);
    assert_int_equal(int_at(a, "x"), 3);
    assert_int_equal(int_at(toml_find(a, "y"), "z"), 4);
    assert_int_equal(int_at(toml_find(toml_find(a, "y"), "w"), "v"), 5);
    assert_int_equal(int_at(b, "x"), 6);
    assert_int_equal(toml_line(a), 4);
    assert_int_equal(toml_line(toml_find(b, "x")), 10);
}

static void test_arrays(void **state)
{
    (void)state;
    const struct toml_value *root = parse("a = [1, 'two', [3.0, []], {x = 4}, ]\n"
                                          "b = [ # comment\n"
                                          "  true,\n"
                                          "\n"
                                          "  false # last\n"
                                          "  ,\n"
                                          "]\n"
                                          "c = []\n");
    const struct toml_value *a = toml_find(root, "a");
    assert_int_equal(toml_array_count(a), 4);
    assert_int_equal(toml_type(toml_array_at(a, 0)), TOML_INTEGER);
    assert_string_equal(toml_string(toml_array_at(a, 1)), "two");
    assert_null(toml_string(toml_array_at(a, 0)));
    assert_null(toml_string(NULL));
    assert_int_equal(toml_array_count(toml_array_at(a, 2)), 2);
    assert_int_equal(int_at(toml_array_at(a, 3), "x"), 4);
    assert_null(toml_array_at(a, 4));
    const struct toml_value *b = toml_find(root, "b");
    assert_int_equal(toml_array_count(b), 2);
    assert_int_equal(toml_line(b), 2);
    assert_int_equal(toml_line(toml_array_at(b, 0)), 3);
    assert_int_equal(toml_line(toml_array_at(b, 1)), 5);
    assert_int_equal(toml_array_count(toml_find(root, "c")), 0);
    assert_int_equal(toml_array_count(root), 0);
    assert_int_equal(toml_array_count(NULL), 0);
    assert_null(toml_array_at(NULL, 0));
}

static void test_arrays_of_tables(void **state)
{
    (void)state;
    const struct toml_value *root = parse("[[fruit]]\n"
                                          "name = 'apple'\n"
                                          "[fruit.physical]\n"
                                          "color = 'red'\n"
                                          "[[fruit.kind]]\n"
                                          "name = 'delicious'\n"
                                          "[[fruit.kind]]\n"
                                          "name = 'smith'\n"
                                          "[[fruit]]\n"
                                          "[[fruit.kind]]\n"
                                          "name = 'plantain'\n");
    const struct toml_value *fruit = toml_find(root, "fruit");
    assert_int_equal(toml_array_count(fruit), 2);
    const struct toml_value *apple = toml_array_at(fruit, 0), *banana = toml_array_at(fruit, 1);
    assert_string_equal(string_at(apple, "name"), "apple");
    assert_string_equal(string_at(toml_find(apple, "physical"), "color"), "red");
    assert_int_equal(toml_array_count(toml_find(apple, "kind")), 2);
    assert_string_equal(string_at(toml_array_at(toml_find(apple, "kind"), 1), "name"), "smith");
    assert_string_equal(string_at(toml_array_at(toml_find(banana, "kind"), 0), "name"), "plantain");
    assert_int_equal(toml_line(banana), 9);
}

static void test_inline_tables(void **state)
{
    (void)state;
    const struct toml_value *root = parse("a = { x = 1, y.z = 'two', y.w = [\n3 ], n = {} }\n"
                                          "b = {}\n");
    const struct toml_value *a = toml_find(root, "a"), *y = toml_find(a, "y");
    assert_int_equal(int_at(a, "x"), 1);
    assert_string_equal(string_at(y, "z"), "two");
    assert_int_equal(toml_array_count(toml_find(y, "w")), 1);
    assert_int_equal(toml_type(toml_find(a, "n")), TOML_TABLE);
    assert_int_equal(toml_line(toml_find(root, "b")), 3);
}

static void test_look_ups_chain(void **state)
{
    (void)state;
    const struct toml_value *root = parse("a = 1");
    assert_null(toml_find(root, "none"));
    assert_null(toml_find(toml_find(root, "none"), "more"));
    assert_null(toml_find(toml_find(root, "a"), "x"));
    assert_null(string_at(NULL, "x"));
    assert_int_equal(int_at(toml_find(root, "none"), "x"), -99);
}

static void assert_unused(const char *message)
{
    struct error err = ERROR_INIT;
    int r = toml_check_unused(doc, &err);
    if (message == NULL) {
        if (r != 0)
            fail_msg("%s", err.message);
        return;
    }
    assert_int_equal(r, -EINVAL);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.message, message);
}

static void test_unused(void **state)
{
    (void)state;
    const struct toml_value *root = parse("[server]\n"
                                          "port = 1\n"
                                          "prot = 2\n"
                                          "[other.\"odd key\"]\n"
                                          "x = 1\n"
                                          "[server.tls]\n"
                                          "cert = 'x'\n");
    assert_unused("config.toml:1: unknown key 'server'");
    const struct toml_value *server = toml_find(root, "server");
    assert_unused("config.toml:2: unknown key 'server.port'");
    int_at(server, "port");
    assert_unused("config.toml:3: unknown key 'server.prot'");
    int_at(server, "prot");
    assert_unused("config.toml:4: unknown key 'other'");
    const struct toml_value *odd = toml_find(toml_find(root, "other"), "odd key");
    assert_unused("config.toml:5: unknown key 'other.\"odd key\".x'");
    int_at(odd, "x");
    assert_unused("config.toml:6: unknown key 'server.tls'");
    string_at(toml_find(server, "tls"), "cert");
    assert_unused(NULL);
}

static void test_unused_in_arrays(void **state)
{
    (void)state;
    const struct toml_value *root = parse("list = ['a', 'b']\n"
                                          "[[mount]]\n"
                                          "path = 'x'\n"
                                          "[[mount]]\n"
                                          "pth = 'y'\n");
    const struct toml_value *list = toml_find(root, "list"), *mount = toml_find(root, "mount");
    assert_unused("config.toml:1: unknown key 'list[0]'");
    toml_array_at(list, 0);
    assert_unused("config.toml:1: unknown key 'list[1]'");
    toml_array_at(list, 1);
    assert_unused("config.toml:2: unknown key 'mount[0]'");
    for (size_t i = 0; i < toml_array_count(mount); i++)
        string_at(toml_array_at(mount, i), "path");
    assert_unused("config.toml:5: unknown key 'mount[1].pth'");
}

static void test_asking_for_absent_keys_marks_nothing(void **state)
{
    (void)state;
    const struct toml_value *root = parse("prot = 1\n");
    int_at(root, "port");
    toml_table_key(root, 0);
    assert_unused("config.toml:1: unknown key 'prot'");
}

static void test_deep_limits(void **state)
{
    (void)state;
    parse("a=[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]");   /* the innermost value is on level 16 */
    parse("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p = 1"); /* so is this */
    parse("[a.b.c.d.e.f.g.h.i.j.k.l.m.n.o]\np = 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_empty, tear_down),
        cmocka_unit_test_teardown(test_integers, tear_down),
        cmocka_unit_test_teardown(test_floats, tear_down),
        cmocka_unit_test_teardown(test_booleans, tear_down),
        cmocka_unit_test_teardown(test_strings, tear_down),
        cmocka_unit_test_teardown(test_keys, tear_down),
        cmocka_unit_test_teardown(test_tables, tear_down),
        cmocka_unit_test_teardown(test_arrays, tear_down),
        cmocka_unit_test_teardown(test_arrays_of_tables, tear_down),
        cmocka_unit_test_teardown(test_inline_tables, tear_down),
        cmocka_unit_test_teardown(test_look_ups_chain, tear_down),
        cmocka_unit_test_teardown(test_unused, tear_down),
        cmocka_unit_test_teardown(test_unused_in_arrays, tear_down),
        cmocka_unit_test_teardown(test_asking_for_absent_keys_marks_nothing, tear_down),
        cmocka_unit_test_teardown(test_deep_limits, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
