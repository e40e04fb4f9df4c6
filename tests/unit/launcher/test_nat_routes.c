#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "launcher/nat_routes.h"

struct packet {
    union {
        struct nlmsghdr head;
        char bytes[256];
    };
};

static void begin(struct packet *packet, unsigned char bits)
{
    memset(packet, 0, sizeof(*packet));
    packet->head.nlmsg_type = RTM_NEWROUTE;
    packet->head.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg));
    struct rtmsg *message = NLMSG_DATA(&packet->head);
    *message = (struct rtmsg){.rtm_family = AF_INET,
                              .rtm_dst_len = bits,
                              .rtm_type = RTN_UNICAST,
                              .rtm_table = RT_TABLE_MAIN};
}

static void put(struct packet *packet, unsigned short type, uint32_t value, unsigned short length)
{
    struct rtattr *attribute =
        (struct rtattr *)(void *)(packet->bytes + NLMSG_ALIGN(packet->head.nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(length);
    memcpy(RTA_DATA(attribute), &value, MIN(length, (unsigned short)4));
    packet->head.nlmsg_len = NLMSG_ALIGN(packet->head.nlmsg_len) + RTA_LENGTH(length);
}

static int parse(const struct packet *packet, struct nat_route *ret)
{
    return nat_route_parse(&packet->head, sizeof(*packet), ret);
}

static void test_a_route(void **state)
{
    (void)state;
    struct packet packet;
    struct nat_route route;
    begin(&packet, 24);
    put(&packet, RTA_DST, htonl(0x0a010200), 4);
    put(&packet, RTA_OIF, 7, 4);
    put(&packet, RTA_PRIORITY, 100, 4);
    put(&packet, RTA_TABLE, 5200, 4);
    assert_int_equal(parse(&packet, &route), 0);
    assert_int_equal(route.to.first, 0x0a010200);
    assert_int_equal(route.to.bits, 24);
    assert_int_equal(route.device, 7);
    assert_int_equal(route.metric, 100);
    assert_int_equal(route.table, 5200);
    begin(&packet, 0); /* nothing but the fixed part */
    assert_int_equal(parse(&packet, &route), 0);
    assert_int_equal(route.to.bits, 0);
    assert_int_equal(route.table, RT_TABLE_MAIN);
}

static void test_bad_messages(void **state)
{
    (void)state;
    struct packet packet;
    struct nat_route route;
    begin(&packet, 33);
    assert_true(parse(&packet, &route) < 0);
    begin(&packet, 8);
    packet.head.nlmsg_type = RTM_NEWLINK;
    assert_true(parse(&packet, &route) < 0);
    begin(&packet, 8);
    ((struct rtmsg *)NLMSG_DATA(&packet.head))->rtm_family = AF_INET6;
    assert_true(parse(&packet, &route) < 0);
    begin(&packet, 8);
    put(&packet, RTA_DST, 10, 2); /* too short for an address */
    assert_true(parse(&packet, &route) < 0);
    begin(&packet, 8);
    packet.head.nlmsg_len = sizeof(packet) + 1;
    assert_true(parse(&packet, &route) < 0);
    packet.head.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) - 1;
    assert_true(parse(&packet, &route) < 0);
}

/* At each length in its own allocation, so that a sanitizer sees a read behind the end. */
static void test_cut_short(void **state)
{
    (void)state;
    struct packet packet;
    begin(&packet, 24);
    put(&packet, RTA_DST, htonl(0x0a010200), 4);
    put(&packet, RTA_OIF, 7, 4);
    for (uint32_t length = sizeof(struct nlmsghdr); length <= packet.head.nlmsg_len; length++) {
        struct nat_route route;
        char *copy = malloc(length);
        assert_non_null(copy);
        memcpy(copy, packet.bytes, length);
        struct nlmsghdr *head = (struct nlmsghdr *)(void *)copy;
        assert_true(length == packet.head.nlmsg_len || nat_route_parse(head, length, &route) < 0);
        head->nlmsg_len = length;
        (void)nat_route_parse(head, length, &route);
        free(copy);
    }
}

static void add(struct nat_routes *routes, uint32_t first, unsigned bits, uint32_t metric,
                const char *device)
{
    const struct nat_route route = {
        .to = {first, bits}, .type = RTN_UNICAST, .table = RT_TABLE_MAIN, .metric = metric};
    nat_routes_add(routes, &route, device);
}

static void test_what_counts(void **state)
{
    (void)state;
    struct nat_routes routes = {.pool = {0x64400000, 16}, .ours = "o12345678-"};
    add(&routes, 0, 0, 200, "wifi");
    add(&routes, 0, 0, 100, "wire");
    add(&routes, 0, 0, 300, "modem");
    add(&routes, 0, 1, 0, ""); /* of several devices */
    add(&routes, 0x64410000, 16, 0, "next");
    add(&routes, 0x64400002, 32, 0, "o12345678-0001");
    assert_false(routes.overlaps);
    assert_true(routes.has_default);
    assert_string_equal(routes.default_device, "wire");
    add(&routes, 0x64400000, 10, 0, "vpn");
    add(&routes, 0x64400002, 32, 0, "o87654321-0001");
    assert_true(routes.overlaps);
    assert_string_equal(routes.overlap_device, "vpn");
    const struct nat_route own = {.to = {0xc0000201, 32}, .type = RTN_LOCAL, .table = 255};
    nat_routes_add(&routes, &own, "lo");
    assert_true(nat_routes_is_local(&routes, 0xc0000201));
    assert_false(nat_routes_is_local(&routes, 0xc0000202));
    for (int i = 0; i < 2 * NAT_ROUTES_LOCAL; i++)
        nat_routes_add(&routes, &own, "lo");
    assert_int_equal(routes.local_count, NAT_ROUTES_LOCAL);
}

static void test_this_machine(void **state)
{
    (void)state;
    struct nat_routes routes = {.pool = {0x7f000000, 8}, .ours = ""};
    assert_int_equal(nat_routes_read(&routes), 0);
    assert_true(routes.local_count == 0 || nat_routes_is_local(&routes, 0x7f000001));
    assert_int_equal(nat_routes_mtu(""), 0);
    assert_int_equal(nat_routes_mtu("no-such-device"), 0);
    assert_true(nat_routes_mtu("lo") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_route),      cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_cut_short),    cmocka_unit_test(test_what_counts),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
