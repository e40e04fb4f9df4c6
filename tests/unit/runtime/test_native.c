/* The native runtime against a launcher that is a thread of this test and an execd that is an HTTP
 * server on its loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
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
#include "http/json.h"
#include "http/server.h"
#include "runtime/native/message.h"
#include "runtime/native/native.h"

#define ID_A    "00000000-0000-4000-8000-00000000000a"
#define ID_B    "00000000-0000-4000-8000-00000000000b"
#define ID_LAST "00000000-0000-4000-8000-ffffffffffff"

/* What the fake launcher does with the next messages. */
enum behaviour {
    BEHAVE,
    REFUSE,       /* every CREATE and REMOVE fails with ERR_LIMIT */
    NO_SOCKET,    /* CREATE answers without a path */
    HANG_UP,      /* close the connection at the next message but HELLO */
    ENDLESS_LIST, /* LIST gives the same page again and again */
};

struct fixture {
    char dir[64];
    char launcher_path[100];
    char execd_path[100];
    /* launcher */
    pthread_t thread;
    int listener;
    atomic_int connection;
    atomic_int behaviour;
    atomic_bool hold; /* do not read */
    atomic_int creates;
    atomic_int removes;
    atomic_int hellos;
    atomic_int lists;
    atomic_int out_of_order; /* REMOVEs whose id is not above the one before */
    char last_removed[40];
    struct message_create last_create;
    union message last_change;
    /* execd */
    struct http_server *execd;
    int start_status; /* what /internal/start answers; 0: nothing */
    char start_body[512];
    struct http_exchange *start; /* answered later by the test */
    /* the runtime under test */
    uv_loop_t loop;
    struct http_client *client;
    struct runtime *runtime;
    uv_timer_t timer;
    int done_count;
    struct error done_err;
    size_t list_count;
    struct runtime_usage usage[200];
    struct runtime_sandbox list[200];
    int exits;
    struct runtime_sandbox exit;
    int downs;
    int ups;
};

/* --- fake launcher ---------------------------------------------------------------------------- */

static void send_whole(int fd, const union message *message)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    while (message_send(fd, message) == -EAGAIN)
        poll(&writable, 1, -1);
}

static void answer_list(struct fixture *fixture, int fd, const struct message_list *request)
{
    union message page;
    message_init(&page, MESSAGE_SANDBOXES, request->header.sequence);
    int first = request->after[0] == '\0' ? 0 : 64; /* 70 sandboxes in two pages */
    if (atomic_load(&fixture->behaviour) == ENDLESS_LIST)
        first = 0;
    int last = first == 0 ? 64 : 70;
    page.sandboxes.more = first == 0;
    page.sandboxes.count = (uint32_t)(last - first);
    for (int i = first; i < last; i++) {
        struct message_sandbox *item = &page.sandboxes.items[i - first];
        snprintf(item->id, sizeof(item->id), "00000000-0000-4000-8000-%012d", i);
        item->state = i == 69 ? MESSAGE_EXITED : i == 68 ? MESSAGE_FROZEN : MESSAGE_RUNNING;
        item->exit_reason = i == 69 ? MESSAGE_EXIT_STATUS : MESSAGE_EXIT_NONE;
        item->exit_status = i == 69 ? 3 : 0;
        item->created_unix_ms = 1;
        snprintf(item->socket, sizeof(item->socket), "/run/%d.sock", i);
    }
    send_whole(fd, &page);
}

