#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "server/config.h"
#include "server/launcher_start.h"

static int parse(struct server_config *config, const char *text, struct error *err)
{
    server_config_init(config);
    return server_config_parse(config, "c.toml", text, strlen(text), err);
}

static void test_defaults(void **state)
{
    (void)state;
    struct server_config config;
    assert_int_equal(parse(&config, "", NULL), 0);
    assert_string_equal(config.host, "127.0.0.1");
    assert_int_equal(config.port, 8080);
    assert_null(config.api_key);
    assert_null(config.eip);
    assert_string_equal(config.user, "opensandbox");
    assert_string_equal(config.state_dir, "/var/lib/opensandbox");
    assert_int_equal(config.max_sandbox_timeout_seconds, 0);
    assert_int_equal(config.log_level, LOG_INFO);
    server_config_done(&config);
}

static void test_everything(void **state)
{
    (void)state;
    struct server_config config;
    struct error err = ERROR_INIT;
    static const char text[] = "[server]\n"
                               "host = \"::1\"\n"
                               "port = 0\n"
                               "api_key = \"k!\"\n"
                               "eip = \"box.example.com:8443/osb\"\n"
                               "user = \"nobody\"\n"
                               "state_dir = \"/srv/osb\"\n"
                               "max_sandbox_timeout_seconds = 86400\n"
                               "[log]\n"
                               "level = \"DEBUG\"\n"
                               "format = \"json\"\n"
                               "[runtime]\n"
                               "type = \"native\"\n"
                               "[launcher]\n"
                               "slots = 16\n"
                               "spare_seconds = 0\n"
                               "[storage]\n"
                               "allowed_host_paths = [\"/data\", \"/srv/x y\"]\n";
    if (parse(&config, text, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(config.host, "::1");
    assert_int_equal(config.port, 0);
    assert_string_equal(config.api_key, "k!");
    assert_string_equal(config.eip, "box.example.com:8443/osb");
    assert_string_equal(config.user, "nobody");
    assert_string_equal(config.state_dir, "/srv/osb");
    assert_int_equal(config.max_sandbox_timeout_seconds, 86400);
    assert_int_equal(config.log_level, LOG_DEBUG);
    assert_int_equal(config.log_format, LOG_JSON);
    assert_int_equal(config.launcher_slots, 16);
    assert_int_equal(config.launcher_spare_s, 0);
    assert_int_equal(config.allowed_host_paths.count, 2);
    assert_string_equal(config.allowed_host_paths.items[1], "/srv/x y");
    server_config_done(&config);
}

static void test_images(void **state)
{
    (void)state;
    struct server_config config;
    struct error err = ERROR_INIT;
    static const char text[] = "[images.busybox]\n"
                               "path = \"/srv/images/busybox\"\n"
                               "user = \"1000:1000\"\n"
                               "workdir = \"/data\"\n"
                               "[images.\"debian:12\"]\n"
                               "path = \"/srv/images/debian\"\n";
    if (parse(&config, text, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(config.images.names.count, 2);
    const struct server_image *image = server_images_find(&config.images, "busybox");
    assert_string_equal(image->path, "/srv/images/busybox");
    assert_string_equal(image->user, "1000:1000");
    assert_string_equal(image->workdir, "/data");
    image = server_images_find(&config.images, "debian:12");
    assert_string_equal(image->path, "/srv/images/debian");
    assert_null(image->user);
    assert_null(image->workdir);
    assert_null(server_images_find(&config.images, "host"));
    server_config_done(&config);
}

/* What is configured, and nothing else, is told to a launcher that is started. */
static void test_network(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"", NULL},
        {"[network]\nmode = \"auto\"\ndns = []\n", NULL},
        {"[network]\nmode = \"none\"\n", " --network none --log-level"},
        {"[network]\nmode = \"nat\"\npool = \"10.9.0.0/20\"\ndns = [\"9.9.9.9\", \"1.1.1.1\"]\n",
         " --network nat --network-pool 10.9.0.0/20 --dns 9.9.9.9 --dns 1.1.1.1 --log-level"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct server_config config;
        struct error err = ERROR_INIT;
        assert_int_equal(parse(&config, rows[i].text, &err), 0);
        const struct server_launcher_options options = {
            .state_dir = "/s",
            .slots = -1,
            .spare_s = -1,
            .network = config.network,
            .network_pool = config.network_pool,
            .allowed_host_paths = &config.allowed_host_paths,
            .dns = &config.dns,
            .images = &config.images,
        };
        AUTO_FREE char *command = server_launcher_command(&options);
        if (rows[i].words != NULL)
            assert_non_null(strstr(command, rows[i].words));
        else
            assert_true(strstr(command, "--network") == NULL && strstr(command, "--dns") == NULL);
        server_config_done(&config);
    }
}

static void test_too_many_images(void **state)
{
    (void)state;
    struct server_config config;
    struct error err = ERROR_INIT;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 65536);
    for (int i = 0; i <= SERVER_IMAGES_MAX; i++) {
        server_config_init(&config);
        int r = server_config_parse(&config, "c.toml", text.data, text.length, &err);
        server_config_done(&config);
        assert_int_equal(r, 0);
        buf_printf(&text, "[images.i%d]\npath = \"/srv/a\"\n", i);
    }
    assert_true(parse(&config, text.data, &err) < 0);
    assert_non_null(strstr(err.message, "64"));
    server_config_done(&config);
}

/* Every refusal names the line and the key. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *place;
        const char *what;
    } rows[] = {
        {"[server]\nport = 65536\n", "c.toml:2:", "port"},
        {"[server]\nport = \"80\"\n", "c.toml:2:", "port"},
        {"[server]\nport = -1\n", "c.toml:2:", "port"},
        {"\n\n[server]\nhost = \"localhost\"\n", "c.toml:4:", "server.host"},
        {"[server]\nhost = 5\n", "c.toml:2:", "host"},
        {"[server]\napi_key = \"\"\n", "c.toml:2:", "server.api_key"},
        {"[server]\napi_key = \"a b\"\n", "c.toml:2:", "server.api_key"},
        {"[server]\napi_key = \"a\\nb\"\n", "c.toml:2:", "server.api_key"},
        {"[server]\neip = \"http://x\"\n", "c.toml:2:", "server.eip"},
        {"[server]\neip = \"x/\"\n", "c.toml:2:", "server.eip"},
        {"[server]\nuser = \"root\"\n", "c.toml:2:", "server.user"},
        {"[server]\nuser = \"\"\n", "c.toml:2:", "server.user"},
        {"[server]\nstate_dir = \"relative\"\n", "c.toml:2:", "server.state_dir"},
        {"[server]\nmax_sandbox_timeout_seconds = 59\n",
         "c.toml:2:", "max_sandbox_timeout_seconds"},
        {"[log]\nlevel = \"loud\"\n", "c.toml:2:", "log.level"},
        {"[log]\nformat = \"xml\"\n", "c.toml:2:", "log.format"},
        {"[runtime]\ntype = \"docker\"\n", "c.toml:2:", "runtime.type"},
        {"[launcher]\nslots = 65\n", "c.toml:2:", "slots"},
        {"[launcher]\nspare_seconds = 3601\n", "c.toml:2:", "spare_seconds"},
        {"[storage]\nallowed_host_paths = \"/data\"\n", "c.toml:2:", "array"},
        {"[storage]\nallowed_host_paths = [\"/data\",\n\"/\"]\n", "c.toml:3:", "other than /"},
        {"[storage]\nallowed_host_paths = [7]\n", "c.toml:2:", "absolute"},
        {"[storage]\nallowed_host_paths = [\"/a/../b\"]\n", "c.toml:2:", "'/a/../b'"},
        {"[network]\nmode = \"bridge\"\n", "c.toml:2:", "network.mode"},
        {"[network]\nmode = 1\n", "c.toml:2:", "mode"},
        {"[network]\npool = \"100.64.0.0\"\n", "c.toml:2:", "network.pool"},
        {"[network]\npool = \"100.64.0.0/29\"\n", "c.toml:2:", "8 to 28"},
        {"[network]\npool = \"100.64.0.0/7\"\n", "c.toml:2:", "network.pool"},
        {"[network]\npool = \"fd00::/16\"\n", "c.toml:2:", "network.pool"},
        {"[network]\npool = \"/16\"\n", "c.toml:2:", "network.pool"},
        {"[network]\ndns = \"1.1.1.1\"\n", "c.toml:2:", "network.dns"},
        {"[network]\ndns = [\"1.1.1.1\", \"x\"]\n", "c.toml:2:", "'x'"},
        {"[network]\ndns = [1]\n", "c.toml:2:", "network.dns"},
        {"[network]\ndns = [\"1.1.1.1\", \"1.1.1.1\", \"1.1.1.1\", \"1.1.1.1\"]\n",
         "c.toml:2:", "at most 3"},
        {"[network]\nname = \"x\"\n", "c.toml:2:", "name"},
        {"[server]\nprot = 80\n", "c.toml:2:", "prot"},
        {"[server]\n[sever]\nport = 80\n", "c.toml:", "sever"},
        {"port = 80\n", "c.toml:1:", "port"},
        {"server = 5\n", "c.toml:1:", "server"},
        {"[server\n", "c.toml:1:", ""},
        {"[server]\nport = 1\nport = 2\n", "c.toml:3:", "port"},
        {"images = 5\n", "c.toml:1:", "images"},
        {"[images]\na = \"/srv/a\"\n", "c.toml:2:", "table"},
        {"[images.a]\nuser = \"x\"\n", "c.toml:1:", "path"},
        {"[images.a]\npath = 5\n", "c.toml:2:", "path"},
        {"[images.a]\npath = \"srv\"\n", "c.toml:1:", "srv"},
        {"[images.a]\npath = \"/srv/../a\"\n", "c.toml:1:", "path"},
        {"[images.a]\npath = \"/srv\"\nusr = \"x\"\n", "c.toml:3:", "usr"},
        {"[images.a]\npath = \"/srv\"\nworkdir = \"x\"\n", "c.toml:1:", "workdir"},
        {"[images.a]\npath = \"/srv\"\nuser = \"\"\n", "c.toml:1:", "user"},
        {"[images.a]\npath = \"/srv\"\nuser = \":0\"\n", "c.toml:1:", "user"},
        {"[images.a]\npath = \"/srv\"\nuser = \"a:\"\n", "c.toml:1:", "user"},
        {"[images.a]\npath = \"/srv\"\nuser = \"a:b:c\"\n", "c.toml:1:", "user"},
        {"[images.a]\npath = \"/srv\"\nuser = \"a b\"\n", "c.toml:1:", "user"},
        {"[images.host]\npath = \"/srv\"\n", "c.toml:1:", "host"},
        {"[images.\"a b\"]\npath = \"/srv\"\n", "c.toml:1:", "a b"},
        {"[images.\"../b\"]\npath = \"/srv\"\n", "c.toml:1:", "../b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct server_config config;
        struct error err = ERROR_INIT;
        if (parse(&config, rows[i].text, &err) == 0)
            fail_msg("accepted: %s", rows[i].text);
        if (strstr(err.message, rows[i].place) == NULL || strstr(err.message, rows[i].what) == NULL)
            fail_msg("%s-> %s", rows[i].text, err.message);
        server_config_done(&config);
    }
}

static void test_key_is_not_in_messages(void **state)
{
    (void)state;
    struct server_config config;
    struct error err = ERROR_INIT;
    assert_true(parse(&config, "[server]\napi_key = \"hunter2 x\"\n", &err) < 0);
    assert_null(strstr(err.message, "hunter2"));
    server_config_done(&config);
}

static void test_long_state_dir(void **state)
{
    (void)state;
    struct server_config config;
    server_config_init(&config);
    assert_true(server_config_set_state_dir(&config,
                                            "/0123456789/0123456789/0123456789/0123456789/"
                                            "0123456789/0123456789",
                                            NULL) < 0);
    assert_string_equal(config.state_dir, "/var/lib/opensandbox");
    server_config_done(&config);
}

static void test_listen(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *host; /* NULL: refused */
        int port;
    } rows[] = {
        {"127.0.0.1:8080", "127.0.0.1", 8080},
        {"0.0.0.0:0", "0.0.0.0", 0},
        {"[::1]:80", "::1", 80},
        {"::1:80", "::1", 80},
        {"8080", NULL, 0},
        {":8080", NULL, 0},
        {"localhost:8080", NULL, 0},
        {"127.0.0.1", NULL, 0},
        {"127.0.0.1:", NULL, 0},
        {"127.0.0.1:65536", NULL, 0},
        {"127.0.0.1:8080 ", NULL, 0},
        {"127.0.0.1:+1", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct server_config config;
        server_config_init(&config);
        int r = server_config_set_listen(&config, rows[i].text, NULL);
        if ((r == 0) != (rows[i].host != NULL))
            fail_msg("\"%s\": %d", rows[i].text, r);
        if (r == 0) {
            assert_string_equal(config.host, rows[i].host);
            assert_int_equal(config.port, rows[i].port);
        }
        server_config_done(&config);
    }
}

static void test_missing_file(void **state)
{
    (void)state;
    struct server_config config;
    struct error err = ERROR_INIT;
    server_config_init(&config);
    assert_true(server_config_load(&config, "/nonexistent/c.toml", &err) < 0);
    assert_non_null(strstr(err.message, "/nonexistent/c.toml"));
    server_config_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_everything),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_key_is_not_in_messages),
        cmocka_unit_test(test_long_state_dir), cmocka_unit_test(test_listen),
        cmocka_unit_test(test_missing_file),   cmocka_unit_test(test_images),
        cmocka_unit_test(test_network),        cmocka_unit_test(test_too_many_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
