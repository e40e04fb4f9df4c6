/* Probes: what networks of sandboxes are made of. Tried in a network namespace that goes away with
 * the probe, so that the machine's own is never touched. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>

#include "base/mem.h"
#include "launcher/check_probe.h"
#include "launcher/netlink.h"

static int own_network(const struct check_context *context)
{
    int flags = CLONE_NEWNET | (context->root || context->rootless ? 0 : CLONE_NEWUSER);
    return unshare(flags) < 0 ? -errno : 0;
}

/* In a network of our own: the kernel's answer to one request, 0 or -errno. */
static int ask(const struct check_context *context, int protocol, struct netlink_request *request)
{
    int r = own_network(context);
    if (r < 0)
        return r;
    AUTO_CLOSE int fd = netlink_open(protocol);
    return fd < 0 ? fd : netlink_ask(fd, request);
}

static void tell_rootless(const struct check_context *context, struct check_result *result)
{
    if (context->rootless)
        check_effect(result, "not used: networks of sandboxes need a launcher that is root");
}

static void probe_nft(const struct check_context *context, struct check_result *result)
{
    const struct nfgenmsg body = {0};
    struct netlink_request request;
    netlink_begin(&request, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, 0, &body, sizeof(body));
    int r = ask(context, NETLINK_NETFILTER, &request);
    check_say_outcome(context, result, r, "asking nf_tables for its generation");
    tell_rootless(context, result);
}

static void probe_veth(const struct check_context *context, struct check_result *result)
{
    const struct ifinfomsg body = {0};
    struct netlink_request request;
    netlink_begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof(body));
    netlink_put_text(&request, IFLA_IFNAME, "osb-check");
    size_t info = netlink_nest(&request, IFLA_LINKINFO);
    netlink_put_text(&request, IFLA_INFO_KIND, "veth");
    netlink_nest_end(&request, info);
    int r = ask(context, NETLINK_ROUTE, &request);
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
