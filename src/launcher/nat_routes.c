#include "launcher/nat_routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define ANSWER_MAX     65536
#define ANSWER_SECONDS 5
/* 0.0.0.0/1 and 128.0.0.0/1 are how some put their default route before that of others. */
#define DEFAULT_BITS 1

static int parse_attribute(const struct rtattr *attribute, struct nat_route *route)
{
    uint32_t value;
    if (RTA_PAYLOAD(attribute) < sizeof(value))
        return attribute->rta_type == RTA_DST || attribute->rta_type == RTA_OIF ||
                       attribute->rta_type == RTA_PRIORITY || attribute->rta_type == RTA_TABLE
                   ? -EBADMSG
                   : 0;
    memcpy(&value, RTA_DATA(attribute), sizeof(value));
    switch (attribute->rta_type) {
    case RTA_DST:
        route->to.first = ntohl(value);
        break;
    case RTA_OIF:
        route->device = value;
        break;
    case RTA_PRIORITY:
        route->metric = value;
        break;
    case RTA_TABLE:
        route->table = value;
        break;
    default:
        break;
    }
    return 0;
}

int nat_route_parse(const struct nlmsghdr *head, size_t length, struct nat_route *ret)
{
    const struct rtmsg *message = NLMSG_DATA(head);
    if (length < NLMSG_LENGTH(sizeof(*message)) || head->nlmsg_len > length ||
        head->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) || head->nlmsg_type != RTM_NEWROUTE ||
        message->rtm_family != AF_INET || message->rtm_dst_len > 32)
        return -EBADMSG;
    struct nat_route route = {
        .to.bits = message->rtm_dst_len, .type = message->rtm_type, .table = message->rtm_table};
    size_t left = head->nlmsg_len - NLMSG_SPACE(sizeof(*message));
    const struct rtattr *attribute = RTM_RTA(message);
    if (head->nlmsg_len < NLMSG_SPACE(sizeof(*message)))
        left = 0;
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        int r = parse_attribute(attribute, &route);
        if (r < 0)
            return r;
    }
    *ret = route;
    return 0;
}

void nat_routes_add(struct nat_routes *routes, const struct nat_route *route, const char *device)
{
    if (routes->ours != NULL && routes->ours[0] != '\0' && str_starts_with(device, routes->ours))
        return;
    if (route->type == RTN_LOCAL && route->to.bits == 32 && routes->local_count < NAT_ROUTES_LOCAL)
        routes->local[routes->local_count++] = route->to.first;
    if (route->to.bits <= DEFAULT_BITS) {
        if (route->type != RTN_UNICAST || route->table != RT_TABLE_MAIN || device[0] == '\0' ||
            (routes->has_default && routes->default_metric <= route->metric))
            return;
        routes->has_default = true;
        routes->default_metric = route->metric;
        snprintf(routes->default_device, sizeof(routes->default_device), "%s", device);
    } else if (!routes->overlaps && address_overlaps(routes->pool, route->to)) {
        routes->overlaps = true;
        routes->overlap = *route;
        snprintf(routes->overlap_device, sizeof(routes->overlap_device), "%s", device);
    }
}

static int ask(int fd)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg message;
    } request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .message = {.rtm_family = AF_INET},
    };
    const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
        sendto(fd, &request, sizeof(request), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) <
            0)
        return -errno;
    return 0;
}

static void add_route(struct nat_routes *routes, const struct nlmsghdr *head)
{
    char device[IFNAMSIZ] = "";
    struct nat_route route;
    if (nat_route_parse(head, head->nlmsg_len, &route) < 0)
        return;
    if (route.device != 0 && if_indextoname(route.device, device) == NULL)
        return; /* it has just gone, and the route with it */
    nat_routes_add(routes, &route, device);
}

/* 1: all was read, 0: there is more, -errno. */
static int take_answer(struct nat_routes *routes, const char *bytes, size_t length)
{
    const struct nlmsghdr *head = (const struct nlmsghdr *)(const void *)bytes;
    for (; NLMSG_OK(head, length); head = NLMSG_NEXT(head, length)) {
        if (head->nlmsg_type == NLMSG_DONE)
            return 1;
        if (head->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *error = NLMSG_DATA(head);
            return head->nlmsg_len < NLMSG_LENGTH(sizeof(*error)) || error->error >= 0
                       ? -EBADMSG
                       : error->error;
        }
        add_route(routes, head);
    }
    return length == 0 ? 0 : -EBADMSG;
}

int nat_routes_read(struct nat_routes *routes)
{
    AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    AUTO_FREE char *answer = mem_alloc(ANSWER_MAX);
    int r = ask(fd);
    while (r == 0) {
        ssize_t n = recv(fd, answer, ANSWER_MAX, MSG_TRUNC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
        r = n > ANSWER_MAX ? -EMSGSIZE : take_answer(routes, answer, (size_t)n);
    }
    return r < 0 ? r : 0;
}

bool nat_routes_is_local(const struct nat_routes *routes, uint32_t address)
{
    for (unsigned i = 0; i < routes->local_count; i++) {
        if (routes->local[i] == address)
            return true;
    }
    return false;
}

unsigned nat_routes_mtu(const char *device)
{
    struct ifreq request = {0};
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || device[0] == '\0')
        return 0;
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    return ioctl(fd, SIOCGIFMTU, &request) < 0 || request.ifr_mtu < 0 ? 0
                                                                      : (unsigned)request.ifr_mtu;
}
