#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/create_request.h"

static const struct create_request_rules no_rules = {0};

static int parse(const char *text, struct create_request *request, struct problem *problem)
{
    *problem = (struct problem){0};
    return create_request_parse(text, strlen(text), &no_rules, request, problem);
}

/* A body that is right, but for what `member` (a JSON member, or "") adds or replaces. */
static char *body_with(const char *member)
{
    json_t *body = json_loads("{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"true\"],"
                              "\"resourceLimits\":{}}",
                              0, NULL);
    AUTO_FREE char *extra_text = mem_printf("{%s}", member);
    json_t *extra = json_loads(extra_text, 0, NULL);
    if (extra == NULL)
        fail_msg("test row is not JSON: %s", member);
    json_object_update(body, extra);
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(extra);
    json_decref(body);
    return text;
}

static void test_least(void **state)
{
    (void)state;
    struct create_request request;
    struct problem problem;
    AUTO_FREE char *body = body_with("");
    assert_int_equal(parse(body, &request, &problem), 0);
    assert_string_equal(request.image, "host");
    assert_int_equal(request.entrypoint.count, 1);
    assert_int_equal(request.command.count, 1);
    assert_int_equal(request.env.count, 0);
    assert_int_equal(request.metadata.count, 0);
    assert_int_equal(request.timeout_s, 0);
    assert_null(request.platform_os);
    create_request_done(&request);
}

static void test_everything(void **state)
{
    (void)state;
    struct create_request request;
    struct problem problem;
    AUTO_FREE char *body = body_with(
        "\"timeout\":600,\"resourceLimits\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},"
        "\"env\":{\"A\":\"b=c\",\"EMPTY\":\"\",\"GONE\":null},\"metadata\":{\"team\":\"x\"},"
        "\"entrypoint\":[\"sh\",\"-c\",\"echo hi\"],\"platform\":{\"os\":\" Linux \","
        "\"arch\":\"AMD64\"},\"extensions\":{\"my.own\":\"x\"},\"secureAccess\":false,"
        "\"volumes\":[],\"credentialProxy\":{\"enabled\":false},\"unknown\":{\"x\":[1]}");
    if (parse(body, &request, &problem) < 0)
        fail_msg("%s", problem.message);
    assert_int_equal(request.timeout_s, 600);
    assert_int_equal(request.limits.cpu_millis, 500);
    assert_int_equal(request.env.count, 2);
    assert_string_equal(request.env.items[0], "A=b=c");
    assert_string_equal(request.env.items[1], "EMPTY=");
    assert_null(request.env.items[2]);
    assert_string_equal(labels_find(&request.metadata, "team"), "x");
    assert_int_equal(request.command.count, 3);
    assert_string_equal(request.platform_os, "linux");
    assert_string_equal(request.platform_arch, "amd64");
    create_request_done(&request);
}

#define DENY(rules) "\"networkPolicy\":{\"defaultAction\":\"deny\",\"egress\":" rules "}"

static void test_accepted(void **state)
{
    (void)state;
    static const char *const rows[] = {
        /* every optional member as null, as Kotlin sends it */
        ("\"timeout\":null,\"env\":null,\"metadata\":null,\"platform\":null,\"networkPolicy\":null,"
         "\"credentialProxy\":null,\"secureAccess\":null,\"volumes\":null,\"extensions\":null,"
         "\"snapshotId\":null,\"image\":{\"uri\":\"host\",\"auth\":null}"),
        "\"env\":{},\"metadata\":{},\"extensions\":{}",
        "\"timeout\":60",
        "\"timeout\":315360000",
        "\"snapshotId\":\"  \"",
        "\"extensions\":{\"poolRef\":\"\"}",
        "\"extensions\":{\"poolRef\":null}",
        "\"extensions\":{\"opensandbox.extensions.x\":\"1\"}",
        "\"image\":{\"uri\":\"host\",\"auth\":{}}",
        "\"credentialProxy\":{}",
        "\"resourceRequests\":{\"cpu\":\"1\"}",
        "\"resource_limits\":5",
        "\"env\":{\"a.b-c\":\"x\"}",
        "\"entrypoint\":[\"a\",\"\"]",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct create_request request;
        struct problem problem;
        AUTO_FREE char *body = body_with(rows[i]);
        if (parse(body, &request, &problem) < 0)
            fail_msg("%s: %s", rows[i], problem.message);
        create_request_done(&request);
    }
}

