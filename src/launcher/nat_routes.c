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
#include "launcher/netlink.h"

#define ANSWER_MAX     65536
#define ANSWER_SECONDS 5
#define ERRNO_MAX      4095 /* of the kernel */
/* 0.0.0.0/1 and 128.0.0.0/1 are how some put their default route before that of others. */
#define DEFAULT_BITS 1

static int take_attribute(unsigned type, const unsigned char *data, size_t length,
                          struct nat_route *route)
{
    uint32_t value;
    bool wanted = type == RTA_DST || type == RTA_OIF || type == RTA_PRIORITY || type == RTA_TABLE;
    if (!wanted || length < sizeof(value))
        return wanted ? -EBADMSG : 0;
    memcpy(&value, data, sizeof(value));
    if (type == RTA_DST)
        route->to.first = ntohl(value);
    else if (type == RTA_OIF)
        route->device = value;
    else if (type == RTA_PRIORITY)
        route->metric = value;
    else
        route->table = value;
    return 0;
}

/* What is too short to be one more is padding. */
static int take_attributes(const unsigned char *at, size_t left, struct nat_route *route)
{
    struct rtattr head;
    while (left >= sizeof(head)) {
        memcpy(&head, at, sizeof(head));
        if (head.rta_len < sizeof(head) || head.rta_len > left)
            return 0;
        int r =
            take_attribute(head.rta_type, at + RTA_LENGTH(0), head.rta_len - RTA_LENGTH(0), route);
        if (r < 0)
            return r;
        size_t step = MIN((size_t)RTA_ALIGN(head.rta_len), left);
        at += step;
        left -= step;
    }
    return 0;
}

int nat_route_parse(const void *packet, size_t length, struct nat_route *ret)
{
    const unsigned char *bytes = packet;
    struct nlmsghdr head;
    struct rtmsg message;
    if (length < NLMSG_LENGTH(sizeof(message)))
        return -EBADMSG;
    memcpy(&head, bytes, sizeof(head));
    memcpy(&message, bytes + NLMSG_HDRLEN, sizeof(message));
    if (head.nlmsg_len > length || head.nlmsg_len < NLMSG_LENGTH(sizeof(message)) ||
        head.nlmsg_type != RTM_NEWROUTE || message.rtm_family != AF_INET ||
        message.rtm_dst_len > 32)
        return -EBADMSG;
    struct nat_route route = {
        .to.bits = message.rtm_dst_len, .type = message.rtm_type, .table = message.rtm_table};
    size_t begin = MIN((size_t)NLMSG_SPACE(sizeof(message)), (size_t)head.nlmsg_len);
    int r = take_attributes(bytes + begin, head.nlmsg_len - begin, &route);
    if (r == 0)
        *ret = route;
    return r;
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

static void add_route(struct nat_routes *routes, const unsigned char *packet, size_t length)
{
    char device[IFNAMSIZ] = "";
    struct nat_route route;
    if (nat_route_parse(packet, length, &route) < 0)
        return;
    if (route.device != 0 && if_indextoname(route.device, device) == NULL)
        return; /* it has just gone, and the route with it */
    nat_routes_add(routes, &route, device);
}

static int answered_error(const unsigned char *packet, size_t length)
{
    int32_t error;
    if (length < NLMSG_HDRLEN + sizeof(error))
        return -EBADMSG;
    memcpy(&error, packet + NLMSG_HDRLEN, sizeof(error));
    return error < 0 && error >= -ERRNO_MAX ? error : -EBADMSG;
}

/* 1: all was read, 0: there is more, -errno. */
static int take_answer(struct nat_routes *routes, const unsigned char *at, size_t left)
{
    struct nlmsghdr head;
    while (left >= sizeof(head)) {
        memcpy(&head, at, sizeof(head));
        if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > left)
            return -EBADMSG;
        if (head.nlmsg_type == NLMSG_DONE)
            return 1;
        if (head.nlmsg_type == NLMSG_ERROR)
            return answered_error(at, head.nlmsg_len);
        add_route(routes, at, head.nlmsg_len);
        size_t step = MIN((size_t)NLMSG_ALIGN(head.nlmsg_len), left);
        at += step;
        left -= step;
    }
    return left == 0 ? 0 : -EBADMSG;
}

int nat_routes_read(struct nat_routes *routes)
{
    AUTO_CLOSE int fd = netlink_open(NETLINK_ROUTE);
    if (fd < 0)
        return fd;
    AUTO_FREE unsigned char *answer = mem_alloc(ANSWER_MAX);
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
