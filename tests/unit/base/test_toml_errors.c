#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Every refusal of the TOML reader, with its line and its words. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/toml.h"

struct refusal {
    const char *text;
    const char *message; /* behind "c.toml:" */
};

static void assert_refused(const char *text, size_t length, const char *message)
{
    struct error err = ERROR_INIT;
    struct toml *doc = NULL;
    int r = toml_parse("c.toml", text, length, &doc, &err);
    toml_free(doc);
    if (r == 0)
        fail_msg("accepted: %s", text);
    assert_null(doc);
    assert_memory_equal(err.message, "c.toml:", 7);
    assert_string_equal(err.message + 7, message);
}

static void check(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_refused(refusals[i].text, strlen(refusals[i].text), refusals[i].message);
}

static void test_bytes(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"\n\na = '\xff'", "3: byte 0xff is not UTF-8"},
        {"# \xc3\n", "1: byte 0xc3 is not UTF-8"},
        {"# bell \x07", "1: control character 0x07 is not allowed"},
        {"a = 'x\x7f'", "1: control character 0x7f is not allowed"},
        {"a = 1\rb = 2", "1: control character 0x0d is not allowed"},
        {"a = 1\r", "1: control character 0x0d is not allowed"},
        {"\na = '''\n\x1b'''", "3: control character 0x1b is not allowed"},
    };
    check(refusals, ARRAY_LEN(refusals));
    assert_refused("a = 1\n\0", 7, "2: control character 0x00 is not allowed");
}

static void test_keys(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"= 1", "1: expected a key, not '='"},
        {"\n\xc3\xa9 = 1", "2: expected a key, not '\xc3\xa9'"},
        {"a", "1: expected '=' after a key, not the end of the file"},
        {"a\n= 1", "1: expected '=' after a key, not the end of the line"},
        {"a b = 1", "1: expected '=' after a key, not 'b'"},
        {"a. = 1", "1: expected a key, not '='"},
        {".a = 1", "1: expected a key, not '.'"},
        {"a..b = 1", "1: expected a key, not '.'"},
        {"\"\"\"a\"\"\" = 1", "1: expected '=' after a key, not '\"'"},
        {"\"a = 1", "1: string is not closed with \" on its line"},
        {"a = 1\na = 2", "2: 'a' is already defined on line 1"},
        {"a = 1\n\"a\" = 2", "2: 'a' is already defined on line 1"},
        {"a.b = 1\na.b = 2", "2: 'a.b' is already defined on line 1"},
        {"a = 1\na.b = 2", "2: 'a' is already defined on line 1"},
        {"a.b = 1\na = 2", "2: 'a' is already defined on line 1"},
    };
    check(refusals, ARRAY_LEN(refusals));
}