static void test_network(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        enum create_request_network network;
    } rows[] = {
        {"\"networkPolicy\":null", CREATE_REQUEST_ANY_NETWORK},
        {"\"extensions\":{\"" CREATE_REQUEST_NETWORK "\":null}", CREATE_REQUEST_ANY_NETWORK},
        {"\"extensions\":{\"" CREATE_REQUEST_NETWORK "\":\"none\"}", CREATE_REQUEST_NO_NETWORK},
        {"\"extensions\":{\"" CREATE_REQUEST_NETWORK "\":\"nat\"}", CREATE_REQUEST_NAT},
        {"\"networkPolicy\":{\"defaultAction\":\"deny\"}", CREATE_REQUEST_NO_NETWORK},
        {DENY("null"), CREATE_REQUEST_NO_NETWORK},
        {DENY("[]"), CREATE_REQUEST_NO_NETWORK},
        {DENY("[{\"action\":\"deny\",\"target\":\"a\"}]"), CREATE_REQUEST_NO_NETWORK},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct create_request request;
        struct problem problem;
        AUTO_FREE char *body = body_with(rows[i].member);
        if (parse(body, &request, &problem) < 0)
            fail_msg("%s: %s", rows[i].member, problem.message);
        assert_int_equal(request.network, rows[i].network);
        create_request_done(&request);
    }
}

static void test_images(void **state)
{
    (void)state;
    static const char *const names[] = {"busybox", "debian:12", NULL};
    const struct create_request_rules rules = {.images = names};
    static const char *const rows[] = {"host", "busybox", "debian:12"};
    struct create_request request;
    struct problem problem = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *member = mem_printf("\"image\":{\"uri\":\"%s\"}", rows[i]);
        AUTO_FREE char *body = body_with(member);
        assert_int_equal(create_request_parse(body, strlen(body), &rules, &request, &problem), 0);
        assert_string_equal(request.image, rows[i]);
        create_request_done(&request);
    }
    AUTO_FREE char *body = body_with("\"image\":{\"uri\":\"debian\"}");
    assert_true(create_request_parse(body, strlen(body), &rules, &request, &problem) < 0);
    assert_string_equal(problem.code, "SANDBOX::IMAGE_NOT_FOUND");
    assert_non_null(strstr(problem.message, "\"busybox\", \"debian:12\""));
}

static void test_read_only_root(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool expected;
    } rows[] = {{"\"true\"", true}, {"\"false\"", false}, {"null", false}};
    struct create_request request;
    struct problem problem;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *member =
            mem_printf("\"extensions\":{\"" CREATE_REQUEST_READ_ONLY_ROOT "\":%s}", rows[i].value);
        AUTO_FREE char *body = body_with(member);
        assert_int_equal(parse(body, &request, &problem), 0);
        assert_int_equal(request.read_only_root, rows[i].expected);
        create_request_done(&request);
    }
}

#define INVALID "SANDBOX::INVALID_PARAMETER"

