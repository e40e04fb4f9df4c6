/* Connections to ports inside sandboxes, with a launcher that is a thread of this test and whose
 * sandboxes have this machine's own network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/native/message.h"
#include "runtime/native/native.h"
#include "runtime/native/native_connect.h"

#define ID_A "00000000-0000-4000-8000-00000000000a"
#define ID_B "00000000-0000-4000-8000-00000000000b"

enum behaviour {
    GIVE,        /* a socket */
    GIVE_NONE,   /* success without one */
    REFUSE,      /* ERR_CONFLICT, with a socket all the same */
    NO_IPV6,     /* ERR_UNSUPPORTED for family 6 */
    GIVE_BOUND,  /* one of IPv4 that has the port to which it is to be connected */
    KEEP_SILENT, /* no answer, until told otherwise */
    HANG_UP,
};

struct result {
    int calls;
    int fd;
    struct error err;
    bool inside;
};

static char directory[64];
static char path[100];
static int listener;
static pthread_t thread;
static atomic_int behaviour;
static atomic_int asked;
static atomic_int bound_port;
static atomic_uint families; /* bits 1 << family of those asked for */
static uv_loop_t loop;
static struct http_client *client;
static struct runtime *runtime;
static size_t descriptors;

/* --- the launcher ----------------------------------------------------------------------------- */

static void answer_list(int fd, uint32_t sequence)
{
    union message page;
    message_init(&page, MESSAGE_SANDBOXES, sequence);
    const char *const ids[] = {ID_A, ID_B};
    page.sandboxes.count = 2;
    for (size_t i = 0; i < 2; i++) {
        strcpy(page.sandboxes.items[i].id, ids[i]);
        page.sandboxes.items[i].state = MESSAGE_RUNNING;
        page.sandboxes.items[i].created_unix_ms = 1;
        strcpy(page.sandboxes.items[i].socket, "/run/x.sock");
    }
    message_send(fd, &page);
}

static void answer_socket(int fd, const struct message_socket *request)
{
    atomic_fetch_add(&asked, 1);
    atomic_fetch_or(&families, 1u << request->family);
    while (atomic_load(&behaviour) == KEEP_SILENT)
        usleep(1000);
    union message result;
    message_init(&result, MESSAGE_RESULT, request->header.sequence);
    int how = atomic_load(&behaviour);
    if (how == REFUSE || (how == NO_IPV6 && request->family == 6)) {
        result.result.code = how == REFUSE ? ERR_CONFLICT : ERR_UNSUPPORTED;
        strcpy(result.result.message, "it has ended");
    }
    AUTO_CLOSE int given = socket(request->family == 6 ? AF_INET6 : AF_INET,
                                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (how == GIVE_BOUND && request->family == 4) {
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)atomic_load(&bound_port)),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        assert_int_equal(bind(given, (struct sockaddr *)&in, sizeof(in)), 0);
    }
    message_send_with(fd, &result, how == GIVE_NONE ? -1 : given);
}

static bool serve_one(int fd)
{
    union message request;
    struct error err = ERROR_INIT;
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    poll(&readable, 1, -1);
    if (message_receive(fd, true, &request, &err) <= 0)
        return false;
    if (request.header.type == MESSAGE_HELLO) {
        union message welcome;
        message_init(&welcome, MESSAGE_WELCOME, request.header.sequence);
        welcome.welcome.networks = 1u << MESSAGE_NETWORK_NONE;
        strcpy(welcome.welcome.network_reason, "it is too cold");
        message_send(fd, &welcome);
    } else if (request.header.type == MESSAGE_LIST) {
        answer_list(fd, request.header.sequence);
    } else if (atomic_load(&behaviour) == HANG_UP) {
        return false;
    } else if (request.header.type == MESSAGE_SOCKET) {
        answer_socket(fd, &request.socket);
    }
    return true;
}

static void *launcher_thread(void *ctx)
{
    (void)ctx;
    for (;;) {
        AUTO_CLOSE int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        while (serve_one(fd))
            ;
    }
}

/* --- fixture ---------------------------------------------------------------------------------- */

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void on_exit_event(const struct runtime_sandbox *sandbox, void *ctx)
{
    (void)sandbox;
    (void)ctx;
}

static void on_state(bool available, void *ctx)
{
    (void)available;
    (void)ctx;
}

