/* As with the parser: every body is fed whole, byte by byte and cut at every place, with the same
 * outcome, written as "[name|filename|type]data;...". */
#include "http/multipart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

#define TYPE "multipart/form-data; boundary=XX"

struct recorder {
    struct buf log;
    int fail_at; /* this event refuses, 0: none */
    int seen;
};

static int refuse(struct recorder *recorder, struct error *err)
{
    if (++recorder->seen == recorder->fail_at)
        return error_set(err, ERR_DENIED, "no");
    return 0;
}

static int on_part(void *ctx, const struct http_multipart_part *part, struct error *err)
{
    struct recorder *recorder = ctx;
    buf_printf(&recorder->log, "[%s|%s|%s]", part->name,
               part->filename == NULL ? "-" : part->filename,
               part->type == NULL ? "-" : part->type);
    return refuse(recorder, err);
}

static int on_data(void *ctx, const char *bytes, size_t length, struct error *err)
{
    struct recorder *recorder = ctx;
    assert_true(length > 0);
    buf_add(&recorder->log, bytes, length);
    return refuse(recorder, err);
}

static int on_part_end(void *ctx, struct error *err)
{
    struct recorder *recorder = ctx;
    buf_add_char(&recorder->log, ';');
    return refuse(recorder, err);
}

static const struct http_multipart_events events = {on_part, on_data, on_part_end};

static char *record(const char *type, const char *body, size_t length, size_t cut, size_t step)
{
    struct recorder recorder = {0};
    struct error err = ERROR_INIT;
    buf_init(&recorder.log, 1 << 20);
    struct http_multipart *multipart = http_multipart_new(type, &events, &recorder, &err);
    assert_non_null(multipart);
    int r = 0;
    for (size_t at = 0; r == 0 && at < length;) {
        size_t piece = step > 0 ? MIN(step, length - at) : at == 0 && cut > 0 ? cut : length - at;
        AUTO_FREE char *copy = mem_dup_n(body + at, piece);
        r = http_multipart_feed(multipart, copy, piece, &err);
        at += piece;
    }
    if (r == 0)
        r = http_multipart_end(multipart, &err);
    if (r < 0) {
        buf_printf(&recorder.log, "!%s", error_code_name(err.code));
        assert_true(http_multipart_feed(multipart, "x", 1, &err) < 0);
        assert_true(http_multipart_end(multipart, &err) < 0);
    }
    http_multipart_free(multipart);
    return buf_take(&recorder.log);
}

static void assert_body_n(const char *type, const char *body, size_t length, const char *expected)
{
    AUTO_FREE char *whole = record(type, body, length, 0, 0);
    assert_string_equal(whole, expected);
    AUTO_FREE char *bytewise = record(type, body, length, 0, 1);
    assert_string_equal(bytewise, expected);
    for (size_t cut = 1; cut < length; cut++) {
        AUTO_FREE char *halves = record(type, body, length, cut, 0);
        if (!str_equal(halves, expected))
            fail_msg("%s\ncut at %zu gives %s\nnot %s", body, cut, halves, expected);
    }
}

static void assert_body(const char *body, const char *expected)
{
    assert_body_n(TYPE, body, strlen(body), expected);
}

#define NAME "Content-Disposition: form-data; name=\"a\"\r\n"

static void test_bodies(void **state)
{
    (void)state;
    assert_body("--XX--", "");
    assert_body("--XX--\r\n", "");
    assert_body("--XX\r\n" NAME "\r\nhello\r\n--XX--\r\n", "[a|-|-]hello;");
    assert_body("--XX\r\n" NAME "\r\n\r\n--XX--", "[a|-|-];");
    assert_body("--XX\r\n\r\nno head\r\n--XX--", "[|-|-]no head;");
    assert_body("--XX  \t\r\n" NAME "\r\nx\r\n--XX\t\r\n" NAME
                "\r\ny\r\n--XX--epilogue\r\n--XX\r\n",
                "[a|-|-]x;[a|-|-]y;");
    assert_body("preamble\r\n--XXno\r\n-- XX\r\n--XX\r\n" NAME "\r\nx\r\n--XX--", "[a|-|-]x;");
    assert_body("\r\n--XX\r\n" NAME "\r\nx\r\n--XX--", "[a|-|-]x;");
}

static void test_data_that_looks_like_a_delimiter(void **state)
{
    (void)state;
#define DATA(data) assert_body("--XX\r\n" NAME "\r\n" data "\r\n--XX--", "[a|-|-]" data ";")
    DATA("\r");
    DATA("\n");
    DATA("\r\n");
    DATA("\r\r\n\r\n-\r\n--\r\n--X\r\n--x");
    DATA("--XX");
    DATA("a--XX--");
    DATA("\n--XX--");
    DATA("\r\n--XXX");
    DATA("\r\n--XX_more\r\n--XX.");
    DATA("\r\r\n--XY\r");
    assert_body("--XX\r\n" NAME "\r\n\r\r\n--XX--", "[a|-|-]\r;");
    assert_body("--XX\r\n" NAME "\r\n\r\n\r\n--XX--", "[a|-|-]\r\n;");
    static const char nul[] = "--XX\r\n" NAME "\r\na\0b\r\n--XX--";
    AUTO_FREE char *log = record(TYPE, nul, sizeof(nul) - 1, 0, 1);
    assert_memory_equal(log, "[a|-|-]a\0b;", 12);
}