static const struct {
    const char *member;
    const char *code;
    const char *field;
    const char *in_message;
} refused[] = {
    {"\"image\":null", INVALID, "image", "missing"},
    {"\"image\":{}", INVALID, "image", "missing"},
    {"\"image\":{\"uri\":null}", INVALID, "image", "missing"},
    {"\"image\":{\"uri\":\" \"}", INVALID, "image", "missing"},
    {"\"image\":{\"uri\":5}", INVALID, "image", "string"},
    {"\"image\":\"host\"", INVALID, "image", "object"},
    {"\"image\":{\"uri\":\"python:3.11\"}", "SANDBOX::IMAGE_NOT_FOUND", "image",
     "\"python:3.11\" is not here"},
    {"\"image\":{\"uri\":\"HOST\"}", "SANDBOX::IMAGE_NOT_FOUND", "image", "\"host\""},
    {"\"image\":{\"uri\":\"host\",\"auth\":{\"username\":\"u\",\"password\":\"hunter2\"}}", INVALID,
     "image", "auth"},
    {"\"image\":{\"uri\":\"host\",\"auth\":\"hunter2\"}", INVALID, "image", "auth"},
    {"\"snapshotId\":\"abc\"", INVALID, "snapshotId", "not supported"},
    {"\"snapshotId\":7", INVALID, "snapshotId", "string"},
    {"\"platform\":{\"os\":\"windows\",\"arch\":\"amd64\"}", INVALID, "platform", "windows"},
    {"\"platform\":{\"os\":\"linux\",\"arch\":\"mips\"}", INVALID, "platform", "mips"},
    {"\"platform\":{\"os\":\"linux\"}", INVALID, "platform", "arch"},
    {"\"platform\":\"linux\"", INVALID, "platform", "object"},
    {"\"timeout\":59", INVALID, "timeout", "60"},
    {"\"timeout\":0", INVALID, "timeout", "60"},
    {"\"timeout\":-1", INVALID, "timeout", "60"},
    {"\"timeout\":315360001", INVALID, "timeout", "315360000"},
    {"\"timeout\":9223372036854775807", INVALID, "timeout", "315360000"},
    {"\"timeout\":\"abc\"", INVALID, "timeout", "integer"},
    {"\"timeout\":60.5", INVALID, "timeout", "integer"},
    {"\"timeout\":true", INVALID, "timeout", "integer"},
    {"\"resourceLimits\":null", INVALID, "resourceLimits", "missing"},
    {"\"resourceLimits\":[]", INVALID, "resourceLimits", "object"},
    {"\"resourceLimits\":{\"memory\":\"lots\"}", INVALID, "resourceLimits", "\"lots\""},
    {"\"env\":[]", INVALID, "env", "object"},
    {"\"env\":\"hunter2\"", INVALID, "env", "object"},
    {"\"env\":{\"A\":1}", INVALID, "env", "\"A\""},
    {"\"env\":{\"A=B\":\"hunter2\"}", INVALID, "env", "\"A=B\""},
    {"\"env\":{\"\":\"hunter2\"}", INVALID, "env", "empty"},
    {"\"metadata\":{\"bad key\":\"x\"}", "SANDBOX::INVALID_METADATA_LABEL", "metadata",
     "\"bad key\""},
    {"\"metadata\":[]", "SANDBOX::INVALID_METADATA_LABEL", "metadata", "object"},
    {"\"entrypoint\":null", INVALID, "entrypoint", "missing"},
    {"\"entrypoint\":[]", INVALID, "entrypoint", "1 to"},
    {"\"entrypoint\":\"true\"", INVALID, "entrypoint", "array"},
    {"\"entrypoint\":[1]", INVALID, "entrypoint", "entrypoint[0]"},
    {"\"entrypoint\":[\"a\",null]", INVALID, "entrypoint", "entrypoint[1]"},
    {"\"entrypoint\":[\"\"]", INVALID, "entrypoint", "empty"},
    {"\"entrypoint\":[\" \"]", INVALID, "entrypoint", "empty"},
    {"\"entrypoint\":[\"'' a\"]", INVALID, "entrypoint", "empty"},
    {"\"entrypoint\":[\"echo 'hunter2\"]", INVALID, "entrypoint", "quote"},
    {"\"networkPolicy\":{}", INVALID, "networkPolicy", "not supported"},
    {"\"networkPolicy\":[]", INVALID, "networkPolicy", "not supported"},
    {"\"networkPolicy\":{\"egress\":[]}", INVALID, "networkPolicy", "not supported"},
    {"\"networkPolicy\":{\"defaultAction\":\"allow\"}", INVALID, "networkPolicy", "not supported"},
    {"\"networkPolicy\":{\"defaultAction\":\"Deny\"}", INVALID, "networkPolicy", "not supported"},
    {DENY("{}"), INVALID, "networkPolicy", "not supported"},
    {DENY("[1]"), INVALID, "networkPolicy", "not supported"},
    {DENY("[{\"action\":\"deny\"}]"), INVALID, "networkPolicy", "not supported"},
    {DENY("[{\"action\":\"deny\",\"target\":\"\"}]"), INVALID, "networkPolicy", "not supported"},
    {DENY("[{\"action\":\"deny\",\"target\":\"a\"},{\"action\":\"allow\",\"target\":\"b\"}]"),
     INVALID, "networkPolicy", "not supported"},
    {"\"networkPolicy\":{\"defaultAction\":\"deny\"},\"extensions\":{\"" CREATE_REQUEST_NETWORK
     "\":\"nat\"}",
     INVALID, "networkPolicy", "leave one of them out"},
    {"\"extensions\":{\"" CREATE_REQUEST_NETWORK "\":\"host\"}", INVALID, "extensions",
     "\"none\" or \"nat\", not \"host\""},
    {"\"extensions\":{\"" CREATE_REQUEST_NETWORK "\":\"\"}", INVALID, "extensions", "\"none\""},
    {"\"credentialProxy\":{\"enabled\":true}", INVALID, "credentialProxy", "not supported"},
    {"\"credentialProxy\":{\"enabled\":\"yes\"}", INVALID, "credentialProxy", "object"},
    {"\"credentialProxy\":true", INVALID, "credentialProxy", "object"},
    {"\"secureAccess\":true", INVALID, "secureAccess", "not supported"},
    {"\"secureAccess\":\"no\"", INVALID, "secureAccess", "true or false"},
    {"\"volumes\":[{}]", "VOLUME::INVALID_NAME", "volumes", "volumes[0].name"},
    {"\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/v\",\"host\":{\"path\":\"/x\"}}]",
     "VOLUME::HOST_PATH_NOT_ALLOWED", "volumes", "allowed_host_paths"},
    {"\"volumes\":{}", INVALID, "volumes", "array"},
    {"\"extensions\":[]", INVALID, "extensions", "object"},
    {"\"extensions\":{\"x\":1}", INVALID, "extensions", "\"x\""},
    {"\"extensions\":{\"opensandbox.extensions.read-only-root\":\"yes\"}", INVALID, "extensions",
     "\"true\" or \"false\", not \"yes\""},
    {"\"extensions\":{\"opensandbox.extensions.read-only-root\":\"\"}", INVALID, "extensions",
     "\"true\""},
    {"\"extensions\":{\"opensandbox.extensions.read-only-root\":true}", INVALID, "extensions",
     "string"},
    {"\"extensions\":{\"poolRef\":\"p\"}", "SANDBOX::UNSUPPORTED_POOL_REF", "extensions", "pools"},
    {"\"extensions\":{\"access.renew.extend.seconds\":\"300\"}", INVALID, "extensions",
     "not supported"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct create_request request;
        struct problem problem;
        AUTO_FREE char *body = body_with(refused[i].member);
        if (parse(body, &request, &problem) != -EINVAL)
            fail_msg("%s was accepted", refused[i].member);
        if (strcmp(problem.code, refused[i].code) != 0 ||
            strcmp(problem.field, refused[i].field) != 0 ||
            strstr(problem.message, refused[i].in_message) == NULL)
            fail_msg("%s: %s at %s: %s", refused[i].member, problem.code, problem.field,
                     problem.message);
        if (strstr(problem.message, "hunter2") != NULL)
            fail_msg("%s: a secret is in the message: %s", refused[i].member, problem.message);
        assert_null(request.image);
        assert_int_equal(request.env.count, 0);
    }
}

