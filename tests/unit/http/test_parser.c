/* Requests, limits, and what the parser holds. */
#include "parser_recorder.h"

/* --- requests that pass ----------------------------------------------------------------------- */

static void test_requests(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"", "end"},
        {"GET / HTTP/1.1\r\n" HOST "\r\n", "GET / 1.1 none keep|complete|end"},
        {"GET /a%2Fb/../c?x=1&y={z}|\"<>\\^` HTTP/1.1\r\n" HOST "\r\n",
         "GET /a%2Fb/../c?x=1&y={z}|\"<>\\^` 1.1 none keep|complete|end"},
        {"GET //h HTTP/1.1\r\nhost:[::1]:80\r\n\r\n", "GET //h 1.1 none keep|complete|end"},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * 1.1 none keep|complete|end"},
        {"GET / HTTP/1.0\r\n\r\n", "GET / 1.0 none close|complete|end"},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0 none keep|complete|end"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
         "GET / 1.0 none close|complete|end"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Close\r\n\r\n",
         "GET / 1.1 none close|complete|end"},
        {"GET / HTTP/1.1\r\n" HOST "X:\r\nY: \t \r\nZ:a\t b \r\n\r\n",
         "GET / 1.1 none keep|complete|end"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
         "POST / 1.1 length=0 keep|complete|end"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 005\r\n\r\nhello",
         "POST / 1.1 length=5 keep|hello|complete|end"},
        {"POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\nok",
         "POST / 1.1 length=2 keep continue|ok|complete|end"},
        /* Pipelined, with the CRLFs that old clients put behind a body. */
        {"POST /1 HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok\r\n\r\n"
         "GET /2 HTTP/1.1\r\n" HOST "\r\nGET /3 HTTP/1.1\r\n" HOST "\r\n\r\n",
         "POST /1 1.1 length=2 keep|ok|complete|GET /2 1.1 none keep|complete|"
         "GET /3 1.1 none keep|complete|end"},
        {"DELETE /x HTTP/1.1\r\nX-A: \xc3\xa4\r\n" HOST "\r\n",
         "DELETE /x 1.1 none keep|complete|end"},
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
#define SEEN    "POST / 1.1 chunked keep|"