static void test_values(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"a =", "1: expected a value, not the end of the file"},
        {"a = # x\n", "1: expected a value, not the end of the line"},
        {"\na = \n1", "2: expected a value, not the end of the line"},
        {"a = ]", "1: expected a value, not ']'"},
        {"a = hello", "1: 'hello' is not a value; strings need quotes"},
        {"a = True", "1: 'True' is not a value; strings need quotes"},
        {"a = 1 2", "1: expected the end of the line, not '2'"},
        {"a = 1 b = 2", "1: expected the end of the line, not 'b'"},
        {"a = 'x' 'y'", "1: expected the end of the line, not '''"},
        {"a = true;", "1: expected the end of the line, not ';'"},
        {"a = 1979-05-27",
         "1: '1979-05-27' is a date or time, which is not supported here; quote it"},
        {"a = 1979-05-27T07:32:00Z",
         "1: '1979-05-27T07:32:00Z' is a date or time, which is not supported here; quote it"},
        {"a = 07:32:00", "1: '07:32:00' is a date or time, which is not supported here; quote it"},
        {"a = abcdefghijabcdefghijabcdefghijabcdefghijx",
         "1: 'abcdefghijabcdefghijabcdefghijabcdefghij...' is not a value; strings need quotes"},
    };
    check(refusals, ARRAY_LEN(refusals));
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *const malformed[] = {
        "01", "-01", "1_",   "1__0", "0x",   "0x_1", "0xg",   "0o8",  "0b2", "0b",   "1.",   "1.e5",
        "1e", "1e+", "1_.5", "1._5", "1e_5", "00.5", "1.5.5", "0X1F", "1-2", "-0x1", "0x1_",
    };
    for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
        char text[64] = "a = ", message[64] = "1: '";
        strcat(text, malformed[i]);
        strcat(strcat(message, malformed[i]), "' is not a number");
        assert_refused(text, strlen(text), message);
    }
    static const struct refusal refusals[] = {
        {"a = _1", "1: '_1' is not a number"},
        {"a = .5", "1: '.5' is not a value; strings need quotes"},
        {"a = +", "1: '+' is not a value; strings need quotes"},
        {"a = ++1", "1: '++1' is not a value; strings need quotes"},
        {"a = 9223372036854775808", "1: '9223372036854775808' does not fit into 64 bits"},
        {"a = -9223372036854775809", "1: '-9223372036854775809' does not fit into 64 bits"},
        {"a = 0x8000000000000000", "1: '0x8000000000000000' does not fit into 64 bits"},
        {"a = 0xfffffffffffffffff", "1: '0xfffffffffffffffff' does not fit into 64 bits"},
        {"a = 1e999", "1: '1e999' is too large for a float"},
    };
    check(refusals, ARRAY_LEN(refusals));
}

static void test_strings(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"\na = \"x", "2: string is not closed with \" on its line"},
        {"a = \"x\n\"", "1: string is not closed with \" on its line"},
        {"a = 'x\r\n'", "1: string is not closed with ' on its line"},
        {"a = \"\\\"", "1: string is not closed with \" on its line"},
        {"\n\na = \"\"\"x\n\n\"\"", "3: string is not closed with \"\"\""},
        {"a = '''x\n", "1: string is not closed with '''"},
        {"a = \"\"\"\"\"\"\"\"\"", "1: expected the end of the line, not '\"'"},
        {"a = \"\\x\"", "1: expected one of b, t, n, f, r, \", \\, u, U after '\\' (a string in "
                        "'...' takes it as it is), not 'x'"},
        {"a = \"\"\"\n\\ x\"\"\"", "2: expected one of b, t, n, f, r, \", \\, u, U after '\\' (a "
                                   "string in '...' takes it as it is), not ' '"},
        {"a = \"\\", "1: expected one of b, t, n, f, r, \", \\, u, U after '\\' (a string in '...' "
                     "takes it as it is), not the end of the file"},
        {"a = \"\\u12\"", "1: a \\u escape needs 4 hexadecimal digits"},
        {"a = \"\\U0001f60\"", "1: a \\U escape needs 8 hexadecimal digits"},
        {"a = \"\\u00", "1: a \\u escape needs 4 hexadecimal digits"},
        {"a = \"\\ud800\"", "1: U+d800 is not a character"},
        {"a = \"\\U00110000\"", "1: U+00110000 is not a character"},
        {"a = \"\\u0000\"", "1: the character U+0000 is not allowed"},
    };
    check(refusals, ARRAY_LEN(refusals));
}

