#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"
#include "launcher/netlink.h"

static const struct nlattr *attribute_at(const struct netlink_request *request, size_t at)
{
    assert_true(at + NLA_HDRLEN <= request->length);
    return (const void *)(request->bytes + at);
}

static void test_layout(void **state)
{
    (void)state;
    struct netlink_request request;
    const struct ifinfomsg body = {.ifi_index = 7};
    netlink_begin(&request, RTM_NEWLINK, NLM_F_CREATE, &body, sizeof(body));
    assert_int_equal(request.length, NLMSG_HDRLEN + sizeof(body));
    const struct nlmsghdr *header = (const void *)request.bytes;
    assert_int_equal(header->nlmsg_flags, NLM_F_CREATE | NLM_F_REQUEST | NLM_F_ACK);
    assert_int_equal(header->nlmsg_type, RTM_NEWLINK);

    size_t first = request.length;
    netlink_put_text(&request, 3, "abcd"); /* five bytes with the end: three more to the next */
    assert_int_equal(attribute_at(&request, first)->nla_len, NLA_HDRLEN + 5);
    size_t second = first + NLA_ALIGN(NLA_HDRLEN + 5);
    netlink_put_u32(&request, 4, 0x01020304);
    assert_int_equal(attribute_at(&request, second)->nla_type, 4);
    assert_int_equal(attribute_at(&request, second)->nla_len, NLA_HDRLEN + 4);
    assert_int_equal(request.length, second + NLA_HDRLEN + 4);
    static const unsigned char padding[3];
    assert_memory_equal(request.bytes + first + NLA_HDRLEN + 5, padding, sizeof(padding));
    assert_false(request.too_long);
}

static void test_nesting(void **state)
{
    (void)state;
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWLINK, 0, NULL, 0);
    size_t outer = netlink_nest(&request, 10);
    size_t inner = netlink_nest(&request, 11);
    netlink_nest_raw(&request, "12345678", 8);
    netlink_put_text(&request, 1, "x");
    netlink_nest_end(&request, inner);
    netlink_put_u32(&request, 2, 5);
    netlink_nest_end(&request, outer);
    assert_int_equal(attribute_at(&request, inner)->nla_len, NLA_HDRLEN + 8 + NLA_HDRLEN + 2);
    assert_int_equal(attribute_at(&request, outer)->nla_len,
                     NLA_HDRLEN + NLA_ALIGN(NLA_HDRLEN + 8 + NLA_HDRLEN + 2) + NLA_HDRLEN + 4);
    assert_int_equal(outer + attribute_at(&request, outer)->nla_len, request.length);
}

/* Whatever is put, nothing is written behind the end, and it is not sent. */
static void test_too_long(void **state)
{
    (void)state;
    static const char data[NETLINK_REQUEST_MAX * 2];
    struct {
        struct netlink_request request;
        char behind[64];
    } place;
    memset(&place, 0x5a, sizeof(place));
    netlink_begin(&place.request, RTM_NEWLINK, 0, NULL, 0);
    size_t nest = netlink_nest(&place.request, 1);
    for (unsigned i = 0; i < 400; i++)
        netlink_put(&place.request, 2, data, 8);
    assert_true(place.request.too_long);
    netlink_nest_end(&place.request, nest);
    netlink_nest_end(&place.request, netlink_nest(&place.request, 3));
    assert_true(place.request.length <= NETLINK_REQUEST_MAX);
    for (size_t i = 0; i < sizeof(place.behind); i++)
        assert_int_equal(place.behind[i], 0x5a);
    assert_int_equal(netlink_ask(-1, &place.request), -EMSGSIZE);

    const size_t sizes[] = {NETLINK_REQUEST_MAX, NETLINK_REQUEST_MAX - NLMSG_HDRLEN, sizeof(data),
                            UINT16_MAX, SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        netlink_begin(&place.request, RTM_NEWLINK, 0, NULL, 0);
        netlink_put(&place.request, 1, data, sizes[i]);
        assert_true(place.request.too_long);
    }
    netlink_begin(&place.request, RTM_NEWLINK, 0, NULL, 0);
    netlink_put(&place.request, 1, data, NETLINK_REQUEST_MAX - NLMSG_HDRLEN - NLA_HDRLEN);
    assert_false(place.request.too_long);
}

struct answer {
    struct nlmsghdr header;
    int32_t error;
    struct nlmsghdr request;
};

static int parse(struct answer answer, size_t length, int *ret_error)
{
    AUTO_FREE char *exact = mem_dup_n((const char *)&answer, length); /* for the sanitizer */
    return netlink_parse_answer(exact, length, 1, ret_error);
}

static void test_answers(void **state)
{
    (void)state;
    struct answer answer = {
        .header = {.nlmsg_len = sizeof(answer), .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = 1},
        .error = -EEXIST};
    int error = 99;
    assert_int_equal(parse(answer, sizeof(answer), &error), 0);
    assert_int_equal(error, -EEXIST);
    answer.error = 0;
    assert_int_equal(parse(answer, sizeof(answer), &error), 0);
    assert_int_equal(error, 0);

    error = 99;
    for (size_t length = 0; length < sizeof(answer); length++)
        assert_int_equal(parse(answer, length, &error), -EBADMSG);
    for (uint32_t length = 0; length < sizeof(answer.header) + sizeof(answer.error); length++) {
        answer.header.nlmsg_len = length;
        assert_int_equal(parse(answer, sizeof(answer), &error), -EBADMSG);
    }
    answer.header.nlmsg_len = UINT32_MAX;
    assert_int_equal(parse(answer, sizeof(answer), &error), -EBADMSG);
    answer.header.nlmsg_len = sizeof(answer);
    answer.error = 1;
    assert_int_equal(parse(answer, sizeof(answer), &error), -EBADMSG);
    answer.error = INT32_MIN;
    assert_int_equal(parse(answer, sizeof(answer), &error), -EBADMSG);
    answer.error = 0;
    answer.header.nlmsg_seq = 2;
    assert_int_equal(parse(answer, sizeof(answer), &error), -EAGAIN);
    answer.header.nlmsg_seq = 1;
    answer.header.nlmsg_type = RTM_NEWLINK;
    assert_int_equal(parse(answer, sizeof(answer), &error), -EAGAIN);
    assert_int_equal(error, 99);
}

/* The kernel's own word: an interface that is not there. */
static void test_real(void **state)
{
    (void)state;
    struct netlink_request request;
    const struct ifinfomsg body = {0};
    AUTO_CLOSE int fd = netlink_open(NETLINK_ROUTE);
    assert_true(fd >= 0);
    netlink_begin(&request, RTM_SETLINK, 0, &body, sizeof(body));
    netlink_put_text(&request, IFLA_IFNAME, "no-such-device");
    int r = netlink_ask(fd, &request);
    assert_true(r == -ENODEV || r == -EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),   cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
