/* The network: sockets that see or forge what others send, changes of interfaces, and services
 * that only the host, or another sandbox, is meant to reach. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "escapes.h"

static int raw_socket(char **arguments)
{
    (void)arguments;
    return escapes_result(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
}

static int packet_socket(char **arguments)
{
    (void)arguments;
    return escapes_result(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
}

static int set_option(int level, int option, int value)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    return escapes_result(setsockopt(fd, level, option, &value, sizeof(value)));
}

/* Rules of the host's firewall and routes ask for marks. */
static int packet_mark(char **arguments)
{
    (void)arguments;
    return set_option(SOL_SOCKET, SO_MARK, 1);
}

static int foreign_address(char **arguments)
{
    (void)arguments;
    return set_option(IPPROTO_IP, IP_TRANSPARENT, 1);
}

static int add_address(char **arguments)
{
    struct {
        struct nlmsghdr header;
        struct ifaddrmsg message;
        struct rtattr attribute;
        struct in_addr address;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_NEWADDR,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
        .message = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = if_nametoindex("lo")},
        .attribute = {.rta_len = RTA_LENGTH(sizeof(struct in_addr)), .rta_type = IFA_LOCAL},
        .address = {.s_addr = htonl(0x7f090909)},
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    (void)arguments;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer.header))
        return -errno;
    return answer.header.nlmsg_type == NLMSG_ERROR ? answer.error.error : TO_NO_AVAIL;
}

/* What it says when somebody comes. */
static int listen_to(int fd, const void *address, size_t length, const char *secret)
{
    if (fd < 0 || connect(fd, address, (socklen_t)length) < 0)
        return -errno;
    return escapes_find(fd, secret);
}

/* PORT SECRET */
static int loopback_service(char **arguments)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtoul(arguments[0], NULL, 10)),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    return listen_to(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &address, sizeof(address),
                     arguments[1]);
}

/* NAME SECRET */
static int abstract_socket(char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", arguments[0]);
    size_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(arguments[0]);
    return listen_to(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), &address, length,
                     arguments[1]);
}

/* NAME */
static int socket_names(char **arguments)
{
    return escapes_find_in("/proc/net/unix", arguments[0]);
}

const struct escape escapes_of_network[] = {
    {"raw_socket", 0, raw_socket},
    {"packet_socket", 0, packet_socket},
    {"packet_mark", 0, packet_mark},
    {"foreign_address", 0, foreign_address},
    {"add_address", 0, add_address},
    {"loopback_service", 2, loopback_service},
    {"abstract_socket", 2, abstract_socket},
    {"socket_names", 1, socket_names},
    {NULL, 0, NULL},
};