static void answer_stat(struct fixture *fixture, int fd, const struct message_list *request)
{
    union message page;
    message_init(&page, MESSAGE_USAGE, request->header.sequence);
    bool first = request->after[0] == '\0' || atomic_load(&fixture->behaviour) == ENDLESS_LIST;
    page.usage.more = first;
    page.usage.count = first ? 64 : 2;
    for (unsigned i = 0; i < page.usage.count; i++) {
        struct message_usage *item = &page.usage.items[i];
        unsigned number = i + (first ? 0 : 64);
        snprintf(item->id, sizeof(item->id), "00000000-0000-4000-8000-%012u", number);
        item->state = number == 65 ? MESSAGE_FROZEN : MESSAGE_RUNNING;
        item->limits_hit = MESSAGE_HIT_PIDS;
        item->read_unix_ms = 1;
        uint64_t *numbers[] = {&item->cpu_ns,         &item->memory_bytes, &item->memory_peak_bytes,
                               &item->memory_mib_ms,  &item->disk_bytes,   &item->io_read_bytes,
                               &item->io_write_bytes, &item->io_read_ops,  &item->io_write_ops,
                               &item->net_rx_bytes,   &item->net_tx_bytes, &item->oom_kills,
                               &item->memory_refused, &item->pids_refused, &item->cpu_throttled};
        for (unsigned k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
            *numbers[k] = 100ull * number + k;
        item->pids = number;
    }
    send_whole(fd, &page);
}

static void answer(struct fixture *fixture, int fd, const union message *request)
{
    union message result;
    int behaviour = atomic_load(&fixture->behaviour);
    message_init(&result, MESSAGE_RESULT, request->header.sequence);
    switch (request->header.type) {
    case MESSAGE_LIST:
        atomic_fetch_add(&fixture->lists, 1);
        answer_list(fixture, fd, &request->list);
        return;
    case MESSAGE_STAT:
        atomic_fetch_add(&fixture->lists, 1);
        answer_stat(fixture, fd, &request->list);
        return;
    case MESSAGE_LIMITS:
    case MESSAGE_DEADLINE:
    case MESSAGE_FREEZE:
    case MESSAGE_THAW:
        fixture->last_change = *request;
        break;
    case MESSAGE_CREATE:
        fixture->last_create = request->create;
        atomic_fetch_add(&fixture->creates, 1);
        if (behaviour != NO_SOCKET)
            strcpy(result.result.socket, fixture->execd_path);
        break;
    case MESSAGE_REMOVE:
        atomic_fetch_add(&fixture->removes, 1);
        if (strcmp(request->target.id, fixture->last_removed) <= 0)
            atomic_fetch_add(&fixture->out_of_order, 1);
        memcpy(fixture->last_removed, request->target.id, sizeof(fixture->last_removed));
        break;
    case MESSAGE_HELLO:
        atomic_fetch_add(&fixture->hellos, 1);
        message_init(&result, MESSAGE_WELCOME, request->header.sequence);
        send_whole(fd, &result);
        return;
    }
    if (behaviour == REFUSE) {
        result.result.code = ERR_LIMIT;
        strcpy(result.result.message, "no room");
        memset(result.result.socket, 0, sizeof(result.result.socket));
    }
    send_whole(fd, &result);
}

static void *launcher_thread(void *ctx)
{
    struct fixture *fixture = ctx;
    for (;;) {
        int fd = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL; /* shut down by the test */
        atomic_store(&fixture->connection, fd);
        for (;;) {
            union message request;
            struct error err = ERROR_INIT;
            struct pollfd readable = {.fd = fd, .events = POLLIN};
            poll(&readable, 1, -1);
            while (atomic_load(&fixture->hold))
                usleep(1000);
            if (message_receive(fd, true, &request, &err) <= 0)
                break;
            if (atomic_load(&fixture->behaviour) == HANG_UP &&
                request.header.type != MESSAGE_HELLO) {
                atomic_store(&fixture->behaviour, BEHAVE);
                break;
            }
            answer(fixture, fd, &request);
        }
        close(fd);
    }
}

static int listen_unix(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void send_exit(struct fixture *fixture, const char *id, enum message_exit_reason reason,
                      int status)
{
    union message event;
    message_init(&event, MESSAGE_EXIT, 0);
    strcpy(event.exit.sandbox.id, id);
    event.exit.sandbox.state = MESSAGE_EXITED;
    event.exit.sandbox.exit_reason = reason;
    event.exit.sandbox.exit_status = status;
    event.exit.sandbox.oom_kills = 2;
    event.exit.sandbox.limits_hit = MESSAGE_HIT_MEMORY | MESSAGE_HIT_CPU;
    event.exit.sandbox.created_unix_ms = 1;
    strcpy(event.exit.sandbox.socket, fixture->execd_path);
    assert_true(message_send(atomic_load(&fixture->connection), &event) >= 0);
}

/* --- fake execd ------------------------------------------------------------------------------- */

static void on_start_body(struct http_exchange *exchange, const char *body, size_t length,
                          void *ctx)
{
    struct fixture *fixture = ctx;
    snprintf(fixture->start_body, sizeof(fixture->start_body), "%.*s", (int)length, body);
    fixture->start = exchange;
    if (fixture->start_status == 200)
        http_exchange_reply_json(exchange, 200, json_object());
    else if (fixture->start_status != 0)
        http_exchange_reply_error(exchange, fixture->start_status, "X", "no such program");
}

static void on_execd_request(struct http_exchange *exchange, void *ctx)
{
    assert_string_equal(http_exchange_head(exchange)->method, "POST");
    assert_string_equal(http_exchange_path(exchange), "/internal/start");
    http_exchange_collect(exchange, 100000, on_start_body, ctx);
}

/* --- fixture ---------------------------------------------------------------------------------- */

static void on_done(const struct error *err, void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->done_count++;
    fixture->done_err = err != NULL ? *err : (struct error)ERROR_INIT;
    uv_stop(&fixture->loop);
}

static void on_list(const struct error *err, const struct runtime_sandbox *items, size_t count,
                    void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->list_count = count;
    for (size_t i = 0; i < count && i < 200; i++)
        fixture->list[i] = items[i];
    on_done(err, ctx);
}

static void on_usage(const struct error *err, const struct runtime_usage *items, size_t count,
                     void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->list_count = count;
    for (size_t i = 0; i < count && i < 200; i++)
        fixture->usage[i] = items[i];
    on_done(err, ctx);
}

static void on_exit_event(const struct runtime_sandbox *sandbox, void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->exits++;
    fixture->exit = *sandbox;
    uv_stop(&fixture->loop);
}

static void on_state(bool available, void *ctx)
{
    struct fixture *fixture = ctx;
    fixture->ups += available;
    fixture->downs += !available;
    uv_stop(&fixture->loop);
}

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof(*fixture));
    strcpy(fixture->dir, "/tmp/osb-native-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    snprintf(fixture->launcher_path, sizeof(fixture->launcher_path), "%s/l", fixture->dir);
    snprintf(fixture->execd_path, sizeof(fixture->execd_path), "%s/e", fixture->dir);
    fixture->listener = listen_unix(fixture->launcher_path, SOCK_SEQPACKET);
    assert_int_equal(pthread_create(&fixture->thread, NULL, launcher_thread, fixture), 0);

    uv_loop_init(&fixture->loop);
    fixture->start_status = 200;
    fixture->execd = http_server_new(&(struct http_server_config){
        .loop = &fixture->loop, .on_request = on_execd_request, .ctx = fixture});
    assert_int_equal(
        http_server_listen_fd(fixture->execd, listen_unix(fixture->execd_path, SOCK_STREAM), NULL),
        0);
    fixture->client = http_client_new(&(struct http_client_config){.loop = &fixture->loop});
    struct error err = ERROR_INIT;
    fixture->runtime = native_runtime_new(
        &(struct native_config){
            .loop = &fixture->loop,
            .client = fixture->client,
            .launcher_socket = fixture->launcher_path,
            .events = {.on_exit = on_exit_event, .on_state = on_state},
            .ctx = fixture,
        },
        &err);
    if (fixture->runtime == NULL)
        fail_msg("%s", err.message);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    fixture->runtime->free(fixture->runtime);
    http_client_free(fixture->client);
    http_server_free(fixture->execd);
    while (uv_run(&fixture->loop, UV_RUN_DEFAULT) != 0)
        ; /* a callback may have stopped it */
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    shutdown(fixture->listener, SHUT_RDWR);
    pthread_join(fixture->thread, NULL);
    close(fixture->listener);
    unlink(fixture->launcher_path);
    unlink(fixture->execd_path);
    rmdir(fixture->dir);
    free(fixture);
    return 0;
}

static void create(struct fixture *fixture, const char *id)
{
    static const char *const entrypoint[] = {"sleep", "1 2", NULL};
    static const char *const env[] = {"A=b", "C=", NULL};
    const struct runtime_spec spec = {
        .id = id,
        .image = "host",
        .entrypoint = entrypoint,
        .env = env,
        .nat = true,
        .limits = {.memory_bytes = 8 << 20, .cpu_millis = 1500, .pids = 10, .open_files = 99},
        .deadline_unix_ms = 123456789,
    };
    int before = fixture->done_count;
    fixture->runtime->create(fixture->runtime, &spec, on_done, fixture);
    assert_int_equal(fixture->done_count, before); /* never from inside */
}

static void run_until_done(struct fixture *fixture, int count)
{
    while (fixture->done_count < count)
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_create(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    assert_string_equal(fixture->last_create.id, ID_A);
    assert_string_equal(fixture->last_create.image, "host");
    assert_int_equal(fixture->last_create.limits.memory_bytes, 8 << 20);
    assert_int_equal(fixture->last_create.limits.cpu_millis, 1500);
    assert_int_equal(fixture->last_create.limits.pids, 10);
    assert_int_equal(fixture->last_create.limits.open_files, 99);
    assert_int_equal(fixture->last_create.deadline_unix_ms, 123456789);
    assert_int_equal(fixture->last_create.network, MESSAGE_NETWORK_NAT);
    assert_string_equal(fixture->start_body,
                        "{\"entrypoint\":[\"sleep\",\"1 2\"],\"env\":[\"A=b\",\"C=\"]}");

    struct http_address address;
    struct error err = ERROR_INIT;
    struct runtime *runtime = fixture->runtime;
    assert_int_equal(runtime->address(runtime, ID_A, 44772, &address, &err), 0);
    assert_int_equal(address.kind, HTTP_ADDRESS_UNIX);
    assert_string_equal(address.unix_path, fixture->execd_path);
    assert_int_equal(runtime->address(runtime, ID_A, 8080, &address, &err), 0);
    assert_int_equal(address.kind, HTTP_ADDRESS_CONNECTOR);
    assert_string_equal(address.made.host, ID_A);
    assert_int_equal(address.made.port, 8080);
    assert_true(runtime->address(runtime, ID_A, 18080, &address, &err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_true(runtime->address(runtime, ID_B, 44772, &address, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_launcher_refuses(void **state)
{
    struct fixture *fixture = *state;
    atomic_store(&fixture->behaviour, REFUSE);
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_LIMIT);
    assert_string_equal(fixture->done_err.message, "no room");
    assert_int_equal(atomic_load(&fixture->removes), 0); /* nothing was made */
}

/* The second step fails: the first is undone before the caller is told. */
static void expect_undone(struct fixture *fixture, enum error_code code, const char *in_message)
{
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, code);
    if (strstr(fixture->done_err.message, in_message) == NULL)
        fail_msg("%s", fixture->done_err.message);
    assert_int_equal(atomic_load(&fixture->creates), 1);
    assert_int_equal(atomic_load(&fixture->removes), 1);
    struct http_address address;
    assert_true(fixture->runtime->address(fixture->runtime, ID_A, 44772, &address, NULL) < 0);
}

static void test_entrypoint_is_wrong(void **state)
{
    struct fixture *fixture = *state;
    fixture->start_status = 400;
    create(fixture, ID_A);
    expect_undone(fixture, ERR_INVALID, "no such program");
}

static void test_execd_breaks(void **state)
{
    struct fixture *fixture = *state;
    fixture->start_status = 500;
    create(fixture, ID_A);
    expect_undone(fixture, ERR_INTERNAL, "no such program");
}

static void test_execd_is_not_there(void **state)
{
    struct fixture *fixture = *state;
    unlink(fixture->execd_path);
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    assert_int_not_equal(fixture->done_err.code, ERR_OK);
    assert_int_equal(atomic_load(&fixture->removes), 1);
}

static void test_create_without_socket(void **state)
{
    struct fixture *fixture = *state;
    atomic_store(&fixture->behaviour, NO_SOCKET);
    create(fixture, ID_A);
    expect_undone(fixture, ERR_INTERNAL, "without a socket");
}

static void on_exit_timer(uv_timer_t *timer)
{
    send_exit(timer->data, ID_A, MESSAGE_EXIT_SIGNAL, 9);
}

static void test_ends_before_it_started(void **state)
{
    struct fixture *fixture = *state;
    fixture->start_status = 0; /* execd got the request and died */
    uv_timer_init(&fixture->loop, &fixture->timer);
    fixture->timer.data = fixture;
    uv_timer_start(&fixture->timer, on_exit_timer, 50, 0);
    create(fixture, ID_A);
    expect_undone(fixture, ERR_INTERNAL, "ended before");
    assert_int_equal(fixture->exits, 0); /* the caller of create knows */
    uv_close((uv_handle_t *)&fixture->timer, NULL);
}

static void on_late_answer(uv_timer_t *timer)
{
    struct fixture *fixture = timer->data;
    http_exchange_reply_json(fixture->start, 200, json_object());
}

/* An entrypoint that is over at once: the launcher's word may overtake execd's answer. */
static void test_ends_right_after_it_started(void **state)
{
    struct fixture *fixture = *state;
    fixture->start_status = 0;
    create(fixture, ID_A);
    while (fixture->start == NULL)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    send_exit(fixture, ID_A, MESSAGE_EXIT_STATUS, 7);
    uv_timer_init(&fixture->loop, &fixture->timer);
    fixture->timer.data = fixture;
    uv_timer_start(&fixture->timer, on_late_answer, 100, 0);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    while (fixture->exits == 0)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_int_equal(fixture->exit.exit_reason, RUNTIME_EXIT_STATUS);
    assert_int_equal(fixture->exit.exit_status, 7);
    uv_close((uv_handle_t *)&fixture->timer, NULL);
}

static void test_remove(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    fixture->runtime->remove(fixture->runtime, ID_A, on_done, fixture);
    assert_int_equal(fixture->done_count, 1);
    /* The launcher says that it ended, too: that is no news. */
    send_exit(fixture, ID_A, MESSAGE_EXIT_KILLED, 9);
    run_until_done(fixture, 2);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    struct http_address address;
    assert_true(fixture->runtime->address(fixture->runtime, ID_A, 44772, &address, NULL) < 0);
    send_exit(fixture, ID_A, MESSAGE_EXIT_KILLED, 9);
    fixture->runtime->list(fixture->runtime, on_list, fixture);
    run_until_done(fixture, 3);
    assert_int_equal(fixture->exits, 0);
}

static void test_exit_event(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    send_exit(fixture, ID_A, MESSAGE_EXIT_STATUS, 7);
    while (fixture->exits == 0)
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_string_equal(fixture->exit.id, ID_A);
    assert_int_equal(fixture->exit.exit_reason, RUNTIME_EXIT_STATUS);
    assert_int_equal(fixture->exit.exit_status, 7);
    assert_int_equal(fixture->exit.oom_kills, 2);
    assert_int_equal(fixture->exit.limits_hit, RUNTIME_HIT_MEMORY | RUNTIME_HIT_CPU);
}

static void test_list_pages(void **state)
{
    struct fixture *fixture = *state;
    fixture->runtime->list(fixture->runtime, on_list, fixture);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    assert_int_equal(fixture->list_count, 70);
    assert_string_equal(fixture->list[69].id, "00000000-0000-4000-8000-000000000069");
    assert_int_equal(fixture->list[68].exit_reason, RUNTIME_EXIT_NONE);
    assert_true(fixture->list[68].frozen);
    assert_false(fixture->list[67].frozen);
    assert_int_equal(fixture->list[69].exit_reason, RUNTIME_EXIT_STATUS);
    assert_int_equal(fixture->list[69].exit_status, 3);
    /* A list tells where sandboxes of earlier days are. */
    struct http_address address;
    assert_int_equal(
        fixture->runtime->address(fixture->runtime, fixture->list[5].id, 44772, &address, NULL), 0);
    assert_string_equal(address.unix_path, "/run/5.sock");
}

static const struct limits all_limits = {
    .memory_bytes = 8 << 20,
    .disk_bytes = 32 << 20,
    .io_read_bps = 5000,
    .io_write_bps = 6000,
    .io_read_iops = 7,
    .io_write_iops = 8,
    .cpu_millis = 9,
    .pids = 10,
    .open_files = 111,
};

static void check_limits(const struct message_limits *got)
{
    assert_int_equal(got->memory_bytes, 8 << 20);
    assert_int_equal(got->disk_bytes, 32 << 20);
    assert_int_equal(got->io_read_bps, 5000);
    assert_int_equal(got->io_write_bps, 6000);
    assert_int_equal(got->io_read_iops, 7);
    assert_int_equal(got->io_write_iops, 8);
    assert_int_equal(got->cpu_millis, 9);
    assert_int_equal(got->pids, 10);
    assert_int_equal(got->open_files, 111);
}

static void expect_change(struct fixture *fixture, int count, enum message_type type)
{
    assert_int_equal(fixture->done_count, count - 1); /* never from inside */
    run_until_done(fixture, count);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    assert_int_equal(fixture->last_change.header.type, type);
    assert_string_equal(fixture->last_change.target.id, ID_A);
}

static void test_changes(void **state)
{
    struct fixture *fixture = *state;
    struct runtime *runtime = fixture->runtime;
    runtime->set_limits(runtime, ID_A, &all_limits, on_done, fixture);
    expect_change(fixture, 1, MESSAGE_LIMITS);
    check_limits(&fixture->last_change.limits.limits);
    runtime->set_deadline(runtime, ID_A, 123456789, on_done, fixture);
    expect_change(fixture, 2, MESSAGE_DEADLINE);
    assert_int_equal(fixture->last_change.deadline.deadline_unix_ms, 123456789);
    runtime->freeze(runtime, ID_A, on_done, fixture);
    expect_change(fixture, 3, MESSAGE_FREEZE);
    runtime->thaw(runtime, ID_A, on_done, fixture);
    expect_change(fixture, 4, MESSAGE_THAW);

    atomic_store(&fixture->behaviour, REFUSE);
    runtime->freeze(runtime, ID_A, on_done, fixture);
    run_until_done(fixture, 5);
    assert_int_equal(fixture->done_err.code, ERR_LIMIT);
    assert_string_equal(fixture->done_err.message, "no room");

    atomic_store(&fixture->behaviour, HANG_UP);
    runtime->set_limits(runtime, ID_A, &all_limits, on_done, fixture);
    run_until_done(fixture, 6);
    assert_int_equal(fixture->done_err.code, ERR_UNAVAILABLE);
}

/* A change on its way is no reason to keep an end to oneself. */
static void test_exit_during_a_change(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    atomic_store(&fixture->hold, true);
    fixture->runtime->freeze(fixture->runtime, ID_A, on_done, fixture);
    send_exit(fixture, ID_A, MESSAGE_EXIT_STATUS, 7);
    while (fixture->exits == 0)
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
    atomic_store(&fixture->hold, false);
    run_until_done(fixture, 2);
    assert_int_equal(fixture->exits, 1);
}

static void test_stat_pages(void **state)
{
    struct fixture *fixture = *state;
    fixture->runtime->stat(fixture->runtime, on_usage, fixture);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    assert_int_equal(fixture->list_count, 66);
    const struct runtime_usage *last = &fixture->usage[65];
    assert_string_equal(last->id, "00000000-0000-4000-8000-000000000065");
    assert_true(last->running && last->frozen);
    assert_true(fixture->usage[64].running && !fixture->usage[64].frozen);
    assert_int_equal(last->limits_hit, RUNTIME_HIT_PIDS);
    const uint64_t numbers[] = {last->cpu_ns,         last->memory_bytes, last->memory_peak_bytes,
                                last->memory_mib_ms,  last->disk_bytes,   last->io_read_bytes,
                                last->io_write_bytes, last->io_read_ops,  last->io_write_ops,
                                last->net_rx_bytes,   last->net_tx_bytes, last->oom_kills,
                                last->memory_refused, last->pids_refused, last->cpu_throttled};
    for (unsigned k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
        assert_int_equal(numbers[k], 6500 + k);
    assert_int_equal(last->pids, 65);

    atomic_store(&fixture->behaviour, ENDLESS_LIST);
    fixture->runtime->stat(fixture->runtime, on_usage, fixture);
    run_until_done(fixture, 2);
    assert_int_equal(fixture->done_err.code, ERR_INTERNAL);
    assert_int_equal(fixture->list_count, 0);
}

static void test_endless_list_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    atomic_store(&fixture->behaviour, ENDLESS_LIST);
    fixture->runtime->list(fixture->runtime, on_list, fixture);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_INTERNAL);
    assert_int_equal(fixture->list_count, 0);
    assert_int_equal(atomic_load(&fixture->lists), 2); /* seen at once, not after thousands */
}

static void test_launcher_goes_and_returns(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, ID_A);
    run_until_done(fixture, 1);
    atomic_store(&fixture->behaviour, HANG_UP);
    create(fixture, ID_B);
    run_until_done(fixture, 2);
    assert_int_equal(fixture->done_err.code, ERR_UNAVAILABLE);
    assert_int_equal(fixture->downs, 1);
    /* While it is away requests fail, later; what runs stays reachable. */
    fixture->runtime->remove(fixture->runtime, ID_A, on_done, fixture);
    assert_int_equal(fixture->done_count, 2);
    run_until_done(fixture, 3);
    assert_int_equal(fixture->done_err.code, ERR_UNAVAILABLE);
    struct http_address address;
    assert_int_equal(fixture->runtime->address(fixture->runtime, ID_A, 44772, &address, NULL), 0);
    while (fixture->ups == 0)
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(atomic_load(&fixture->hellos), 2);
    create(fixture, ID_B);
    run_until_done(fixture, 4);
    assert_int_equal(fixture->done_err.code, ERR_OK);
}

/* More messages than the socket holds, to a launcher that does not read: they wait, and all are
 * answered in the end. */
static void test_launcher_that_does_not_read(void **state)
{
    struct fixture *fixture = *state;
    enum { COUNT = 1024 };
    atomic_store(&fixture->hold, true);
    for (int i = 0; i < COUNT; i++) {
        char id[40];
        snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012d", i);
        fixture->runtime->remove(fixture->runtime, id, on_done, fixture);
    }
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(fixture->done_count, 0);
    /* One more is over the limit and is told so. */
    fixture->runtime->remove(fixture->runtime, ID_B, on_done, fixture);
    run_until_done(fixture, 1);
    assert_int_equal(fixture->done_err.code, ERR_LIMIT);
    atomic_store(&fixture->hold, false);
    /* A request of which the socket might have room does not overtake those that wait. */
    while (atomic_load(&fixture->removes) < 10)
        usleep(1000);
    run_until_done(fixture, 5);
    fixture->runtime->remove(fixture->runtime, ID_LAST, on_done, fixture);
    run_until_done(fixture, COUNT + 2);
    assert_int_equal(fixture->done_err.code, ERR_OK);
    assert_int_equal(atomic_load(&fixture->removes), COUNT + 1);
    assert_int_equal(atomic_load(&fixture->out_of_order), 0);
}

static void test_free_with_work_under_way(void **state)
{
    struct fixture *fixture = *state;
    fixture->start_status = 0;
    create(fixture, ID_A);
    while (fixture->start_body[0] == '\0')
        uv_run(&fixture->loop, UV_RUN_ONCE);
    fixture->runtime->remove(fixture->runtime, ID_B, on_done, fixture);
    /* tear_down frees the runtime: both callbacks run then. */
}

static void test_no_launcher(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    uv_loop_t loop;
    uv_loop_init(&loop);
    assert_null(native_runtime_new(
        &(struct native_config){.loop = &loop, .launcher_socket = "/nonexistent/socket"}, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/socket"));
    uv_loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_create, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_launcher_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_entrypoint_is_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_execd_breaks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_execd_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_create_without_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_before_it_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_right_after_it_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exit_event, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exit_during_a_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stat_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endless_list_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_launcher_goes_and_returns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_launcher_that_does_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_free_with_work_under_way, set_up, tear_down),
        cmocka_unit_test(test_no_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
