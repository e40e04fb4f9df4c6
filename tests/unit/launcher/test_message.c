/* Messages between server and launcher: what is accepted, and above all what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/native/message.h"

#define ID  "0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab"
#define ID2 "1a1b2c3d-4e5f-4a6b-8c7d-0123456789ab"

static void fill_create(union message *message)
{
    message_init(message, MESSAGE_CREATE, 7);
    strcpy(message->create.id, ID);
    strcpy(message->create.image, "host");
    message->create.limits.memory_bytes = 64 << 20;
    message->create.limits.cpu_millis = 500;
    message->create.limits.pids = 100;
}

static void fill_sandbox(struct message_sandbox *sandbox, const char *id)
{
    strcpy(sandbox->id, id);
    sandbox->state = MESSAGE_RUNNING;
    sandbox->created_unix_ms = 1000;
    strcpy(sandbox->socket, "/run/x.sock");
}

static int decode(const union message *message, bool from_server)
{
    union message ret;
    struct error err = ERROR_INIT;
    int r = message_decode(message, message->header.length, from_server, &ret, &err);
    if (r == 0)
        assert_memory_equal(&ret, message, message->header.length);
    else
        assert_int_equal(err.code, ERR_INVALID);
    return r;
}

#define assert_accepted(message, from_server) assert_int_equal(decode(message, from_server), 0)
#define assert_refused(message, from_server)  assert_true(decode(message, from_server) < 0)

static void test_every_type_round_trips(void **state)
{
    (void)state;
    union message m;
    message_init(&m, MESSAGE_HELLO, 1);
    assert_accepted(&m, true);
    fill_create(&m);
    assert_accepted(&m, true);
    message_init(&m, MESSAGE_KILL, 2);
    strcpy(m.target.id, ID);
    assert_accepted(&m, true);
    message_init(&m, MESSAGE_REMOVE, 3);
    strcpy(m.target.id, ID);
    assert_accepted(&m, true);
    message_init(&m, MESSAGE_LIST, 4);
    assert_accepted(&m, true);
    strcpy(m.list.after, ID);
    assert_accepted(&m, true);
    message_init(&m, MESSAGE_RESULT, 5);
    strcpy(m.result.socket, "/x");
    assert_accepted(&m, false);
    message_init(&m, MESSAGE_SANDBOXES, 6);
    m.sandboxes.count = 2;
    fill_sandbox(&m.sandboxes.items[0], ID);
    fill_sandbox(&m.sandboxes.items[1], ID2);
    assert_accepted(&m, false);
    message_init(&m, MESSAGE_EXIT, 0);
    fill_sandbox(&m.exit.sandbox, ID);
    m.exit.sandbox.state = MESSAGE_EXITED;
    m.exit.sandbox.exit_reason = MESSAGE_EXIT_SIGNAL;
    m.exit.sandbox.exit_status = 9;
    assert_accepted(&m, false);
}

static void test_header(void **state)
{
    (void)state;
    union message m;
    fill_create(&m);
    m.header.magic ^= 1;
    assert_refused(&m, true);
    fill_create(&m);
    m.header.version = 1;
    assert_refused(&m, true);
    fill_create(&m);
    m.header.type = 99;
    assert_refused(&m, true);
    fill_create(&m);
    m.header.type = 0;
    assert_refused(&m, true);
    fill_create(&m);
    assert_refused(&m, false); /* the other direction */
    message_init(&m, MESSAGE_RESULT, 1);
    assert_refused(&m, true);
}

static void test_length_is_exact(void **state)
{
    (void)state;
    union message m, ret;
    struct error err = ERROR_INIT;
    fill_create(&m);
    for (size_t length = 0; length < sizeof(struct message_create); length++)
        assert_true(message_decode(&m, length, true, &ret, &err) < 0);
    assert_true(message_decode(&m, sizeof(struct message_create) + 1, true, &ret, &err) < 0);
    m.header.length--;
    assert_true(message_decode(&m, sizeof(struct message_create), true, &ret, &err) < 0);
}

