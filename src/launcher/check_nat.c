/* Probes: whether sandboxes can have network mode nat, and whether others stand in its way. The
 * machine's network is only looked at; rules are tried in a network namespace that goes away. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/check_probe.h"
#include "launcher/firewall.h"
#include "launcher/nat_internal.h"
#include "launcher/nat_rules.h"
#include "launcher/program.h"
#include "launcher/state.h"

#define RULESET_MAX (4u << 20)
#define RULESET_MS  2000
#define LEGACY      "/proc/net/ip_tables_names"

/* What the launcher would call its interfaces. The state directory need not be there yet. */
static void find_nat(const struct check_context *context, struct nat *ret)
{
    char instance[STATE_INSTANCE_MAX];
    AUTO_FREE char *place = context->place[0] != '\0' ? realpath(context->place, NULL) : NULL;
    const char *rest = context->state_dir + strlen(context->place);
    rest += strspn(rest, "/");
    AUTO_FREE char *path =
        place == NULL     ? mem_dup(context->state_dir)
        : rest[0] == '\0' ? mem_dup(place)
                          : mem_printf("%s%s%s", str_equal(place, "/") ? "" : place, "/", rest);
    state_instance(path, instance);
    *ret = (struct nat){.pool = context->network->pool.first,
                        .pool_bits = context->network->pool.bits};
    snprintf(ret->prefix, sizeof(ret->prefix), "o%s-", instance);
}

static int find_routes(const struct check_context *context, const struct nat *nat,
                       struct nat_routes *ret)
{
    *ret = (struct nat_routes){.pool = context->network->pool, .ours = nat->prefix};
    return nat_routes_read(ret);
}

static void probe_rules(const struct check_context *context, struct check_result *result)
{
    struct nat nat;
    struct error err = ERROR_INIT;
    find_nat(context, &nat);
    if (unshare(CLONE_NEWNET | (context->root ? 0 : CLONE_NEWUSER)) < 0)
        check_say_outcome(context, result, -errno, "a network namespace");
    else if (nat_rules_load(&nat, &err) < 0)
        check_say(result, CHECK_NO, "%s", err.message);
    else
        check_say(result, CHECK_YES, "nft loads the rules");
}

static void probe_forwarding(const struct check_context *context, struct check_result *result)
{
    bool on = false;
    (void)context;
    int r = nat_forwarding(&on);
    if (r == 0 && on)
        check_say(result, CHECK_YES, "net.ipv4.ip_forward is on");
    else if (r == 0)
        check_say(result, CHECK_PARTLY, "net.ipv4.ip_forward is off; the launcher turns it on");
    else
        check_say(result, CHECK_NO, "net.ipv4.ip_forward is off and cannot be turned on: %s",
                  strerror(-r));
}

static void probe_pool(const struct check_context *context, struct check_result *result)
{
    struct nat nat;
    struct nat_routes routes;
    struct error err = ERROR_INIT;
    char pool[ADDRESS_MAX];
    find_nat(context, &nat);
    int r = find_routes(context, &nat, &routes);
    address_print(context->network->pool.first, pool);
    if (r < 0)
        check_say(result, CHECK_UNKNOWN, "cannot read the machine's routes: %s", strerror(-r));
    else if (nat_pool_check(&routes, &err) < 0)
        check_say(result, CHECK_NO, "%s", err.message);
    else
        check_say(result, CHECK_YES, "%s/%u is nobody's, room for %u sandboxes", pool,
                  nat.pool_bits, nat_numbers(&nat));
}

static void probe_servers(const struct check_context *context, struct check_result *result)
{
    struct nat nat;
    struct nat_routes routes;
    struct nat_resolv resolv;
    char list[NAT_RESOLV_SERVERS * (ADDRESS_MAX + 2)] = "";
    find_nat(context, &nat);
    (void)find_routes(context, &nat, &routes);
    nat_find_servers(context->network, &routes, &resolv);
    for (unsigned i = 0; i < resolv.count; i++) {
        char server[ADDRESS_MAX];
        size_t length = strlen(list);
        address_print(resolv.servers[i], server);
        snprintf(list + length, sizeof(list) - length, "%s%s", i > 0 ? ", " : "", server);
    }
    if (resolv.count > 0)
        check_say(result, CHECK_YES, "%s", list);
    else
        check_say(result, CHECK_NO,
                  "the host has none that is IPv4 and neither on the host itself "
                  "nor link-local");
}

/* The rules of others as text. Returns 0 or -errno; -ENOENT: there is no such program. */
static int list_rules(const char *name, const char *const *argv, struct buf *text)
{
    CLEANUP(buf_done) struct buf said;
    AUTO_FREE char *program = program_find(name);
    buf_init(&said, 4096);
    if (program == NULL)
        return -ENOENT;
    int r = program_run(program, argv, "", RULESET_MS, text, &said);
    if (r != 0)
        return r < 0 ? r : -EPERM;
    return text->length == text->max ? -E2BIG : 0;
}