static void on_list(const struct error *err, const struct runtime_sandbox *items, size_t count,
                    void *ctx)
{
    (void)items;
    assert_null(err);
    assert_int_equal(count, 2);
    *(bool *)ctx = true;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/osb-connect-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/l", directory);
    alarm(60); /* rather than wait for ever for what does not come */
    descriptors = count_descriptors();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 4), 0);
    atomic_store(&behaviour, GIVE);
    atomic_store(&asked, 0);
    atomic_store(&families, 0);
    assert_int_equal(pthread_create(&thread, NULL, launcher_thread, NULL), 0);
    uv_loop_init(&loop);
    client = http_client_new(&(struct http_client_config){.loop = &loop});
    struct error err = ERROR_INIT;
    runtime = native_runtime_new(
        &(struct native_config){.loop = &loop,
                                .client = client,
                                .launcher_socket = path,
                                .events = {.on_exit = on_exit_event, .on_state = on_state}},
        &err);
    assert_non_null(runtime);
    bool listed = false;
    runtime->list(runtime, on_list, &listed); /* it learns which sandboxes there are */
    while (!listed)
        uv_run(&loop, UV_RUN_ONCE);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (runtime != NULL)
        runtime->free(runtime);
    http_client_free(client);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&loop), 0);
    atomic_store(&behaviour, GIVE);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    unlink(path);
    rmdir(directory);
    assert_int_equal(count_descriptors(), descriptors);
    return 0;
}

static void on_connected(int fd, const struct error *err, void *ctx)
{
    struct result *result = ctx;
    assert_false(result->inside);
    result->calls++;
    result->fd = fd;
    result->err = err != NULL ? *err : (struct error)ERROR_INIT;
    assert_true((fd >= 0) == (err == NULL));
}

static struct http_connector *connector_of(const char *id, int port)
{
    struct http_address address;
    struct error err = ERROR_INIT;
    assert_int_equal(runtime->address(runtime, id, port, &address, &err), 0);
    assert_int_equal(address.kind, HTTP_ADDRESS_CONNECTOR);
    return address.made.connector;
}

static struct http_connecting *start(struct result *result, const char *id, int port)
{
    struct http_connector *connector = connector_of(id, port);
    *result = (struct result){.fd = -1, .inside = true};
    struct http_connecting *connecting =
        connector->start(connector, id, port, on_connected, result);
    result->inside = false;
    return connecting;
}

static void wait_for(const struct result *result)
{
    while (result->calls == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(result->calls, 1);
}

/* A listening socket; backlog as given. */
static int listen_on(int family, int backlog, int *ret_port)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int r = family == AF_INET6 ? bind(fd, (struct sockaddr *)&in6, sizeof(in6))
                               : bind(fd, (struct sockaddr *)&in, sizeof(in));
    assert_int_equal(r, 0);
    assert_int_equal(listen(fd, backlog), 0);
    socklen_t length = sizeof(in6);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in6, &length), 0);
    *ret_port = ntohs(in6.sin6_port); /* at the same place in both families */
    return fd;
}