static void test_output_only_on_success(void **state)
{
    (void)state;
    union message m, ret;
    struct error err = ERROR_INIT;
    memset(&ret, 0x5a, sizeof(ret));
    fill_create(&m);
    m.create.limits.pids = 99999999;
    assert_true(message_decode(&m, m.header.length, true, &ret, &err) < 0);
    for (size_t i = 0; i < sizeof(ret); i++)
        assert_int_equal(((unsigned char *)&ret)[i], 0x5a);
}

static void test_ids(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "../../../../etc/passwd",
        "0a1b2c3d-4e5f-4a6b-8c7d-0123456789a",
        "0A1B2C3D-4e5f-4a6b-8c7d-0123456789ab",
        "0a1b2c3d-4e5f-1a6b-8c7d-0123456789ab",
        "0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab0",
        "0a1b2c3d/4e5f-4a6b-8c7d-0123456789ab",
    };
    union message m;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fill_create(&m);
        memset(m.create.id, 0, sizeof(m.create.id));
        strcpy(m.create.id, bad[i]);
        assert_refused(&m, true);
    }
    fill_create(&m);
    memset(m.create.id, 'a', sizeof(m.create.id)); /* not terminated */
    assert_refused(&m, true);
    fill_create(&m);
    m.create.id[39] = 1; /* something behind the terminator */
    assert_refused(&m, true);
    message_init(&m, MESSAGE_KILL, 1);
    assert_refused(&m, true);
    message_init(&m, MESSAGE_LIST, 1);
    strcpy(m.list.after, "x");
    assert_refused(&m, true);
}

static void test_image_names(void **state)
{
    (void)state;
    static const char *const good[] = {"host", "ubuntu:24.04", "ghcr.io/a/b@sha256:00ff", "x+y"};
    static const char *const bad[] = {"",    "..",   "a/../b", "/host", "a//b", "a/",
                                      "a b", "a\nb", ".host",  "a/.b",  "-x",   "h\xc3\xa4"};
    union message m;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        fill_create(&m);
        memset(m.create.image, 0, sizeof(m.create.image));
        strcpy(m.create.image, good[i]);
        assert_accepted(&m, true);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fill_create(&m);
        memset(m.create.image, 0, sizeof(m.create.image));
        strcpy(m.create.image, bad[i]);
        assert_refused(&m, true);
    }
    fill_create(&m);
    memset(m.create.image, 'a', sizeof(m.create.image));
    assert_refused(&m, true);
    m.create.image[MESSAGE_IMAGE_MAX - 1] = '\0';
    assert_accepted(&m, true);
}