static void test_part_heads(void **state)
{
    (void)state;
#define HEAD(head, expected) assert_body("--XX\r\n" head "\r\n\r\nx\r\n--XX--", "[" expected "]x;")
    HEAD("content-disposition:form-data;name=a;filename=b", "a|b|-");
    /* .NET */
    HEAD("Content-Type: application/json\r\nContent-Disposition: form-data; name=metadata; "
         "filename=metadata; filename*=utf-8''metadata",
         "metadata|metadata|application/json");
    /* Python: a full path as file name; browsers: quotes as %22, backslashes as they are */
    HEAD("Content-Disposition: form-data; name=\"file\"; filename=\"/tmp/a b;c.txt\"\r\n"
         "Content-Type: text/plain; charset=utf-8",
         "file|/tmp/a b;c.txt|text/plain; charset=utf-8");
    HEAD("Content-Disposition: form-data; name=\"f\"; filename=\"C:\\new\\%22x%22\"",
         "f|C:\\new\\%22x%22|-");
    /* Go escapes quotes and backslashes */
    HEAD("Content-Disposition: form-data; name=\"f\\\"g\\\\h\"; filename=\"\"", "f\"g\\h||-");
    /* OkHttp */
    HEAD(NAME "Content-Length: 1\r\nContent-Transfer-Encoding: Binary", "a|-|-");
    /* urllib3 before 2.0: only the extended form */
    HEAD("Content-Disposition: form-data; name=f; filename*=UTF-8''%C3%A4%20b", "f|\xc3\xa4 b|-");
    HEAD("Content-Disposition: form-data; name=f; filename*=latin1''%E4", "f|-|-");
    HEAD("Content-Disposition: FORM-DATA ; NAME = \"n\" ; ; x=y;", "n|-|-");
    HEAD("Content-Disposition: form-data", "|-|-");
    HEAD("Content-Disposition: form-data; name=\"\xc3\xa4\"", "\xc3\xa4|-|-");
    HEAD("X-Other: 1", "|-|-");
}

static void test_refused_part_heads(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "Content-Disposition: attachment; name=a",
        "Content-Disposition:",
        "Content-Disposition: form-data; name=a; name=b",
        "Content-Disposition: form-data; filename=a; filename=b",
        "Content-Disposition: form-data; filename*=utf-8''a; filename*=utf-8''b",
        "Content-Disposition: form-data; filename*=nothing",
        "Content-Disposition: form-data; filename*=utf-8''%zz",
        "Content-Disposition: form-data; filename*=utf-8''%00",
        "Content-Disposition: form-data; name=\"a",
        "Content-Disposition: form-data; name=\"a\"b",
        "Content-Disposition: form-data; name=a b",
        "Content-Disposition: form-data; name",
        "Content-Disposition: form-data; =a",
        "Content-Disposition: form-data name=a",
        "Content-Disposition: form-data; na me=a",
        (NAME "Content-Disposition: form-data; name=b"),
        (NAME "Content-Disposition: form-data"),
        "Content-Type: a\r\nContent-Type: b",
        "Content-Disposition : form-data; name=a",
        (NAME " folded"),
        "no colon",
        "X: \x01",
        ": x",
    };
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        size_t end = strlen(heads[i]);
        const char *crlf = end > 2 && strcmp(heads[i] + end - 2, "\r\n") == 0 ? "" : "\r\n";
        AUTO_FREE char *body = mem_printf("--XX\r\n%s%s\r\nx\r\n--XX--", heads[i], crlf);
        assert_body(body, "!INVALID");
    }
    assert_body("--XX\r\n" NAME "Content-Transfer-Encoding: base64\r\n\r\neA==\r\n--XX--",
                "!UNSUPPORTED");
    assert_body("--XX\nContent-Type: a\n\nx\n--XX--", "!INVALID"); /* bare LF */
    assert_body("--XX\r\n"
                "X: y\n\r\nx\r\n--XX--",
                "!INVALID");
}

static void test_refused_bodies(void **state)
{
    (void)state;
    assert_body("", "!INVALID");
    assert_body("no delimiter at all", "!INVALID");
    assert_body("--XX", "!INVALID");
    assert_body("--XX\r\n" NAME "\r\nx", "[a|-|-]x!INVALID");
    assert_body("--XX\r\n" NAME "\r\nx\r\n--XX", "[a|-|-]x!INVALID");
    assert_body("--XX\r\n" NAME "\r\nx\r\n--XX-", "[a|-|-]x;!INVALID");
    assert_body("--XX\r\n" NAME "\r\nx\r\n--XX-x", "[a|-|-]x;!INVALID");
    assert_body("--XX\r\n" NAME "\r\nx\r\n--XX x", "[a|-|-]x;!INVALID");
    assert_body("--XX\r\n" NAME "\r\nx\r\n--XX\rx", "[a|-|-]x;!INVALID");
    assert_body("--XX\r\n" NAME, "!INVALID");
}