/* Nobody listens on it, since we hold it. */
static int silent_port(int *ret_fd)
{
    int port = 0;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    *ret_fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*ret_fd, (struct sockaddr *)&in6, sizeof(in6)), 0);
    socklen_t length = sizeof(in6);
    getsockname(*ret_fd, (struct sockaddr *)&in6, &length);
    port = ntohs(in6.sin6_port);
    return port;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void expect_talk(const struct result *result, int server)
{
    assert_true(result->fd >= 0);
    assert_true(fcntl(result->fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(result->fd, F_GETFD) & FD_CLOEXEC);
    AUTO_CLOSE int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(write(result->fd, "x", 1), 1);
    char byte = 0;
    assert_int_equal(read(peer, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(result->fd);
}

static void test_connects(void **state)
{
    (void)state;
    struct result result;
    int port;
    AUTO_CLOSE int server = listen_on(AF_INET, 4, &port);
    start(&result, ID_A, port);
    wait_for(&result);
    expect_talk(&result, server);
    assert_int_equal(atomic_load(&asked), 1);
    assert_int_equal(atomic_load(&families), 1u << 4);
}

static void test_second_family(void **state)
{
    (void)state;
    struct result result;
    int port;
    AUTO_CLOSE int server = listen_on(AF_INET6, 4, &port);
    start(&result, ID_A, port);
    wait_for(&result);
    expect_talk(&result, server);
    assert_int_equal(atomic_load(&families), 1u << 4 | 1u << 6);
}

static void expect_failure(int port, enum error_code code, const char *words)
{
    struct result result;
    start(&result, ID_A, port);
    wait_for(&result);
    assert_int_equal(result.err.code, code);
    if (strstr(result.err.message, words) == NULL)
        fail_msg("%s", result.err.message);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    AUTO_CLOSE int held = -1;
    int port = silent_port(&held);
    char words[32];
    snprintf(words, sizeof(words), "port %d ", port);
    expect_failure(port, ERR_NOT_FOUND, words);
    atomic_store(&behaviour, NO_IPV6);
    expect_failure(port, ERR_NOT_FOUND, words);
}

static void test_connected_to_itself(void **state)
{
    (void)state;
    int port;
    close(listen_on(AF_INET, 1, &port));
    atomic_store(&bound_port, port);
    atomic_store(&behaviour, GIVE_BOUND);
    expect_failure(port, ERR_NOT_FOUND, "nothing listens");
}

static void test_launcher_refuses(void **state)
{
    (void)state;
    atomic_store(&behaviour, REFUSE);
    expect_failure(80, ERR_UNAVAILABLE, "it has ended");
    atomic_store(&behaviour, GIVE_NONE);
    expect_failure(80, ERR_UNAVAILABLE, "without a socket");
    atomic_store(&behaviour, HANG_UP);
    expect_failure(80, ERR_UNAVAILABLE, "went away");
    expect_failure(80, ERR_UNAVAILABLE, "is away");
}

static void test_bounds(void **state)
{
    (void)state;
    static struct result results[NATIVE_CONNECTS_BOX_MAX + 1];
    struct http_connecting *handles[NATIVE_CONNECTS_BOX_MAX + 1];
    int port;
    AUTO_CLOSE int server = listen_on(AF_INET, 4096, &port);
    atomic_store(&behaviour, KEEP_SILENT);
    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        handles[i] = start(&results[i], ID_A, port);
    wait_for(&results[NATIVE_CONNECTS_BOX_MAX]);
    assert_int_equal(results[NATIVE_CONNECTS_BOX_MAX].err.code, ERR_LIMIT);
    struct result other;
    struct http_connecting *handle = start(&other, ID_B, port);
    /* Those that are given up still wait for the launcher's answer, and count. */
    for (size_t i = 0; i < NATIVE_CONNECTS_BOX_MAX; i++)
        connector_of(ID_A, port)->cancel(connector_of(ID_A, port), handles[i]);
    struct result late;
    start(&late, ID_A, port);
    wait_for(&late);
    assert_int_equal(late.err.code, ERR_LIMIT);
    atomic_store(&behaviour, GIVE);
    wait_for(&other);
    assert_int_equal(other.err.code, ERR_OK);
    close(other.fd);
    for (size_t i = 0; i < NATIVE_CONNECTS_BOX_MAX; i++)
        assert_int_equal(results[i].calls, 0);
    start(&late, ID_A, port);
    wait_for(&late);
    assert_int_equal(late.err.code, ERR_OK);
    close(late.fd);
    (void)handle;
}

/* One that waits for its peer: given up, and ended with the runtime. */
static void test_peer_that_does_not_accept(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    struct result results[COUNT];
    struct http_connecting *handles[COUNT];
    int port, waiting = 0, given_up = -1;
    AUTO_CLOSE int server = listen_on(AF_INET, 0, &port);
    for (int i = 0; i < COUNT; i++)
        handles[i] = start(&results[i], ID_A, port);
    while (atomic_load(&asked) < COUNT)
        uv_run(&loop, UV_RUN_ONCE);
    for (int i = 0; i < 100; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    for (int i = 0; i < COUNT; i++) {
        waiting += results[i].calls == 0;
        if (results[i].calls == 0)
            given_up = i;
    }
    assert_true(waiting >= 2);
    struct http_connector *connector = connector_of(ID_A, port);
    connector->cancel(connector, handles[given_up]);
    runtime->free(runtime);
    runtime = NULL;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(results[i].calls, i != given_up);
        if (results[i].fd >= 0)
            close(results[i].fd);
    }
}

static void test_networks(void **state)
{
    (void)state;
    struct runtime_networks networks;
    runtime->networks(runtime, &networks);
    assert_false(networks.nat);
    assert_string_equal(networks.nat_reason, "it is too cold");
}

/* What libuv keeps from the first loop on is no leak of ours. */
static int prime(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    return uv_loop_close(&loop);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_connects),
        TEST(test_second_family),
        TEST(test_nobody_listens),
        TEST(test_connected_to_itself),
        TEST(test_launcher_refuses),
        TEST(test_bounds),
        TEST(test_peer_that_does_not_accept),
        TEST(test_networks),
    };
    return cmocka_run_group_tests(tests, prime, NULL);
}
