/* Probes: what networks of sandboxes are made of. Tried in a network namespace that goes away with
 * the probe, so that the machine's own is never touched. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/check_probe.h"

#define REPLY_SECONDS 1

struct netlink_request {
    struct nlmsghdr head;
    char body[256];
};

static int own_network(const struct check_context *context)
{
    int flags = CLONE_NEWNET | (context->root || context->rootless ? 0 : CLONE_NEWUSER);
    return unshare(flags) < 0 ? -errno : 0;
}

/* The answer to one request: 0 or -errno. Any answer that is no error is a good one. */
static int ask(int protocol, struct netlink_request *request)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct timeval patience = {.tv_sec = REPLY_SECONDS};
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } reply;
    AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
        return -errno;
    if (sendto(fd, request, request->head.nlmsg_len, 0, (const struct sockaddr *)&kernel,
               sizeof(kernel)) < 0)
        return -errno;
    ssize_t n = recv(fd, &reply, sizeof(reply), 0);
    if (n < 0)
        return -errno;
    if (!NLMSG_OK(&reply.head, (size_t)n))
        return -EBADMSG;
    if (reply.head.nlmsg_type != NLMSG_ERROR)
        return 0;
    const struct nlmsgerr *error = NLMSG_DATA(&reply.head);
    return error->error;
}

static void *extend(struct netlink_request *request, size_t length)
{
    char *place = (char *)request + NLMSG_ALIGN(request->head.nlmsg_len);
    request->head.nlmsg_len = NLMSG_ALIGN(request->head.nlmsg_len) + (uint32_t)length;
    return place;
}

/* An attribute with text in it, or, with none, one that others are put into. */
static struct rtattr *add_attribute(struct netlink_request *request, unsigned short type,
                                    const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    struct rtattr *attribute = extend(request, RTA_LENGTH(length));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(length);
    if (length > 0)
        memcpy(RTA_DATA(attribute), text, length);
    return attribute;
}

static void end_attribute(struct netlink_request *request, struct rtattr *attribute)
{
    char *end = (char *)request + NLMSG_ALIGN(request->head.nlmsg_len);
    attribute->rta_len = (unsigned short)(end - (char *)attribute);
}

static void tell_rootless(const struct check_context *context, struct check_result *result)
{
    if (context->rootless)
        check_effect(result, "not used: networks of sandboxes need a launcher that is root");
}

static void probe_nft(const struct check_context *context, struct check_result *result)
{
    struct netlink_request request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
                 .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
                 .nlmsg_flags = NLM_F_REQUEST}};
    int r = own_network(context);
    if (r == 0)
        r = ask(NETLINK_NETFILTER, &request);
    check_say_outcome(context, result, r, "asking nf_tables for its generation");
    tell_rootless(context, result);
}

static void probe_veth(const struct check_context *context, struct check_result *result)
{
    struct netlink_request request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                 .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL}};
    add_attribute(&request, IFLA_IFNAME, "osb-check");
    struct rtattr *info = add_attribute(&request, IFLA_LINKINFO, NULL);
    add_attribute(&request, IFLA_INFO_KIND, "veth");
    end_attribute(&request, info);
    int r = own_network(context);
    if (r == 0)
        r = ask(NETLINK_ROUTE, &request);
    check_say_outcome(context, result, r, "a pair of interfaces");
    tell_rootless(context, result);
}

#define SECTION "network"

const struct check_probe check_network_probes[] = {
    {SECTION, "nft", CHECK_NOTE, probe_nft, "what sandboxes may reach can be filtered",
     "what sandboxes may reach cannot be filtered", "a kernel with CONFIG_NF_TABLES"},
    {SECTION, "veth", CHECK_NOTE, probe_veth, "sandboxes can be connected",
     "sandboxes cannot be connected", "a kernel with CONFIG_VETH (modprobe veth)"},
    {0},
};