static void test_numbers(void **state)
{
    (void)state;
    union message m;
#define CASE(field, value, verdict) \
    do {                            \
        fill_create(&m);            \
        m.create.field = (value);   \
        assert_##verdict(&m, true); \
    } while (0)
    CASE(limits.memory_bytes, 0, accepted);
    CASE(limits.memory_bytes, (4 << 20) - 1, refused);
    CASE(limits.memory_bytes, 4 << 20, accepted);
    CASE(limits.memory_bytes, 1ull << 50, accepted);
    CASE(limits.memory_bytes, (1ull << 50) + 1, refused);
    CASE(limits.memory_bytes, UINT64_MAX, refused);
    CASE(limits.cpu_millis, 0, accepted);
    CASE(limits.cpu_millis, 1000000, accepted);
    CASE(limits.cpu_millis, 1000001, refused);
    CASE(limits.pids, 0, accepted);
    CASE(limits.pids, 4194304, accepted);
    CASE(limits.pids, 4194305, refused);
    CASE(deadline_unix_ms, 253402300799999ull, accepted);
    CASE(deadline_unix_ms, 253402300800000ull, refused);
    CASE(limits.disk_bytes, (16 << 20) - 1, refused);
    CASE(limits.disk_bytes, 16 << 20, accepted);
    CASE(limits.disk_bytes, 1ull << 50, accepted);
    CASE(limits.disk_bytes, (1ull << 50) + 1, refused);
    CASE(limits.io_read_bps, 4095, refused);
    CASE(limits.io_read_bps, 4096, accepted);
    CASE(limits.io_read_bps, 1ull << 40, accepted);
    CASE(limits.io_read_bps, (1ull << 40) + 1, refused);
    CASE(limits.io_write_bps, 4095, refused);
    CASE(limits.io_write_bps, 4096, accepted);
    CASE(limits.io_write_bps, (1ull << 40) + 1, refused);
    CASE(limits.io_read_iops, 1, accepted);
    CASE(limits.io_read_iops, 1000000000, accepted);
    CASE(limits.io_read_iops, 1000000001, refused);
    CASE(limits.io_write_iops, 1, accepted);
    CASE(limits.io_write_iops, 1000000001, refused);
    CASE(limits.open_files, 63, refused);
    CASE(limits.open_files, 64, accepted);
    CASE(limits.open_files, 1048576, accepted);
    CASE(limits.open_files, 1048577, refused);
    CASE(limits.reserved, 1, refused);
    CASE(network, MESSAGE_NETWORK_NAT, accepted);
    CASE(network, 2, refused);
    CASE(reserved, 1, refused);
    CASE(volume_count, 1, refused); /* an empty one */
    CASE(volume_count, MESSAGE_VOLUMES_MAX + 1, refused);
    CASE(flags, MESSAGE_READ_ONLY_ROOT, accepted);
    CASE(flags, 2, refused);
    CASE(flags, 3, refused);
#undef CASE
}

static void test_results(void **state)
{
    (void)state;
    union message m;
    message_init(&m, MESSAGE_RESULT, 1);
    m.result.code = ERR_INTERNAL + 1;
    assert_refused(&m, false);
    message_init(&m, MESSAGE_RESULT, 1);
    strcpy(m.result.message, "success with a complaint");
    assert_refused(&m, false);
    m.result.code = ERR_LIMIT;
    assert_accepted(&m, false);
    strcpy(m.result.socket, "/failure/with/socket");
    assert_refused(&m, false);
    message_init(&m, MESSAGE_RESULT, 1);
    strcpy(m.result.socket, "relative");
    assert_refused(&m, false);
    message_init(&m, MESSAGE_RESULT, 1);
    m.result.code = ERR_LIMIT;
    m.result.sys = -5;
    assert_refused(&m, false);
}

static void fill_page(union message *m)
{
    message_init(m, MESSAGE_SANDBOXES, 1);
    m->sandboxes.count = 2;
    fill_sandbox(&m->sandboxes.items[0], ID);
    fill_sandbox(&m->sandboxes.items[1], ID2);
}

static void test_pages(void **state)
{
    (void)state;
    union message m;
    fill_page(&m);
    assert_accepted(&m, false);
    m.sandboxes.count = MESSAGE_SANDBOXES_MAX + 1;
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.count = 1; /* the second is not unused */
    assert_refused(&m, false);
    fill_page(&m);
    strcpy(m.sandboxes.items[0].id, ID2); /* twice */
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.more = 2;
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.items[0].state = 4;
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.items[0].state = 0;
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.items[0].exit_reason = MESSAGE_EXIT_LOST; /* but it runs */
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.items[0].exit_status = 256;
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.items[0].state = MESSAGE_FROZEN;
    assert_accepted(&m, false);
    m.sandboxes.items[0].exit_reason = MESSAGE_EXIT_LOST; /* but it is there */
    assert_refused(&m, false);
    fill_page(&m);
    m.sandboxes.items[0].limits_hit = MESSAGE_HITS;
    assert_accepted(&m, false);
    m.sandboxes.items[0].limits_hit = MESSAGE_HITS + 1;
    assert_refused(&m, false);
    message_init(&m, MESSAGE_EXIT, 5); /* an event with a sequence */
    fill_sandbox(&m.exit.sandbox, ID);
    m.exit.sandbox.state = MESSAGE_EXITED;
    m.exit.sandbox.exit_reason = MESSAGE_EXIT_LOST;
    assert_refused(&m, false);
}