static void test_pool_mode_is_recognised_first(void **state)
{
    (void)state;
    struct create_request request;
    struct problem problem;
    assert_true(parse("{\"extensions\":{\"poolRef\":\"p\"}}", &request, &problem) < 0);
    assert_string_equal(problem.code, "SANDBOX::UNSUPPORTED_POOL_REF");
}

static void test_not_an_object(void **state)
{
    (void)state;
    static const char *const rows[] = {"", "[]", "5", "null", "{", "{\"a\":1}x", "\"image\""};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct create_request request;
        struct problem problem;
        assert_true(parse(rows[i], &request, &problem) < 0);
        assert_string_equal(problem.code, INVALID);
    }
}

static void test_timeout_maximum_of_the_operator(void **state)
{
    (void)state;
    const struct create_request_rules rules = {.timeout_max_s = 3600};
    struct create_request request;
    struct problem problem = {0};
    AUTO_FREE char *most = body_with("\"timeout\":3600");
    AUTO_FREE char *more = body_with("\"timeout\":3601");
    assert_int_equal(create_request_parse(most, strlen(most), &rules, &request, &problem), 0);
    create_request_done(&request);
    assert_true(create_request_parse(more, strlen(more), &rules, &request, &problem) < 0);
    assert_non_null(strstr(problem.message, "3600"));
}

static void test_single_string_is_split(void **state)
{
    (void)state;
    struct create_request request;
    struct problem problem;
    AUTO_FREE char *body = body_with("\"entrypoint\":[\"sh -c 'sleep 1; true'\"]");
    assert_int_equal(parse(body, &request, &problem), 0);
    assert_int_equal(request.entrypoint.count, 1);
    assert_string_equal(request.entrypoint.items[0], "sh -c 'sleep 1; true'");
    assert_int_equal(request.command.count, 3);
    assert_string_equal(request.command.items[2], "sleep 1; true");
    create_request_done(&request);
    /* Two strings are two words, spaces or not. */
    AUTO_FREE char *two = body_with("\"entrypoint\":[\"my prog\",\"a b\"]");
    assert_int_equal(parse(two, &request, &problem), 0);
    assert_int_equal(request.command.count, 2);
    assert_string_equal(request.command.items[0], "my prog");
    create_request_done(&request);
}

