#include "launcher/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/netlink.h"
#include "launcher/network.h"

#define NEW            (NLM_F_CREATE | NLM_F_EXCL)
#define ADDRESS_BITS   32
#define COUNTERS_MAX   2048
#define COUNTER_FIELDS 9 /* of a line up to the bytes that went */
#define ROUTE_PROTOCOL RTPROT_STATIC

/* Before it is up: an interface with IPv6 begins to talk by itself. */
static int switch_ipv6_off(int proc_fd, const char *interface)
{
    char path[64 + IFNAMSIZ];
    snprintf(path, sizeof(path), "sys/net/ipv6/conf/%s/disable_ipv6", interface);
    int r = network_write(proc_fd, path, "1");
    return r == -ENOENT ? 0 : r; /* a kernel without it */
}

/* For what is made from now on, which is eth0: ::1 stays. */
int link_prepare_inside(int proc_fd)
{
    return switch_ipv6_off(proc_fd, "default");
}

/* What both ends have in common. One queue in each direction: by default it is one for each
 * processor, which every sandbox would pay for. */
static void put_end(struct netlink_request *request, const struct link *link, const char *name)
{
    unsigned char hardware[6] = {0x02, 0x00}; /* locally administered */
    uint32_t address = htonl(link->address);
    memcpy(hardware + 2, &address, sizeof(address));
    netlink_put_text(request, IFLA_IFNAME, name);
    netlink_put(request, IFLA_ADDRESS, hardware, sizeof(hardware));
    netlink_put_u32(request, IFLA_MTU, link->mtu);
    netlink_put_u32(request, IFLA_NUM_TX_QUEUES, 1);
    netlink_put_u32(request, IFLA_NUM_RX_QUEUES, 1);
}

/* Both ends stay down: neither can be up before there is the other. */
static int make_pair(int fd, const struct link *link, int inside_fd)
{
    const struct ifinfomsg body = {.ifi_flags = IFF_NOARP, .ifi_change = IFF_NOARP | IFF_MULTICAST};
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWLINK, NEW, &body, sizeof(body));
    put_end(&request, link, link->name);
    size_t info = netlink_nest(&request, IFLA_LINKINFO);
    netlink_put_text(&request, IFLA_INFO_KIND, "veth");
    size_t data = netlink_nest(&request, IFLA_INFO_DATA);
    size_t peer = netlink_nest(&request, VETH_INFO_PEER);
    netlink_nest_raw(&request, &body, sizeof(body));
    put_end(&request, link, LINK_INSIDE);
    netlink_put_u32(&request, IFLA_NET_NS_FD, (uint32_t)inside_fd);
    netlink_nest_end(&request, peer);
    netlink_nest_end(&request, data);
    netlink_nest_end(&request, info);
    return netlink_ask(fd, &request);
}

/* With a description of the other end that is too short, which is found out only by a kernel that
 * knows what to make. */
int link_probe(void)
{
    const struct ifinfomsg body = {0};
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWLINK, NEW, &body, sizeof(body));
    size_t info = netlink_nest(&request, IFLA_LINKINFO);
    netlink_put_text(&request, IFLA_INFO_KIND, "veth");
    size_t data = netlink_nest(&request, IFLA_INFO_DATA);
    netlink_put_u32(&request, VETH_INFO_PEER, 0);
    netlink_nest_end(&request, data);
    netlink_nest_end(&request, info);
    AUTO_CLOSE int fd = netlink_open(NETLINK_ROUTE);
    int r = fd < 0 ? fd : netlink_ask(fd, &request);
    return r == -EINVAL || r == -ERANGE ? 0 : MIN(r, 0);
}

/* The other end cannot tell it ways. Forwarding is for the host's end: behind it, whoever sends
 * with another address than its own is not heard. */
static int set_up(int fd, const char *name, bool forwarding)
{
    const struct {
        uint16_t type;
        uint32_t value;
    } settings[] = {
        {IPV4_DEVCONF_FORWARDING, forwarding}, {IPV4_DEVCONF_RP_FILTER, forwarding},
        {IPV4_DEVCONF_ACCEPT_REDIRECTS, 0},    {IPV4_DEVCONF_SEND_REDIRECTS, 0},
        {IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0},
    };
    const struct ifinfomsg body = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWLINK, 0, &body, sizeof(body));
    netlink_put_text(&request, IFLA_IFNAME, name);
    size_t families = netlink_nest(&request, IFLA_AF_SPEC);
    size_t family = netlink_nest(&request, AF_INET);
    size_t all = netlink_nest(&request, IFLA_INET_CONF);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        netlink_put_u32(&request, settings[i].type, settings[i].value);
    netlink_nest_end(&request, all);
    netlink_nest_end(&request, family);
    netlink_nest_end(&request, families);
    return netlink_ask(fd, &request);
}

/* Every kind of socket answers this, for its namespace. */
static int find_index(int fd, const char *name, uint32_t *ret_index)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, SIOCGIFINDEX, &request) < 0)
        return -errno;
    *ret_index = (uint32_t)request.ifr_ifindex;
    return 0;
}