static void fill_usage(union message *m)
{
    message_init(m, MESSAGE_USAGE, 1);
    m->usage.count = 2;
    m->usage.more = 1;
    strcpy(m->usage.items[0].id, ID);
    strcpy(m->usage.items[1].id, ID2);
    m->usage.items[0].state = MESSAGE_RUNNING;
    m->usage.items[1].state = MESSAGE_EXITED;
    m->usage.items[1].cpu_ns = UINT64_MAX; /* what was counted has no range */
    m->usage.items[1].limits_hit = MESSAGE_HIT_CPU;
}

static void test_usage_pages(void **state)
{
    (void)state;
    union message m;
    fill_usage(&m);
    assert_accepted(&m, false);
    assert_refused(&m, true);
    m.usage.count = MESSAGE_USAGE_MAX + 1;
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.count = 1; /* the second is not unused */
    assert_refused(&m, false);
    fill_usage(&m);
    strcpy(m.usage.items[0].id, ID2);
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.more = 2;
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.items[0].state = 0;
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.items[0].limits_hit = 16;
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.items[0].reserved = 1;
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.items[0].read_unix_ms = 253402300800000ull;
    assert_refused(&m, false);
    fill_usage(&m);
    m.usage.items[0].id[38] = 'x';
    assert_refused(&m, false);
}

static void test_changes(void **state)
{
    (void)state;
    static const enum message_type targets[] = {MESSAGE_KILL, MESSAGE_REMOVE, MESSAGE_FREEZE,
                                                MESSAGE_THAW};
    union message m;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        message_init(&m, targets[i], 1);
        assert_refused(&m, true); /* no id */
        strcpy(m.target.id, ID);
        assert_accepted(&m, true);
        assert_refused(&m, false);
    }
    message_init(&m, MESSAGE_LIMITS, 1);
    strcpy(m.limits.id, ID);
    assert_accepted(&m, true); /* lifts them all */
    m.limits.limits.memory_bytes = 1;
    assert_refused(&m, true);
    m.limits.limits.memory_bytes = 8 << 20;
    assert_accepted(&m, true);
    m.limits.id[0] = 'x';
    assert_refused(&m, true);

    message_init(&m, MESSAGE_DEADLINE, 1);
    assert_refused(&m, true);
    strcpy(m.deadline.id, ID);
    assert_accepted(&m, true);
    m.deadline.deadline_unix_ms = 253402300799999ull;
    assert_accepted(&m, true);
    m.deadline.deadline_unix_ms++;
    assert_refused(&m, true);

    message_init(&m, MESSAGE_STAT, 1);
    assert_accepted(&m, true);
    strcpy(m.list.after, ID);
    assert_accepted(&m, true);
    strcpy(m.list.after, "x");
    assert_refused(&m, true);
}

