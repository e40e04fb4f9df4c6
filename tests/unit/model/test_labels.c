#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "model/labels.h"

struct row {
    const char *text;
    size_t length; /* 0: strlen */
    bool valid;
};

static size_t row_length(const struct row *row)
{
    return row->length != 0 ? row->length : strlen(row->text);
}

static void test_keys(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", 0, true},       {"A.b-c_d9", 0, true},
        {"0", 0, true},       {"example.com/name", 0, true},
        {"a/b", 0, true},     {"a-b.c-d/x", 0, true},
        {"", 0, false},       {"-a", 0, false},
        {"a-", 0, false},     {".a", 0, false},
        {"a_", 0, false},     {"a b", 0, false},
        {"a\n", 0, false},    {"a\nb", 0, false},
        {"\na", 0, false},    {"a\0b", 3, false},
        {"a\0", 2, false},    {"\xc3\xa9", 0, false},
        {"/a", 0, false},     {"a/", 0, false},
        {"a/b/c", 0, false},  {"A/b", 0, false},
        {"a_b/c", 0, false},  {"-a/b", 0, false},
        {"a-/b", 0, false},   {".a/b", 0, false},
        {"a./b", 0, false},   {"a..b/c", 0, false},
        {"a.-b/c", 0, false}, {"a-.b/c", 0, false},
        {"a/b\n", 0, false},  {"a\n/b", 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (labels_key_is_valid(rows[i].text, row_length(&rows[i])) != rows[i].valid)
            fail_msg("key %zu \"%s\"", i, rows[i].text);
}

static void test_values(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", 0, true},    {"v1.2-rc_3", 0, true}, {"-a", 0, false},       {"a.", 0, false},
        {"a b", 0, false}, {"abc\n", 0, false},    {"\n", 0, false},       {" ", 0, false},
        {"a\0", 2, false}, {"a/b", 0, false},      {"\xc3\xa9", 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (labels_value_is_valid(rows[i].text, row_length(&rows[i])) != rows[i].valid)
            fail_msg("value %zu \"%s\"", i, rows[i].text);
    assert_true(labels_value_is_valid("", 0));
}

static char *repeat(char c, size_t count)
{
    char *text = mem_alloc(count + 1);
    memset(text, c, count);
    return text;
}

static void test_lengths(void **state)
{
    (void)state;
    AUTO_FREE char *name63 = repeat('a', 63);
    AUTO_FREE char *name64 = repeat('a', 64);
    AUTO_FREE char *prefix253 = repeat('b', 253);
    AUTO_FREE char *prefix254 = repeat('b', 254);
    AUTO_FREE char *longest = mem_printf("%s/%s", prefix253, name63);
    AUTO_FREE char *long_prefix = mem_printf("%s/%s", prefix254, name63);
    AUTO_FREE char *long_name = mem_printf("%s/%s", prefix253, name64);
    assert_true(labels_key_is_valid(name63, 63));
    assert_false(labels_key_is_valid(name64, 64));
    assert_true(labels_value_is_valid(name63, 63));
    assert_false(labels_value_is_valid(name64, 64));
    assert_true(labels_key_is_valid(longest, strlen(longest)));
    assert_false(labels_key_is_valid(long_prefix, strlen(long_prefix)));
    assert_false(labels_key_is_valid(long_name, strlen(long_name)));
}

static int parse(const char *text, struct labels *labels, struct problem *problem)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    int r = labels_parse(json, labels, problem);
    json_decref(json);
    return r;
}

static void test_parse(void **state)
{
    (void)state;
    struct labels labels;
    struct problem problem = {0};
    assert_int_equal(parse("{}", &labels, &problem), 0);
    assert_int_equal(labels.count, 0);
    assert_int_equal(parse("{\"team\":\"a\",\"x.io/y\":\"\"}", &labels, &problem), 0);
    assert_int_equal(labels.count, 2);
    assert_string_equal(labels_find(&labels, "team"), "a");
    assert_string_equal(labels_find(&labels, "x.io/y"), "");
    assert_null(labels_find(&labels, "y"));
    json_t *json = labels_to_json(&labels);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"team\":\"a\",\"x.io/y\":\"\"}");
    free(text);
    json_decref(json);
    labels_done(&labels);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "[]",
        "\"a=b\"",
        "{\"a\":1}",
        "{\"a\":null}",
        "{\"a\":\"b c\"}",
        "{\"a\":\"b\\n\"}",
        "{\"a\\n\":\"b\"}",
        "{\"\":\"b\"}",
        "{\"ok\":\"ok\",\"not ok\":\"x\"}",
        "{\"opensandbox.io/id\":\"x\"}",
        "{\"opensandbox.io/\":\"x\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct labels labels;
        struct problem problem = {0};
        if (parse(rows[i], &labels, &problem) == 0 || labels.count != 0 ||
            strcmp(problem.code, "SANDBOX::INVALID_METADATA_LABEL") != 0)
            fail_msg("%s was accepted", rows[i]);
    }
}

static void test_too_many(void **state)
{
    (void)state;
    json_t *json = json_object();
    for (int i = 0; i < LABELS_MAX; i++) {
        AUTO_FREE char *key = mem_printf("k%d", i);
        json_object_set_new(json, key, json_string("v"));
    }
    struct labels labels;
    struct problem problem = {0};
    assert_int_equal(labels_parse(json, &labels, &problem), 0);
    assert_int_equal(labels.count, LABELS_MAX);
    labels_done(&labels);
    json_object_set_new(json, "more", json_string("v"));
    assert_true(labels_parse(json, &labels, &problem) < 0);
    json_decref(json);
}

static void test_set_replaces(void **state)
{
    (void)state;
    struct labels labels = {0};
    labels_set(&labels, "a", "1");
    labels_set(&labels, "a", "2");
    assert_int_equal(labels.count, 1);
    assert_string_equal(labels_find(&labels, "a"), "2");
    labels_done(&labels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_values),
        cmocka_unit_test(test_lengths),      cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_set_replaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