static void test_boundaries(void **state)
{
    (void)state;
    static const char *const good[] = {
        "multipart/form-data; boundary=XX",
        "multipart/form-data;boundary=\"XX\"",
        "Multipart/Form-Data ; Boundary = XX ; a=b",
        "multipart/form-data; charset=utf-8; boundary=XX",
        "multipart/form-data; boundary=\"XX\";",
    };
    static const char body[] = "--XX\r\n" NAME "\r\nx\r\n--XX--";
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_body_n(good[i], body, strlen(body), "[a|-|-]x;");
    static const char odd[] = "--a b'()+_,-./:=?9--";
    assert_body_n("multipart/form-data; boundary=\"a b'()+_,-./:=?9\"", odd, strlen(odd), "");

    static const char *const bad[] = {
        "",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"XX",
        "multipart/form-data; boundary=\"XX \"",
        "multipart/form-data; boundary=X\xc3\xa4",
        "multipart/form-data; boundary=X*",
        "multipart/form-data; boundary=XX; boundary=YY",
        "multipart/form-data boundary=XX",
        "multipart/form-data; boundary",
        "multipart/form-dataX; boundary=XX",
        "multipart/mixed; boundary=XX",
        "application/json",
        ("multipart/form-data; boundary="
         "01234567890123456789012345678901234567890123456789012345678901234567890"),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct error err = ERROR_INIT;
        assert_null(http_multipart_new(bad[i], &events, NULL, &err));
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_null(http_multipart_new(NULL, &events, NULL, NULL));
    assert_null(http_multipart_free(NULL));
    struct http_multipart *longest =
        http_multipart_new("multipart/form-data; boundary="
                           "0123456789012345678901234567890123456789012345678901234567890123456789",
                           &events, NULL, NULL);
    assert_non_null(longest);
    http_multipart_free(longest);
}

static char *repeat(const char *prefix, const char *unit, size_t count, const char *suffix)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    buf_add_str(&out, prefix);
    for (size_t i = 0; i < count; i++)
        buf_add_str(&out, unit);
    buf_add_str(&out, suffix);
    return buf_take(&out);
}

/* Only how it ends. */
static void assert_long(const char *body, const char *ending)
{
    for (size_t step = 0; step < 2; step++) {
        AUTO_FREE char *log = record(TYPE, body, strlen(body), 0, step);
        size_t length = strlen(log);
        assert_true(length >= strlen(ending));
        assert_string_equal(log + length - strlen(ending), ending);
    }
}

static void test_limits(void **state)
{
    (void)state;
    AUTO_FREE char *parts = repeat("", "--XX\r\n\r\n\r\n", 10000, "--XX--");
    assert_long(parts, "[|-|-];");
    AUTO_FREE char *too_many = repeat("", "--XX\r\n\r\n\r\n", 10001, "--XX--");
    assert_long(too_many, "!LIMIT");
    AUTO_FREE char *fields = repeat("--XX\r\n", "X: y\r\n", 16, "\r\nx\r\n--XX--");
    assert_long(fields, "x;");
    AUTO_FREE char *fields_over = repeat("--XX\r\n", "X: y\r\n", 17, "\r\nx\r\n--XX--");
    assert_long(fields_over, "!LIMIT");
    AUTO_FREE char *head = repeat("--XX\r\nX:", "y", 8192 - 6, "\r\n\r\nx\r\n--XX--");
    assert_long(head, "x;");
    AUTO_FREE char *head_over = repeat("--XX\r\nX:", "y", 8192 - 5, "\r\n\r\nx\r\n--XX--");
    assert_long(head_over, "!LIMIT");
}

static void test_callbacks_stop(void **state)
{
    (void)state;
    static const char body[] = "--XX\r\n" NAME "\r\nx\r\n--XX--";
    for (int at = 1; at <= 3; at++) {
        struct recorder recorder = {.fail_at = at};
        struct error err = ERROR_INIT;
        buf_init(&recorder.log, 4096);
        struct http_multipart *multipart = http_multipart_new(TYPE, &events, &recorder, &err);
        assert_true(http_multipart_feed(multipart, body, strlen(body), &err) < 0);
        assert_int_equal(err.code, ERR_DENIED);
        assert_int_equal(recorder.seen, at);
        assert_true(http_multipart_end(multipart, NULL) < 0);
        assert_int_equal(recorder.seen, at);
        http_multipart_free(multipart);
        buf_done(&recorder.log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_data_that_looks_like_a_delimiter),
        cmocka_unit_test(test_part_heads),
        cmocka_unit_test(test_refused_part_heads),
        cmocka_unit_test(test_refused_bodies),
        cmocka_unit_test(test_boundaries),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_callbacks_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