/* `gateway` 0: what is there is one step away. */
static int add_route(int fd, uint32_t index, uint32_t to, unsigned bits, uint32_t gateway)
{
    struct rtmsg body = {
        .rtm_family = AF_INET,
        .rtm_dst_len = (unsigned char)bits,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = ROUTE_PROTOCOL,
        .rtm_scope = gateway != 0 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
        .rtm_type = RTN_UNICAST,
        .rtm_flags = gateway != 0 ? RTNH_F_ONLINK : 0,
    };
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWROUTE, NEW, &body, sizeof(body));
    if (bits > 0)
        netlink_put_u32(&request, RTA_DST, htonl(to));
    if (gateway != 0)
        netlink_put_u32(&request, RTA_GATEWAY, htonl(gateway));
    netlink_put_u32(&request, RTA_OIF, index);
    return netlink_ask(fd, &request);
}

int link_make(const struct link *link, int proc_fd, int inside_fd)
{
    uint32_t index = 0;
    AUTO_CLOSE int fd = netlink_open(NETLINK_ROUTE);
    int r = fd < 0 ? fd : make_pair(fd, link, inside_fd);
    if (r == 0)
        r = switch_ipv6_off(proc_fd, link->name);
    if (r == 0)
        r = set_up(fd, link->name, true);
    if (r == 0)
        r = find_index(fd, link->name, &index);
    return r < 0 ? r : add_route(fd, index, link->address, ADDRESS_BITS, 0);
}

static int add_address(int fd, uint32_t index, uint32_t address)
{
    const struct ifaddrmsg body = {
        .ifa_family = AF_INET,
        .ifa_prefixlen = ADDRESS_BITS,
        .ifa_scope = RT_SCOPE_UNIVERSE,
        .ifa_index = index,
    };
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWADDR, NEW, &body, sizeof(body));
    netlink_put_u32(&request, IFA_LOCAL, htonl(address));
    return netlink_ask(fd, &request);
}

/* One gateway for everything, and not simply "all of it is on this device": the kernel would keep a
 * neighbour for each address that is talked to, in a table of limited size which all namespaces
 * share. */
int link_finish_inside(const struct link *link)
{
    uint32_t index = 0;
    AUTO_CLOSE int fd = netlink_open(NETLINK_ROUTE);
    int r = fd < 0 ? fd : find_index(fd, LINK_INSIDE, &index);
    if (r == 0)
        r = set_up(fd, LINK_INSIDE, false);
    if (r == 0)
        r = add_address(fd, index, link->address);
    return r < 0 ? r : add_route(fd, index, 0, 0, link->gateway);
}

int link_delete(const char *name)
{
    const struct ifinfomsg body = {0};
    struct netlink_request request;
    netlink_begin(&request, RTM_DELLINK, 0, &body, sizeof(body));
    netlink_put_text(&request, IFLA_IFNAME, name);
    AUTO_CLOSE int fd = netlink_open(NETLINK_ROUTE);
    return fd < 0 ? fd : netlink_ask(fd, &request);
}

/* "  eth0: 123 4 …", behind two lines of headings, which have no colon in the first word. The rest
 * of the line behind the name; NULL: no interface. */
static const char *parse_name(const char *line, char ret[IFNAMSIZ])
{
    line += strspn(line, " ");
    size_t length = strcspn(line, ": \n");
    if (length == 0 || length >= IFNAMSIZ || line[length] != ':')
        return NULL;
    memcpy(ret, line, length);
    ret[length] = '\0';
    return line + length + 1;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end != NULL ? end + 1 : NULL;
}

void link_each(const char *text, void (*found)(void *context, const char *name), void *context)
{
    char name[IFNAMSIZ];
    for (const char *line = text; line != NULL; line = next_line(line)) {
        if (parse_name(line, name) != NULL)
            found(context, name);
    }
}

static const char *take_number(const char *at, uint64_t *ret)
{
    char digits[24];
    at += strspn(at, " ");
    size_t length = strspn(at, "0123456789");
    if (length == 0 || length >= sizeof(digits))
        return NULL;
    memcpy(digits, at, length);
    digits[length] = '\0';
    return str_to_u64(digits, 0, UINT64_MAX, ret) < 0 ? NULL : at + length;
}

int link_parse_counters(const char *text, const char *name, uint64_t *ret_rx, uint64_t *ret_tx)
{
    char found[IFNAMSIZ];
    uint64_t numbers[COUNTER_FIELDS];
    for (const char *line = text; line != NULL; line = next_line(line)) {
        const char *at = parse_name(line, found);
        if (at == NULL || !str_equal(found, name))
            continue;
        for (unsigned i = 0; i < COUNTER_FIELDS && at != NULL; i++)
            at = take_number(at, &numbers[i]);
        if (at == NULL)
            return -EBADMSG;
        *ret_rx = numbers[0];
        *ret_tx = numbers[COUNTER_FIELDS - 1];
        return 0;
    }
    return -ENODEV;
}

int link_open_counters(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/net/dev", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int link_read_counters(int fd, uint64_t *ret_rx, uint64_t *ret_tx)
{
    char text[COUNTERS_MAX];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    return link_parse_counters(text, LINK_INSIDE, ret_rx, ret_tx);
}