static void test_tables(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"[]", "1: expected a key, not ']'"},
        {"[a", "1: expected ']' after the name of a table, not the end of the file"},
        {"[a b]", "1: expected ']' after the name of a table, not 'b'"},
        {"[[a]", "1: expected ']' after the name of an array of tables, not the end of the file"},
        {"[[a] ]", "1: expected ']' after the name of an array of tables, not ' '"},
        {"[a]]", "1: expected the end of the line, not ']'"},
        {"[a] b = 1", "1: expected the end of the line, not 'b'"},
        {"[a.]", "1: expected a key, not ']'"},
        {"[a]\n\n[a]", "3: 'a' is already defined on line 1"},
        {"[a.b]\n[a]\n[a]", "3: 'a' is already defined on line 2"},
        {"a = 1\n[a]", "2: 'a' is already defined on line 1"},
        {"a = 1\n[a.b]", "2: 'a' is already defined on line 1"},
        {"a.b = 1\n[a]", "2: 'a' is already defined on line 1"},
        {"[x]\na.b = 1\n[x.a]", "3: 'x.a' is already defined on line 2"},
        {"[a.b]\n[a]\nb.c = 1", "3: 'a.b' is already defined on line 1"},
        {"[a.b.c]\n[a]\nb.c.d = 1", "3: 'a.b' is already defined on line 1"},
        {"[[a]]\n[a]", "2: 'a' is already defined on line 1"},
        {"[a]\n[[a]]", "2: 'a' is already defined on line 1"},
        {"a = []\n[[a]]", "2: 'a' is already defined on line 1"},
        {"a = [{}]\n[a.b]", "2: 'a' is already defined on line 1"},
        {"[a.b]\n[[a]]", "2: 'a' is already defined on line 1"},
        {"[[a]]\n[[a.b]]\n[a.b]", "3: 'a[0].b' is already defined on line 2"},
    };
    check(refusals, ARRAY_LEN(refusals));
}

static void test_arrays_and_inline_tables(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"a = [1\n2]", "2: expected ',' or ']' in an array, not '2'"},
        {"a = [1,\n\n", "3: expected a value, not the end of the file"},
        {"a = [,]", "1: expected a value, not ','"},
        {"a = [1,,2]", "1: expected a value, not ','"},
        {"a = [\n'x\n']", "2: string is not closed with ' on its line"},
        {"a = {x = 1", "1: expected ',' or '}' in an inline table, not the end of the file"},
        {"a = {x = 1,}", "1: expected a key, not '}'"},
        {"a = {\nx = 1}", "1: expected a key, not the end of the line"},
        {"a = {x = 1\n}", "1: expected ',' or '}' in an inline table, not the end of the line"},
        {"a = {x = 1 # no\n}",
         "1: expected ',' or '}' in an inline table, not the end of the line"},
        {"a = {x = 1 y = 2}", "1: expected ',' or '}' in an inline table, not 'y'"},
        {"a = {x = 1, x = 2}", "1: 'a.x' is already defined on line 1"},
        {"a = {b = {}, b.c = 1}", "1: 'a.b' is already defined on line 1"},
        {"a = {}\na.b = 1", "2: 'a' is already defined on line 1"},
        {"a = {}\n[a.b]", "2: 'a' is already defined on line 1"},
        {"a = {b.c = 1}\n[a.b.d]", "2: 'a' is already defined on line 1"},
    };
    check(refusals, ARRAY_LEN(refusals));
}

static void test_depth(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"\na=[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", "2: nested deeper than 16"},
        {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q = 1", "1: nested deeper than 16"},
        {"[a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q]", "1: nested deeper than 16"},
        {"[[a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p]]", "1: nested deeper than 16"},
        {"a={a={a={a={a={a={a={a={a={a={a={a={a={a={a={a={a=1", "1: nested deeper than 16"},
    };
    check(refusals, ARRAY_LEN(refusals));
    struct buf CLEANUP(buf_done) text;
    buf_init(&text, TOML_MAX_BYTES);
    buf_add_str(&text, "a=");
    while (buf_add_char(&text, '[') == 0)
        continue;
    assert_refused(text.data, text.length, "1: nested deeper than 16");
}