static void test_ranges_are_told(void **state)
{
    (void)state;
    struct message_limits limits = {.io_write_bps = 17};
    struct error err = ERROR_INIT;
    assert_true(message_check_limits(&limits, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.message,
                        "io-write-bps of 17 bytes/s is not within 4096 and 1099511627776");
}

static void test_over_a_socket(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    union message m, got;
    struct error err = ERROR_INIT;
    assert_int_equal(message_receive(pair[1], true, &got, &err), -EAGAIN);
    fill_create(&m);
    assert_int_equal(message_send(pair[0], &m), 0);
    assert_int_equal(message_receive(pair[1], true, &got, &err), 1);
    assert_memory_equal(&got, &m, m.header.length);

    /* Does not decode, but can be answered. */
    m.create.limits.reserved = 1;
    assert_int_equal(message_send(pair[0], &m), 0);
    assert_int_equal(message_receive(pair[1], true, &got, &err), -EPROTO);
    assert_int_equal(got.header.sequence, 7);
    assert_int_equal(got.header.magic, MESSAGE_MAGIC);

    /* Cannot be answered. */
    assert_int_equal(send(pair[0], "hello", 5, 0), 5);
    assert_int_equal(message_receive(pair[1], true, &got, &err), -EPROTO);
    assert_int_equal(got.header.magic, 0);

    /* Too long, with a good header. */
    static char large[MESSAGE_MAX + 1];
    memcpy(large, &m, sizeof(m.header));
    assert_int_equal(send(pair[0], large, sizeof(large), 0), sizeof(large));
    assert_int_equal(message_receive(pair[1], true, &got, &err), -EPROTO);
    assert_non_null(strstr(err.message, "16385"));
    assert_int_equal(got.header.sequence, 7);

    close(pair[0]);
    assert_int_equal(message_receive(pair[1], true, &got, &err), 0);
    close(pair[1]);
}

static void fill_volume(union message *m, uint32_t kind, const char *source)
{
    fill_create(m);
    struct message_volume *volume = &m->create.volumes[0];
    m->create.volume_count = 1;
    volume->kind = kind;
    volume->size_bytes = kind == MESSAGE_VOLUME_TMPFS ? 1 << 20 : 0;
    strcpy(volume->source, source);
    strcpy(volume->mount_path, "/data");
}

static void test_volumes(void **state)
{
    (void)state;
    union message m;
#define CASE(kind, source, change, verdict)              \
    do {                                                 \
        fill_volume(&m, kind, source);                   \
        struct message_volume *v = &m.create.volumes[0]; \
        (void)v;                                         \
        change;                                          \
        assert_##verdict(&m, true);                      \
    } while (0)
    CASE(MESSAGE_VOLUME_HOST, "/srv/data", , accepted);
    CASE(MESSAGE_VOLUME_HOST, "/srv/data", v->flags = 3, accepted);
    CASE(MESSAGE_VOLUME_HOST, "/srv/data", v->flags = MESSAGE_VOLUME_DELETE, refused);
    CASE(MESSAGE_VOLUME_HOST, "/srv/data", v->size_bytes = 1 << 20, refused);
    CASE(MESSAGE_VOLUME_HOST, "srv", , refused);
    CASE(MESSAGE_VOLUME_HOST, "", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/a/../b", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/a/..", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/a/./b", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/a//b", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/a/", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/a\nb", , refused);
    CASE(MESSAGE_VOLUME_HOST, "/..a/b..", , accepted);
    CASE(MESSAGE_VOLUME_HOST, "/a", strcpy(v->sub_path, "b/c"), accepted);
    CASE(MESSAGE_VOLUME_HOST, "/a", strcpy(v->sub_path, "/b"), refused);
    CASE(MESSAGE_VOLUME_HOST, "/a", strcpy(v->sub_path, "b/../c"), refused);
    CASE(MESSAGE_VOLUME_HOST, "/a", v->sub_path[MESSAGE_PATH_MAX - 1] = 'x', refused);
    CASE(MESSAGE_VOLUME_HOST, "/a", strcpy(v->mount_path, "/"), refused);
    CASE(MESSAGE_VOLUME_HOST, "/a", strcpy(v->mount_path, "data"), refused);
    CASE(MESSAGE_VOLUME_HOST, "/a", memset(v->mount_path, 'x', MESSAGE_PATH_MAX), refused);
    CASE(MESSAGE_VOLUME_HOST, "/a", m.create.volumes[1].flags = 1, refused);
    CASE(MESSAGE_VOLUME_NAMED, "a", , accepted);
    CASE(MESSAGE_VOLUME_NAMED, "my-data.2", v->flags = MESSAGE_VOLUME_FLAGS, accepted);
    CASE(MESSAGE_VOLUME_NAMED, "my-data", v->size_bytes = 1 << 20, accepted);
    CASE(MESSAGE_VOLUME_NAMED, "my-data", v->size_bytes = 4095, refused);
    CASE(MESSAGE_VOLUME_NAMED, "", , refused);
    CASE(MESSAGE_VOLUME_NAMED, "..", , refused);
    CASE(MESSAGE_VOLUME_NAMED, "a/b", , refused);
    CASE(MESSAGE_VOLUME_NAMED, "-a", , refused);
    CASE(MESSAGE_VOLUME_NAMED, "A", , refused);
    CASE(MESSAGE_VOLUME_TMPFS, "", , accepted);
    CASE(MESSAGE_VOLUME_TMPFS, "", v->size_bytes = 0, refused);
    CASE(MESSAGE_VOLUME_TMPFS, "", v->size_bytes = (1ull << 50) + 1, refused);
    CASE(MESSAGE_VOLUME_TMPFS, "", v->flags = MESSAGE_VOLUME_CREATE, refused);
    CASE(MESSAGE_VOLUME_TMPFS, "x", , refused);
    CASE(MESSAGE_VOLUME_TMPFS, "", strcpy(v->sub_path, "x"), refused);
    CASE(0, "", , refused);
    CASE(4, "", , refused);
#undef CASE
}

static void test_sockets_and_welcomes(void **state)
{
    (void)state;
    union message m;
    message_init(&m, MESSAGE_SOCKET, 3);
    strcpy(m.socket.id, ID);
    assert_refused(&m, true);
    m.socket.family = 4;
    assert_accepted(&m, true);
    m.socket.family = 6;
    assert_accepted(&m, true);
    assert_refused(&m, false);
    m.socket.reserved = 1;
    assert_refused(&m, true);
    message_init(&m, MESSAGE_WELCOME, 3);
    m.welcome.networks = 3;
    m.welcome.missing = MESSAGE_MISSING;
    strcpy(m.welcome.network_reason, "because");
    assert_accepted(&m, false);
    assert_refused(&m, true);
    m.welcome.networks = 4;
    assert_refused(&m, false);
    m.welcome.networks = 1;
    m.welcome.missing_reason[MESSAGE_REASON_MAX - 1] = 'x';
    assert_refused(&m, false);
}

static void test_descriptors(void **state)
{
    (void)state;
    int pair[2], fd = -1;
    struct stat sent, got;
    struct error err = ERROR_INIT;
    union message m, ret;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    message_init(&m, MESSAGE_RESULT, 1);
    assert_int_equal(message_send_with(pair[0], &m, pair[0]), 0);
    assert_int_equal(message_receive_with(pair[1], false, &ret, &fd, &err), 1);
    assert_int_equal(fstat(pair[0], &sent), 0);
    assert_int_equal(fstat(fd, &got), 0);
    assert_true(sent.st_ino == got.st_ino);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    int number = fd;
    close(fd);
    assert_int_equal(message_send(pair[0], &m), 0);
    assert_int_equal(message_receive_with(pair[1], false, &ret, &fd, &err), 1);
    assert_int_equal(fd, -1);
    m.result.code = 1000; /* does not decode: what comes with it is closed */
    assert_int_equal(message_send_with(pair[0], &m, pair[0]), 0);
    assert_int_equal(message_receive_with(pair[1], false, &ret, &fd, &err), -EPROTO);
    assert_int_equal(fd, -1);
    assert_int_equal(fcntl(number, F_GETFD), -1);
    close(pair[0]);
    assert_int_equal(message_receive_with(pair[1], false, &ret, &fd, &err), 0);
    close(pair[1]);
}

static void test_full_peer_is_seen(void **state)
{
    (void)state;
    int pair[2], r = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    union message m;
    message_init(&m, MESSAGE_HELLO, 1);
    for (int i = 0; i < 100000 && r == 0; i++)
        r = message_send(pair[0], &m);
    assert_int_equal(r, -EAGAIN);
    close(pair[1]);
    r = message_send(pair[0], &m);
    assert_true(r == -EPIPE || r == -ECONNRESET); /* and no SIGPIPE */
    close(pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_round_trips),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_length_is_exact),
        cmocka_unit_test(test_output_only_on_success),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_image_names),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_usage_pages),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_ranges_are_told),
        cmocka_unit_test(test_over_a_socket),
        cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_sockets_and_welcomes),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_full_peer_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
