/* What a sandbox may reach.
 *
 * A packet that comes from one of our interfaces is looked at twice. First as it is, before
 * connection tracking and before anybody's DNAT can turn a host address into something else: it
 * must have the address that is routed to its interface, and must not go to the host, to other
 * sandboxes or to what belongs to the link. What fails here costs no entry in the table of
 * connections. Then once more where it is forwarded, since by then somebody's rules may have sent
 * it elsewhere. To a sandbox goes only what belongs to a connection it began; not from the host
 * either, but for ICMP's errors, without which it would not learn the size of a path.
 *
 * The table of connections is the machine's: each sandbox has a share that it cannot pass. Ports
 * below 1024 are not kept on the way out: to others they mean that the host's root speaks (NFS).
 *
 * "add, delete, table" is one transaction: a packet meets the old table or the new one. Flushing
 * instead of deleting would leave chains of another version. */
#include "launcher/nat_rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/mem.h"
#include "launcher/program.h"

#define ERROR_TEXT_MAX 4096

void nat_rules_table(const struct nat *nat, char ret[NAT_RULES_TABLE_MAX])
{
    /* "o<instance>-" without its ends */
    snprintf(ret, NAT_RULES_TABLE_MAX, "opensandbox-%.8s", nat->prefix + 1);
}

static void write_sets(const struct nat *nat, struct buf *script)
{
    char text[ADDRESS_MAX];
    buf_add_str(script, " set closed {\n  type ipv4_addr\n  flags interval\n  elements = { ");
    for (const struct address_network *closed = address_closed; closed->bits > 0; closed++) {
        address_print(closed->first, text);
        buf_printf(script, "%s/%u, ", text, closed->bits);
    }
    address_print(nat->pool, text);
    buf_printf(script, "%s/%u }\n }\n", text, nat->pool_bits);
    buf_printf(script, " set connections {\n  type ipv4_addr\n  size %u\n  flags dynamic\n }\n",
               nat_numbers(nat));
}

static void write_first_look(const char *ours, struct buf *script)
{
    buf_printf(script,
               " chain refuse {\n"
               "  limit rate 100/second burst 100 packets reject with icmp admin-prohibited\n"
               "  drop\n"
               " }\n"
               " chain first_look {\n"
               "  meta nfproto != ipv4 drop\n"
               "  fib saddr . iif oif 0 drop\n"
               "  fib daddr type != unicast jump refuse\n"
               "  ip daddr @closed jump refuse\n"
               " }\n"
               " chain prerouting {\n"
               "  type filter hook prerouting priority raw; policy accept;\n"
               "  iifname \"%s\" jump first_look\n"
               " }\n",
               ours);
}

static void write_forwarding(const char *ours, struct buf *script)
{
    buf_printf(script,
               " chain from_sandbox {\n"
               "  meta nfproto != ipv4 drop\n"
               "  oifname \"%s\" jump refuse\n"
               "  ip daddr @closed jump refuse\n"
               "  ct state invalid drop\n"
               "  ct state new add @connections { ip saddr ct count over %u } jump refuse\n"
               " }\n"
               " chain to_sandbox {\n"
               "  ct state != { established, related } drop\n"
               " }\n"
               " chain forward {\n"
               "  type filter hook forward priority filter; policy accept;\n"
               "  iifname \"%s\" jump from_sandbox\n"
               "  oifname \"%s\" jump to_sandbox\n"
               "  iifname \"%s\" tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu\n"
               "  oifname \"%s\" tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu\n"
               " }\n",
               ours, NAT_CONNECTIONS, ours, ours, ours, ours);
}

static void write_ends(const char *ours, struct buf *script)
{
    buf_printf(script,
               " chain input {\n"
               "  type filter hook input priority filter; policy accept;\n"
               "  iifname \"%s\" drop\n"
               " }\n"
               " chain output {\n"
               "  type filter hook output priority filter; policy accept;\n"
               "  oifname \"%s\" icmp type != { destination-unreachable, time-exceeded,"
               " parameter-problem } drop\n"
               "  oifname \"%s\" meta l4proto != icmp drop\n"
               " }\n"
               " chain postrouting {\n"
               "  type nat hook postrouting priority srcnat; policy accept;\n"
               "  iifname \"%s\" meta l4proto { tcp, udp } masquerade to :1024-65535\n"
               "  iifname \"%s\" masquerade\n"
               " }\n",
               ours, ours, ours, ours, ours);
}

static void write_absent(const struct nat *nat, struct buf *script)
{
    char table[NAT_RULES_TABLE_MAX];
    nat_rules_table(nat, table);
    buf_printf(script, "add table inet %s\ndelete table inet %s\n", table, table);
}

void nat_rules_write(const struct nat *nat, struct buf *script)
{
    char table[NAT_RULES_TABLE_MAX], ours[sizeof(nat->prefix) + 1];
    nat_rules_table(nat, table);
    snprintf(ours, sizeof(ours), "%s*", nat->prefix);
    write_absent(nat, script);
    buf_printf(script, "table inet %s {\n", table);
    write_sets(nat, script);
    write_first_look(ours, script);
    write_forwarding(ours, script);
    write_ends(ours, script);
    buf_add_str(script, "}\n");
}

/* nft says where, what, and then shows the place in several lines: the first is for us. */
static int fail(int r, struct buf *said, struct error *err)
{
    if (r == -ETIMEDOUT)
        return error_set(err, ERR_TIMEOUT, "nft did not end within %d s",
                         NAT_RULES_TIMEOUT_MS / 1000);
    if (r < 0)
        return error_set_errno(err, -r, "cannot run nft");
    const char *text = strstr(said->data, "Error: ");
    text = text != NULL ? text + strlen("Error: ") : said->data;
    return error_set(err, ERR_UNSUPPORTED, "nft refused the rules: %.*s",
                     (int)MIN(strcspn(text, "\n"), 160ul), text);
}

static int run(const char *script, struct error *err)
{
    AUTO_FREE char *program = program_find("nft");
    if (program == NULL)
        return error_set(err, ERR_UNSUPPORTED, NAT_RULES_NO_PROGRAM);
    const char *const argv[] = {"nft", "-f", "-", NULL};
    CLEANUP(buf_done) struct buf out;
    CLEANUP(buf_done) struct buf said;
    buf_init(&out, ERROR_TEXT_MAX);
    buf_init(&said, ERROR_TEXT_MAX);
    int r = program_run(program, argv, script, NAT_RULES_TIMEOUT_MS, &out, &said);
    return r == 0 ? 0 : fail(r, &said, err);
}

int nat_rules_load(const struct nat *nat, struct error *err)
{
    CLEANUP(buf_done) struct buf script;
    buf_init(&script, NAT_RULES_MAX);
    nat_rules_write(nat, &script);
    return run(script.data, err);
}

int nat_rules_remove(const struct nat *nat, struct error *err)
{
    CLEANUP(buf_done) struct buf script;
    buf_init(&script, NAT_RULES_MAX);
    write_absent(nat, &script);
    return run(script.data, err);
}