static void test_sizes(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct toml *doc = NULL;
    struct buf CLEANUP(buf_done) text;
    buf_init(&text, TOML_MAX_BYTES + 1);
    for (int i = 0; i < 10000; i++)
        buf_printf(&text, "k%d = %d\n", i, i);
    assert_int_equal(toml_parse("c.toml", text.data, text.length, &doc, &err), 0);
    doc = toml_free(doc);
    buf_add_str(&text, "one = 'more'");
    assert_refused(text.data, text.length, "10001: more than 10000 values");

    buf_clear(&text);
    while (text.length < TOML_MAX_BYTES)
        buf_add_char(&text, '\n');
    assert_int_equal(toml_parse("c.toml", text.data, text.length, &doc, &err), 0);
    doc = toml_free(doc);
    buf_add_char(&text, '\n');
    assert_true(toml_parse("c.toml", text.data, text.length, &doc, &err) < 0);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.message, "c.toml: 1048577 bytes are more than the 1048576 allowed");
}

static void test_long_keys_in_messages(void **state)
{
    (void)state;
    char text[2000] = "", message[600] = "2: '";
    memset(text, 'k', 300);
    strcpy(text + 300, " = 1\n");
    memset(text + 305, 'k', 300);
    strcpy(text + 605, " = 2\n");
    memset(message + 4, 'k', 256);
    strcpy(message + 260, "' is already defined on line 1");
    assert_refused(text, strlen(text), message);
    assert_refused("\"\\u001b\\\"\" = 1\n\"\\u001b\\\"\" = 2", 29,
                   "2: '\"\\u001b\\\"\"' is already defined on line 1");
}

static void test_getters(void **state)
{
    (void)state;
    static const char text[] = "[server]\nport = 70000\nhost = 5\ntls = 'yes'\nratio = 1.5\n"
                               "list = []\nnot_number = nan\n";
    struct error err = ERROR_INIT;
    struct toml *doc = NULL;
    assert_int_equal(toml_parse("c.toml", text, strlen(text), &doc, &err), 0);
    const struct toml_value *server = toml_find(toml_root(doc), "server");
    int64_t number = 7;
    const char *string = "kept";
    bool flag = true;
    double ratio = 0.5;
    assert_int_equal(toml_get_int(doc, server, "port", 1, 65535, &number, &err), -EINVAL);
    assert_string_equal(err.message,
                        "c.toml:2: 'server.port' must be an integer from 1 to 65535, not 70000");
    assert_true(toml_get_int(doc, server, "port", 80000, 90000, &number, &err) < 0);
    assert_true(toml_get_int(doc, server, "ratio", 1, 9, &number, &err) < 0);
    assert_string_equal(err.message,
                        "c.toml:5: 'server.ratio' must be an integer from 1 to 9, not a float");
    assert_true(toml_get_string(doc, server, "host", &string, &err) < 0);
    assert_string_equal(err.message, "c.toml:3: 'server.host' must be a string, not an integer");
    assert_true(toml_get_bool(doc, server, "tls", &flag, &err) < 0);
    assert_string_equal(err.message, "c.toml:4: 'server.tls' must be true or false, not a string");
    assert_true(toml_get_float(doc, server, "ratio", 0, 1, &ratio, &err) < 0);
    assert_string_equal(err.message,
                        "c.toml:5: 'server.ratio' must be a number from 0 to 1, not 1.5");
    assert_true(toml_get_float(doc, server, "list", 0, 1, &ratio, &err) < 0);
    assert_string_equal(err.message,
                        "c.toml:6: 'server.list' must be a number from 0 to 1, not an array");
    assert_true(toml_get_float(doc, server, "not_number", 0, 1, &ratio, &err) < 0);
    assert_true(toml_get_string(doc, toml_root(doc), "server", &string, &err) < 0);
    assert_string_equal(err.message, "c.toml:1: 'server' must be a string, not a table");
    /* A value where a table is expected is not an absent table. */
    const struct toml_value *port = toml_find(server, "port");
    assert_true(toml_get_int(doc, port, "x", 0, 1, &number, &err) < 0);
    assert_string_equal(err.message, "c.toml:2: 'server.port' must be a table, not an integer");
    assert_int_equal(number, 7);
    assert_string_equal(string, "kept");
    assert_true(flag && ratio == 0.5);
    toml_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_arrays_and_inline_tables),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_long_keys_in_messages),
        cmocka_unit_test(test_getters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