static void test_chunked_requests(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {CHUNKED "0\r\n\r\n", SEEN "complete|end"},
        {CHUNKED "5\r\nhello\r\n0\r\n\r\n", SEEN "hello|complete|end"},
        {CHUNKED "1\r\na\r\n00A\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
         SEEN "a\r\n\r\n\r\n\r\n\r\n|complete|end"},
        {CHUNKED "2;x=y;z=\"q\"\r\nhi\r\n0;\tlast \r\n\r\n", SEEN "hi|complete|end"},
        {CHUNKED "1\r\na\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\nGET / HTTP/1.0\r\n\r\n",
         SEEN "a|complete|GET / 1.0 none close|complete|end"},
        {CHUNKED "0000000000000001\r\na\r\n0000000000000000\r\n\r\n", SEEN "a|complete|end"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \tChunked \r\n\r\n0\r\n\r\n",
         SEEN "complete|end"},
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

#define UPGRADE HOST "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"

static void test_upgrade_requests(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"GET /ws HTTP/1.1\r\n" UPGRADE "\r\n", "GET /ws 1.1 none keep upgrade|rest "},
        {"GET /ws HTTP/1.1\r\n" UPGRADE "\r\n\r\n\x81 not HTTP",
         "GET /ws 1.1 none keep upgrade|rest \r\n\x81 not HTTP"},
        {"GET /ws HTTP/1.1\r\n" UPGRADE "Content-Length: 0\r\n\r\nx",
         "GET /ws 1.1 length=0 keep upgrade|rest x"},
        /* One of the two fields alone is no upgrade, nor is one in HTTP/1.0. */
        {"GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\n\r\n",
         "GET / 1.1 none keep|complete|end"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: \r\n\r\n",
         "GET / 1.1 none keep|complete|end"},
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: h2c\r\n\r\n", "GET / 1.1 none keep|complete|end"},
        {"GET / HTTP/1.0\r\n" UPGRADE "\r\n", "GET / 1.0 none keep|complete|end"},
        /* With a body the offer to upgrade is ignored. */
        {"POST / HTTP/1.1\r\n" UPGRADE "Content-Length: 1\r\n\r\nx",
         "POST / 1.1 length=1 keep|x|complete|end"},
        {"POST / HTTP/1.1\r\n" UPGRADE "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "POST / 1.1 chunked keep|complete|end"},
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

static void test_upgrade_not_taken_goes_on(void **state)
{
    (void)state;
    static const char input[] = "GET /ws HTTP/1.1\r\n" UPGRADE "\r\nGET /2 HTTP/1.0\r\n\r\n";
    struct recorder recorder = {0};
    struct error err = ERROR_INIT;
    buf_init(&recorder.log, LOG_MAX);
    recorder.parser = http_parser_new(HTTP_PARSE_REQUESTS, &events, &recorder);
    size_t length = strlen(input);
    ssize_t n = http_parser_feed(recorder.parser, input, length, &err);
    assert_string_equal(recorder.log.data, "GET /ws 1.1 none keep upgrade|");
    n += http_parser_feed(recorder.parser, input + n, length - (size_t)n, &err);
    n += http_parser_feed(recorder.parser, input + n, length - (size_t)n, &err);
    assert_int_equal(n, length);
    assert_string_equal(recorder.log.data, "GET /ws 1.1 none keep upgrade|complete|"
                                           "GET /2 1.0 none close|complete|");
    http_parser_free(recorder.parser);
    buf_done(&recorder.log);
}

/* --- requests that are refused ---------------------------------------------------------------- */

static void test_refused_start_lines(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"GET / HTTP/1.2\r\n" HOST "\r\n", "error 505"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", "error 505"},
        {"GET / HTTP/0.9\r\n" HOST "\r\n", "error 505"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "error 505"},
        {"GET / HTTP/1.10\r\n" HOST "\r\n", "error 400"},
        {"GET / HTTP/1\r\n" HOST "\r\n", "error 400"},
        {"GET / http/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET / ICE/1.1\r\n" HOST "\r\n", "error 400"},
        {"SOURCE / ICE/1.0\r\n" HOST "\r\n", "error 400"},
        {"OPTIONS * RTSP/1.0\r\n" HOST "\r\n", "error 400"},
        {"GET /\r\n" HOST "\r\n", "error 400"},
        {"GET\r\n" HOST "\r\n", "error 400"},
        {"GET HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET /  HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", "error 400"},
        {" GET / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET\t/ HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET /a b HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET /a\tb HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET http://h/ HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET h:80 HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET ?x HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"OPTIONS ** HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", "error 501"},
        {"BREW / HTTP/1.1\r\n" HOST "\r\n", "error 501"},
        {"get / HTTP/1.1\r\n" HOST "\r\n", "error 501"},
        {"GETGETGETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n" HOST "\r\n", "error 501"},
        {"G(T / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"\nGET / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"\rGET / HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"\x16\x03\x01\x02", "error 400"}, /* TLS on a plain port */
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

static void test_refused_lines(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        /* bare LF and bare CR */
        {"GET / HTTP/1.1\nHost: h\n\n", "error 400"},
        {"GET / HTTP/1.1\r\nHost: h\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\nHost: h\r\n\n", "error 400"},
        {"GET / HTTP/1.1\r\nHost: h\r\n\rX: y\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\nHo\rst: h\r\n\r\n", "error 400"},
        {"GET /\r HTTP/1.1\r\nHost: h\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", "error 400"},
        /* obs-fold */
        {"GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n X: a\r\n" HOST "\r\n", "error 400"},
        /* names */
        {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\nHost\t: h\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X y: z\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X\xc3\xa4: z\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X(): z\r\n\r\n", "error 400"},
        /* control characters */
        {"GET / HTTP/1.1\r\n" HOST "X: a\x01\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X: \x7f\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "X: \x1b[1m\r\n\r\n", "error 400"},
        {"GET /\x0b HTTP/1.1\r\n" HOST "\r\n", "error 400"},
        {"GET /\x7f HTTP/1.1\r\n" HOST "\r\n", "error 400"},
    };
    assert_requests(cases, ARRAY_LEN(cases));

    static const char nul_value[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";
    static const char nul_name[] = "GET / HTTP/1.1\r\n" HOST "X\0: b\r\n\r\n";
    static const char nul_target[] = "GET /\0 HTTP/1.1\r\n" HOST "\r\n";
    assert_events(HTTP_PARSE_REQUESTS, NULL, nul_value, sizeof(nul_value) - 1, "error 400");
    assert_events(HTTP_PARSE_REQUESTS, NULL, nul_name, sizeof(nul_name) - 1, "error 400");
    assert_events(HTTP_PARSE_REQUESTS, NULL, nul_target, sizeof(nul_target) - 1, "error 400");
}

static void test_refused_hosts(void **state)
{
    (void)state;
    static const char *const good[] = {
        "h",     "h:80",    "a.b-c_d.example",       "127.0.0.1",
        "[::1]", "[::1]:1", "xn--4ca.example:65535", "[::ffff:1.2.3.4]",
        "a%20b",
    };
    static const char *const bad[] = {
        "",    " ",   ":80",      "h:",    "h:x",    "h:-1", "h:65536", "h:80:80", "h/p",
        "u@h", "a b", "[::1",     "[]",    "[::1]x", "h, h", "h?",      "[g]",     "h\"",
        "::1", "h#",  "http://h", "h:+80", "h: 80",  "h\\p", "[::1]:",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        AUTO_FREE char *input = mem_printf("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
        assert_events(HTTP_PARSE_REQUESTS, NULL, input, strlen(input),
                      "GET / 1.1 none keep|complete|end");
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_FREE char *input = mem_printf("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", bad[i]);
        assert_events(HTTP_PARSE_REQUESTS, NULL, input, strlen(input), "error 400");
    }
    static const struct exchange cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\nX: h\r\n\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", "error 400"},
        {"GET / HTTP/1.1\r\n" HOST "hOST: other\r\n\r\n", "error 400"},
        {"GET / HTTP/1.0\r\n" HOST HOST "\r\n", "error 400"},
        {"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "error 400"},
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

static void test_refused_lengths(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\ncontent-length: 2",
        "Content-Length: 1, 1",
        "Content-Length: 1 1",
        "Content-Length: +1",
        "Content-Length: -1",
        "Content-Length: 0x1",
        "Content-Length: 1.0",
        "Content-Length: 1e1",
        "Content-Length:",
        "Content-Length: x",
        "Content-Length: \"1\"",
        "Content-Length: 9223372036854775808",
        "Content-Length: 18446744073709551616",
        "Content-Length: 99999999999999999999999999",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        AUTO_FREE char *input =
            mem_printf("POST / HTTP/1.1\r\n" HOST "%s\r\n\r\n0\r\n\r\n", fields[i]);
        assert_events(HTTP_PARSE_REQUESTS, NULL, input, strlen(input), "error 400");
    }
    /* llhttp itself refuses what follows "chunked,". */
    static const struct exchange codings[] = {
        {"gzip", "error 501"},          {"identity", "error 501"},
        {"gzip, chunked", "error 501"}, {"chunked;q=1", "error 501"},
        {"xchunked", "error 501"},      {"chunkedx", "error 501"},
        {"\"chunked\"", "error 501"},   {",chunked", "error 501"},
        {"chun ked", "error 501"},      {"", "error 501"},
        {"cow", "error 501"},           {"chunked,", "error 400"},
        {"chunked, gzip", "error 400"}, {"chunked, chunked", "error 400"},
    };
    for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
        AUTO_FREE char *input = mem_printf(
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", codings[i].input);
        assert_events(HTTP_PARSE_REQUESTS, NULL, input, strlen(input), codings[i].expected);
    }
    static const struct exchange old[] = {
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "error 400"},
    };
    assert_requests(old, ARRAY_LEN(old));
}

static void test_refused_chunks(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        /* sizes */
        {CHUNKED "\r\n", SEEN "error 400"},
        {CHUNKED ";x\r\n", SEEN "error 400"},
        {CHUNKED "x\r\n", SEEN "error 400"},
        {CHUNKED "-1\r\n", SEEN "error 400"},
        {CHUNKED "+1\r\na\r\n", SEEN "error 400"},
        {CHUNKED " 1\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1 \r\na\r\n", SEEN "error 400"},
        {CHUNKED "1\t\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1 ;x\r\na\r\n", SEEN "error 400"},
        {CHUNKED "0x1\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1_0\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1,\r\na\r\n", SEEN "error 400"},
        {CHUNKED "g\r\n", SEEN "error 400"},
        {CHUNKED "8000000000000000\r\na", SEEN "error 400"},
        {CHUNKED "ffffffffffffffff\r\na", SEEN "error 400"},
        {CHUNKED "10000000000000001\r\na", SEEN "error 400"},
        {CHUNKED "00000000000000001\r\na", SEEN "error 400"},
        /* line ends */
        {CHUNKED "1\na\r\n0\r\n\r\n", SEEN "error 400"},
        {CHUNKED "1\ra\r\n0\r\n\r\n", SEEN "error 400"},
        {CHUNKED "1\r\r\na\r\n0\r\n\r\n", SEEN "error 400"},
        {CHUNKED "1;a\nb\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1;a\rb\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1;\x01\r\na\r\n", SEEN "error 400"},
        {CHUNKED "1;x=\"\x7f\"\r\na\r\n", SEEN "error 400"},
        /* behind the data */
        {CHUNKED "1\r\nab\r\n", SEEN "a|error 400"},
        {CHUNKED "1\r\na0\r\n\r\n", SEEN "a|error 400"},
        {CHUNKED "1\r\na\n0\r\n\r\n", SEEN "a|error 400"},
        {CHUNKED "1\r\na\rx", SEEN "a|error 400"},
        {CHUNKED "1\r\na\r\n\r\n", SEEN "a|error 400"},
        /* trailers */
        {CHUNKED "0\r\n\n", SEEN "error 400"},
        {CHUNKED "0\r\n\rX", SEEN "error 400"},
        {CHUNKED "0\r\nX: y\n\r\n", SEEN "error 400"},
        {CHUNKED "0\r\nX: y\rz\r\n\r\n", SEEN "error 400"},
        {CHUNKED "0\r\nX : y\r\n\r\n", SEEN "error 400"},
        {CHUNKED "0\r\nX: y\r\n z\r\n\r\n", SEEN "error 400"},
        {CHUNKED "0\r\nX\r\n\r\n", SEEN "error 400"},
        {CHUNKED "0\r\nX: \x01\r\n\r\n", SEEN "error 400"},
        {CHUNKED "0\r\nGET / HTTP/1.1\r\n\r\n", SEEN "error 400"},
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

static void test_cut_requests(void **state)
{
    (void)state;
    static const struct exchange cases[] = {
        {"G", "cut"},
        {"\r", "cut"},
        {"\r\n", "end"},
        {"GET / HTTP/1.1\r\n" HOST "\r", "cut"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nab",
         "POST / 1.1 length=3 keep|ab|cut"},
        {CHUNKED, SEEN "cut"},
        {CHUNKED "1\r\na\r\n", SEEN "a|cut"},
        {CHUNKED "1\r\na\r\n0\r\n", SEEN "a|cut"},
        {CHUNKED "1\r\na\r\n0\r\n\r", SEEN "a|cut"},
    };
    assert_requests(cases, ARRAY_LEN(cases));
}

/* --- limits ----------------------------------------------------------------------------------- */

/* `prefix`, then `unit` so often, then `suffix`. */
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

/* Too long to be cut at every place: whole, byte by byte, and around its end. */
static void assert_events_long(const char *input, const char *expected)
{
    size_t length = strlen(input);
    for (size_t cut = 0; cut < 40 && cut < length; cut++) {
        AUTO_FREE char *cut_late =
            record(HTTP_PARSE_REQUESTS, NULL, false, input, length, length - cut, 0);
        assert_string_equal(cut_late, expected);
    }
    AUTO_FREE char *bytewise = record(HTTP_PARSE_REQUESTS, NULL, false, input, length, 0, 1);
    assert_string_equal(bytewise, expected);
}

static void test_head_size(void **state)
{
    (void)state;
    static const char prefix[] = "GET / HTTP/1.1\r\n" HOST "X: ";
    size_t fill = HTTP_HEAD_MAX - strlen(prefix) - 4;
    AUTO_FREE char *fits = repeat(prefix, "a", fill, "\r\n\r\n");
    assert_events_long(fits, "GET / 1.1 none keep|complete|end");
    AUTO_FREE char *over = repeat(prefix, "a", fill + 1, "\r\n\r\n");
    assert_events_long(over, "error 431");
    AUTO_FREE char *target = repeat("GET /", "a", HTTP_HEAD_MAX, " HTTP/1.1\r\n" HOST "\r\n");
    assert_events_long(target, "error 431");
    /* The limit is of one head, not of all heads of a connection. */
    AUTO_FREE char *many = repeat(prefix, "a", fill, "\r\n\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n");
    assert_events_long(many, "GET / 1.1 none keep|complete|GET /2 1.1 none keep|complete|end");
}

static void test_field_count(void **state)
{
    (void)state;
    AUTO_FREE char *fits =
        repeat("GET / HTTP/1.1\r\n" HOST, "X: y\r\n", HTTP_HEADER_COUNT_MAX - 1, "\r\n");
    assert_events_long(fits, "GET / 1.1 none keep|complete|end");
    AUTO_FREE char *over =
        repeat("GET / HTTP/1.1\r\n" HOST, "X: y\r\n", HTTP_HEADER_COUNT_MAX, "\r\n");
    assert_events_long(over, "error 431");
}

static void test_chunk_limits(void **state)
{
    (void)state;
    AUTO_FREE char *extension = repeat(CHUNKED "1;", "a", 1024, "\r\na\r\n0\r\n\r\n");
    assert_events_long(extension, SEEN "a|complete|end");
    AUTO_FREE char *extension_over = repeat(CHUNKED "1;", "a", 1025, "\r\na\r\n0\r\n\r\n");
    assert_events_long(extension_over, SEEN "error 431");
    AUTO_FREE char *trailers = repeat(CHUNKED "0\r\n", "X: y\r\n", HTTP_HEADER_COUNT_MAX, "\r\n");
    assert_events_long(trailers, SEEN "complete|end");
    AUTO_FREE char *many = repeat(CHUNKED "0\r\n", "X: y\r\n", HTTP_HEADER_COUNT_MAX + 1, "\r\n");
    assert_events_long(many, SEEN "error 431");
    AUTO_FREE char *large = repeat(CHUNKED "0\r\nX: ", "a", HTTP_HEAD_MAX, "\r\n\r\n");
    assert_events_long(large, SEEN "error 431");
}

/* --- head contents, state and memory ---------------------------------------------------------- */

static int check_fields(void *ctx, struct http_head *head)
{
    *(bool *)ctx = true;
    assert_int_equal(head->headers.count, 4);
    assert_string_equal(head->headers.items[0].name, "hOsT");
    assert_string_equal(head->headers.items[0].value, "h");
    assert_string_equal(head->headers.items[1].value, "");
    assert_string_equal(head->headers.items[2].value, "a \t b: c");
    assert_string_equal(head->headers.items[3].name, "X-2");
    assert_string_equal(head->headers.items[3].value, "\xff");
    return 0;
}

static int ignore_body(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    (void)bytes;
    (void)length;
    return 0;
}

static int ignore_complete(void *ctx)
{
    (void)ctx;
    return 0;
}

static void test_fields_are_passed_on(void **state)
{
    (void)state;
    static const struct http_parser_events field_events = {check_fields, ignore_body,
                                                           ignore_complete};
    static const char input[] = "GET / HTTP/1.1\r\nhOsT: \t h \r\nX-1: \r\nx-1:a \t b: c\r\n"
                                "X-2: \xff\r\n\r\n";
    bool seen = false;
    struct error err = ERROR_INIT;
    struct http_parser *parser = http_parser_new(HTTP_PARSE_REQUESTS, &field_events, &seen);
    assert_int_equal(http_parser_feed(parser, input, strlen(input), &err), strlen(input));
    assert_true(seen);
    http_parser_free(parser);
}

static void test_state_between_messages(void **state)
{
    (void)state;
    struct recorder recorder = {0};
    struct error err = ERROR_INIT;
    buf_init(&recorder.log, LOG_MAX);
    struct http_parser *parser = http_parser_new(HTTP_PARSE_REQUESTS, &events, &recorder);
    assert_true(http_parser_is_idle(parser));
    assert_false(http_parser_in_head(parser));
    http_parser_feed(parser, "POST / HTTP/1.1\r\n", 17, &err);
    assert_false(http_parser_is_idle(parser));
    assert_true(http_parser_in_head(parser));
    http_parser_feed(parser, HOST "Content-Length: 2\r\n\r\n", 30, &err);
    assert_false(http_parser_is_idle(parser));
    assert_false(http_parser_in_head(parser));
    /* A message that is complete takes no byte of the next. */
    assert_int_equal(http_parser_feed(parser, "okGET", 5, &err), 2);
    assert_true(http_parser_is_idle(parser));
    assert_false(http_parser_in_head(parser));
    http_parser_free(parser);
    assert_null(http_parser_free(NULL));
    buf_done(&recorder.log);
}

#if defined(__SANITIZE_ADDRESS__)
#define MALLOC_IS_GLIBC 0
#elif defined(__has_feature)
#define MALLOC_IS_GLIBC !__has_feature(address_sanitizer)
#else
#define MALLOC_IS_GLIBC 1
#endif

static int ignore_head(void *ctx, struct http_head *head)
{
    (void)ctx;
    (void)head;
    return 0;
}

static void test_idle_holds_no_head(void **state)
{
    (void)state;
#if MALLOC_IS_GLIBC
    static const struct http_parser_events silent = {ignore_head, ignore_body, ignore_complete};
    AUTO_FREE char *input =
        repeat("GET / HTTP/1.1\r\n" HOST "X: ", "a", HTTP_HEAD_MAX / 2, "\r\n\r\n");
    struct error err = ERROR_INIT;
    size_t length = strlen(input);
    struct http_parser *parser = http_parser_new(HTTP_PARSE_REQUESTS, &silent, NULL);
    size_t before = mallinfo2().uordblks;
    assert_int_equal(http_parser_feed(parser, input, length / 2, &err), length / 2);
    assert_true(mallinfo2().uordblks > before);
    assert_int_equal(http_parser_feed(parser, input + length / 2, length - length / 2, &err),
                     length - length / 2);
    assert_int_equal(mallinfo2().uordblks, before);
    http_parser_free(parser);
#else
    skip();
#endif
}

struct pieces {
    size_t count;
    size_t bytes;
    size_t stop_at; /* the piece that asks to stop, from 1 */
    bool complete;
};

static int count_piece(void *ctx, const char *bytes, size_t length)
{
    struct pieces *pieces = ctx;
    for (size_t i = 0; i < length; i++)
        assert_int_equal(bytes[i], 'a' + (char)((pieces->bytes + i) % 26));
    pieces->bytes += length;
    return ++pieces->count == pieces->stop_at;
}

static int note_complete(void *ctx)
{
    struct pieces *pieces = ctx;
    pieces->complete = true;
    return 0;
}

/* However small the chunks are, there is not a piece for each: and none is lost by a stop. */
static void test_small_chunks_are_gathered(void **state)
{
    (void)state;
    static const struct http_parser_events gathering = {ignore_head, count_piece, note_complete};
    struct buf input;
    buf_init(&input, LOG_MAX);
    buf_add_str(&input, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 10000; i++)
        buf_printf(&input, "1\r\n%c\r\n", 'a' + i % 26);
    buf_add_str(&input, "0\r\n\r\n");
    for (size_t stop_at = 0; stop_at <= 4; stop_at++) {
        struct pieces pieces = {.stop_at = stop_at};
        struct error err = ERROR_INIT;
        struct http_parser *parser = http_parser_new(HTTP_PARSE_REQUESTS, &gathering, &pieces);
        size_t fed = 0;
        for (int feeds = 0; feeds < 3 && !pieces.complete; feeds++) {
            ssize_t n = http_parser_feed(parser, input.data + fed, input.length - fed, &err);
            assert_true(n >= 0);
            fed += (size_t)n;
        }
        assert_true(pieces.complete);
        assert_int_equal(fed, input.length);
        assert_int_equal(pieces.bytes, 10000);
        assert_int_equal(pieces.count, 3);
        http_parser_free(parser);
    }
    buf_done(&input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_chunked_requests),
        cmocka_unit_test(test_upgrade_requests),
        cmocka_unit_test(test_upgrade_not_taken_goes_on),
        cmocka_unit_test(test_refused_start_lines),
        cmocka_unit_test(test_refused_lines),
        cmocka_unit_test(test_refused_hosts),
        cmocka_unit_test(test_refused_lengths),
        cmocka_unit_test(test_refused_chunks),
        cmocka_unit_test(test_cut_requests),
        cmocka_unit_test(test_head_size),
        cmocka_unit_test(test_field_count),
        cmocka_unit_test(test_chunk_limits),
        cmocka_unit_test(test_small_chunks_are_gathered),
        cmocka_unit_test(test_fields_are_passed_on),
        cmocka_unit_test(test_state_between_messages),
        cmocka_unit_test(test_idle_holds_no_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