static void fill_env(struct buf *body, int count)
{
    buf_clear(body);
    buf_add_str(body, "\"env\":{");
    for (int i = 0; i < count; i++)
        buf_printf(body, "%s\"E%d\":\"v\"", i > 0 ? "," : "", i);
    buf_add_char(body, '}');
}

static void test_sizes(void **state)
{
    (void)state;
    struct create_request request;
    struct problem problem;
    struct buf member;
    buf_init(&member, 1 << 20);

    fill_env(&member, CREATE_REQUEST_ENV_MAX);
    AUTO_FREE char *most = body_with(member.data);
    assert_int_equal(parse(most, &request, &problem), 0);
    assert_int_equal(request.env.count, CREATE_REQUEST_ENV_MAX);
    create_request_done(&request);
    fill_env(&member, CREATE_REQUEST_ENV_MAX + 1);
    AUTO_FREE char *more = body_with(member.data);
    assert_true(parse(more, &request, &problem) < 0);

    AUTO_FREE char *big = mem_alloc(CREATE_REQUEST_STRING_MAX + 2);
    memset(big, 'x', CREATE_REQUEST_STRING_MAX + 1);
    AUTO_FREE char *long_word = mem_printf("\"entrypoint\":[\"a\",\"%s\"]", big);
    AUTO_FREE char *long_word_body = body_with(long_word);
    assert_true(parse(long_word_body, &request, &problem) < 0);
    AUTO_FREE char *long_env = mem_printf("\"env\":{\"A\":\"%s\"}", big + 2);
    AUTO_FREE char *long_env_body = body_with(long_env);
    assert_true(parse(long_env_body, &request, &problem) < 0);
    AUTO_FREE char *fits = mem_printf("\"env\":{\"A\":\"%s\"}", big + 3);
    AUTO_FREE char *fits_body = body_with(fits);
    assert_int_equal(parse(fits_body, &request, &problem), 0);
    create_request_done(&request);
    buf_done(&member);
}

static void test_problem_json(void **state)
{
    (void)state;
    struct create_request request;
    struct problem problem;
    AUTO_FREE char *body = body_with("\"resourceLimits\":{\"cpu\":\"x\"}");
    assert_true(parse(body, &request, &problem) < 0);
    json_t *json = problem_to_json(&problem);
    assert_string_equal(json_string_value(json_object_get(json, "code")), INVALID);
    json_t *detail = json_array_get(json_object_get(json, "detail"), 0);
    json_t *loc = json_object_get(detail, "loc");
    assert_string_equal(json_string_value(json_array_get(loc, 0)), "body");
    assert_string_equal(json_string_value(json_array_get(loc, 1)), "resourceLimits");
    assert_string_equal(json_string_value(json_array_get(loc, 2)), "cpu");
    assert_non_null(json_object_get(detail, "type"));
    assert_non_null(json_object_get(detail, "msg"));
    json_decref(json);
}

/* Values are quoted in messages: cutting them must not leave half a character behind. */
static void test_long_values_stay_utf8(void **state)
{
    (void)state;
    for (size_t before = 0; before < 8; before++) {
        struct create_request request;
        struct problem problem;
        struct buf uri;
        buf_init(&uri, 4096);
        for (size_t i = 0; i < before; i++)
            buf_add_char(&uri, 'x');
        for (int i = 0; i < 300; i++)
            buf_add_str(&uri, "\xf0\x9f\x98\x80");
        AUTO_FREE char *member = mem_printf("\"image\":{\"uri\":\"%s\"}", uri.data);
        AUTO_FREE char *key = mem_printf("\"resourceLimits\":{\"%s\":\"1\"}", uri.data);
        AUTO_FREE char *body = body_with(member);
        AUTO_FREE char *key_body = body_with(key);
        assert_true(parse(body, &request, &problem) < 0);
        assert_true(str_is_utf8(problem.message, strlen(problem.message)));
        assert_true(parse(key_body, &request, &problem) < 0);
        assert_true(str_is_utf8(problem.message, strlen(problem.message)));
        assert_true(str_is_utf8(problem.member, strlen(problem.member)));
        json_t *json = problem_to_json(&problem);
        assert_non_null(json);
        json_decref(json);
        buf_done(&uri);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_read_only_root),
        cmocka_unit_test(test_pool_mode_is_recognised_first),
        cmocka_unit_test(test_not_an_object),
        cmocka_unit_test(test_timeout_maximum_of_the_operator),
        cmocka_unit_test(test_single_string_is_split),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_problem_json),
        cmocka_unit_test(test_long_values_stay_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