/* Tables of the older iptables are not nft's to show. Asking for them makes them, so only those are
 * asked for that are there. */
static int read_legacy(const char *prefix, struct firewall *ret)
{
    static const char *const argv[] = {"iptables-legacy-save", "-t", "filter", NULL};
    CLEANUP(buf_done) struct buf names;
    CLEANUP(buf_done) struct buf text;
    buf_init(&names, 4096);
    buf_init(&text, RULESET_MAX);
    if (check_read(LEGACY, &names) < 0 || strstr(names.data, "filter") == NULL)
        return 0;
    int r = list_rules(argv[0], argv, &text);
    if (r == 0)
        firewall_read_iptables(text.data, prefix, ret);
    return r == -ENOENT ? 0 : r;
}

static int read_firewall(const char *prefix, struct firewall *ret)
{
    static const char *const argv[] = {"nft", "-s", "list", "ruleset", NULL};
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, RULESET_MAX);
    *ret = (struct firewall){0};
    int r = list_rules(argv[0], argv, &text);
    if (r == 0)
        firewall_read_nft(text.data, prefix, ret);
    return r == 0 && !ret->drops ? read_legacy(prefix, ret) : r;
}

static void probe_firewall(const struct check_context *context, struct check_result *result)
{
    struct nat nat;
    struct nat_routes routes;
    struct firewall firewall;
    find_nat(context, &nat);
    int r = read_firewall(nat.prefix, &firewall);
    if (r < 0) {
        check_say(result, CHECK_UNKNOWN, "the machine's rules cannot be read: %s",
                  r == -E2BIG    ? "there are too many"
                  : r == -ENOENT ? "the program nft is not installed"
                                 : strerror(-r));
        return;
    }
    if (!firewall.drops) {
        check_say(result, CHECK_YES, "no other rules drop what sandboxes send");
        return;
    }
    (void)find_routes(context, &nat, &routes);
    check_say(result, CHECK_NO, "%s: chain %s of table %s %s drops what it does not know%s",
              firewall_name(&firewall), firewall.chain, firewall.family, firewall.table,
              firewall.others > 0 ? ", and it is not alone" : "");
    firewall_advice(&firewall, nat.prefix, routes.has_default ? routes.default_device : "INTERFACE",
                    result->advice, sizeof(result->advice));
}

/* Out of the others: the one line that most want to know. */
static void probe_nat(const struct check_context *context, struct check_result *result)
{
    static const char *const needed[] = {"nft-rules", "veth", "forwarding", "network-pool"};
    static const char *const useful[] = {"name-servers", "firewall"};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        enum check_found found = check_found_of(context, needed[i]);
        if (found == CHECK_YES || found == CHECK_PARTLY)
            continue;
        check_say(result, context->root ? CHECK_NO : CHECK_UNKNOWN, "see %s", needed[i]);
        return;
    }
    if (!context->root) {
        check_say(result, CHECK_UNKNOWN, "only root can have it");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(useful); i++) {
        if (check_found_of(context, useful[i]) != CHECK_NO)
            continue;
        check_say(result, CHECK_PARTLY, "see %s", useful[i]);
        check_effect(result, "sandboxes have a network, but do not get far");
        return;
    }
    check_say(result, CHECK_YES, "all it needs is there");
}

#define SECTION "network"

const struct check_probe check_nat_probes[] = {
    {SECTION, "nft-rules", CHECK_NOTE, probe_rules, "what sandboxes may reach can be said",
     "what sandboxes may reach cannot be said",
     "install the package nftables; a kernel with CONFIG_NF_TABLES_INET, NFT_FIB_INET, NFT_MASQ, "
     "NFT_REJECT_INET and NFT_CONNLIMIT"},
    {SECTION, "forwarding", CHECK_NOTE, probe_forwarding, "the machine passes packets on",
     "the machine passes no packets on", NULL},
    {SECTION, "network-pool", CHECK_NOTE, probe_pool, "sandboxes can have addresses",
     "sandboxes can have no addresses",
     "choose a network that is nobody's: --network-pool, or pool in [network]"},
    {SECTION, "name-servers", CHECK_NOTE, probe_servers, "sandboxes can resolve names",
     "sandboxes can resolve no names", "give one: --dns, or dns in [network]"},
    {SECTION, "firewall", CHECK_NOTE, probe_firewall, "what sandboxes send is passed on",
     "what sandboxes send is dropped by rules of others", NULL},
    {SECTION, "nat", CHECK_FEATURE, probe_nat, "sandboxes can have a network",
     "sandboxes have no network", NULL},
    {0},
};
