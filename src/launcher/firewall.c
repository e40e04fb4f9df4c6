#include "launcher/firewall.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

#define LINE_MAX_ 1024

/* What is known of one base chain and of the chains beside it in its table. */
struct reading {
    const char *prefix;
    struct firewall *result;
    char family[8];
    char table[FIREWALL_NAME_MAX];
    char chain[FIREWALL_NAME_MAX];
    char dropping[FIREWALL_NAME_MAX]; /* the chain at the hook that drops, "" for none */
    bool at_hook;                     /* the present chain is at the hook */
    bool lets_all, lets_out, lets_in;
    bool docker, ufw;
};

static void copy_word(char *ret, size_t size, const char *text)
{
    snprintf(ret, size, "%.*s", (int)strcspn(text, " \t;"), text);
}

static void end_table(struct reading *reading)
{
    bool drops = reading->dropping[0] != '\0' && !reading->lets_all &&
                 !(reading->lets_out && reading->lets_in);
    struct firewall *result = reading->result;
    if (drops && result->drops) {
        result->others++;
    } else if (drops) {
        result->drops = true;
        result->manager =
            str_equal(reading->table, "firewalld") ? FIREWALL_FIREWALLD
            : reading->docker                      ? FIREWALL_DOCKER
            : reading->ufw                         ? FIREWALL_UFW
            : str_equal(reading->chain, "FORWARD") || str_equal(reading->dropping, "FORWARD")
                ? FIREWALL_IPTABLES
                : FIREWALL_NFT;
        snprintf(result->family, sizeof(result->family), "%s", reading->family);
        snprintf(result->table, sizeof(result->table), "%s", reading->table);
        snprintf(result->chain, sizeof(result->chain), "%s", reading->dropping);
    }
    *reading = (struct reading){.prefix = reading->prefix, .result = result};
}

static void begin_chain(struct reading *reading, const char *name)
{
    copy_word(reading->chain, sizeof(reading->chain), name);
    reading->at_hook = false;
    reading->docker = reading->docker || str_equal(reading->chain, "DOCKER-USER");
    reading->ufw = reading->ufw || str_starts_with(reading->chain, "ufw-");
}

/* Whether a name with a wildcard at its end means all of our interfaces. */
static bool is_ours(const char *name, char wildcard, const char *prefix)
{
    char *end = strchr(name, wildcard);
    return end != NULL && end > name && end[1] == '\0' &&
           strncmp(name, prefix, (size_t)(end - name)) == 0;
}

/* `key "name*"` in the rule, with a name that means ours. */
static bool nft_names_ours(const char *rule, const char *key, const char *prefix)
{
    char name[32];
    const char *at = strstr(rule, key);
    if (at == NULL || sscanf(at + strlen(key), " \"%31[^\"]\"", name) != 1)
        return false;
    return is_ours(name, '*', prefix);
}

/* The rule behind the counter that iptables gives each of its own; `nft -s` shows no numbers. */
static const char *skip_counter(const char *rule)
{
    static const char counter[] = "counter ";
    return str_starts_with(rule, counter) ? rule + strlen(counter) : rule;
}

static bool ends_in(const char *rule, const char *verdict)
{
    size_t length = strlen(rule), wanted = strlen(verdict);
    return length >= wanted && str_equal(rule + length - wanted, verdict);
}

static void read_nft_rule(struct reading *reading, char *rule)
{
    char *comment = strstr(rule, " comment \"");
    if (comment != NULL)
        *comment = '\0';
    const char *bare = skip_counter(rule);
    if (reading->at_hook && (str_starts_with(bare, "drop") || str_starts_with(bare, "reject")))
        snprintf(reading->dropping, sizeof(reading->dropping), "%s", reading->chain);
    if (!ends_in(rule, "accept"))
        return;
    if (reading->at_hook && str_equal(bare, "accept"))
        reading->lets_all = true;
    if (nft_names_ours(rule, "iifname", reading->prefix))
        reading->lets_out = true;
    if (nft_names_ours(rule, "oifname", reading->prefix) ||
        (str_starts_with(rule, "ct state") && strstr(rule, "established") != NULL &&
         strstr(rule, "ifname") == NULL))
        reading->lets_in = true;
}

static void read_nft_line(struct reading *reading, char *line)
{
    char family[8], table[FIREWALL_NAME_MAX];
    if (sscanf(line, "table %7s %63s {", family, table) == 2) {
        end_table(reading);
        snprintf(reading->family, sizeof(reading->family), "%s", family);
        snprintf(reading->table, sizeof(reading->table), "%s", table);
    } else if (str_starts_with(line, "chain ")) {
        begin_chain(reading, line + strlen("chain "));
    } else if (str_starts_with(line, "type ")) {
        reading->at_hook = strstr(line, "filter hook forward ") != NULL &&
                           (str_equal(reading->family, "ip") || str_equal(reading->family, "inet"));
        if (reading->at_hook && strstr(line, "policy drop") != NULL)
            snprintf(reading->dropping, sizeof(reading->dropping), "%s", reading->chain);
    } else {
        read_nft_rule(reading, line);
    }
}

static void read_iptables_line(struct reading *reading, char *line)
{
    char chain[FIREWALL_NAME_MAX], name[32];
    if (line[0] == ':') {
        begin_chain(reading, line + 1);
        if (str_starts_with(line, ":FORWARD DROP"))
            snprintf(reading->dropping, sizeof(reading->dropping), "FORWARD");
        return;
    }
    if (sscanf(line, "-A %63s", chain) != 1)
        return;
    if (str_equal(line, "-A FORWARD -j DROP") || str_starts_with(line, "-A FORWARD -j REJECT"))
        snprintf(reading->dropping, sizeof(reading->dropping), "FORWARD");
    if (str_equal(line, "-A FORWARD -j ACCEPT"))
        reading->lets_all = true;
    if (!ends_in(line, "-j ACCEPT"))
        return;
    const char *in = strstr(line, " -i "), *out = strstr(line, " -o ");
    if (in != NULL && sscanf(in, " -i %31s", name) == 1 && is_ours(name, '+', reading->prefix))
        reading->lets_out = true;
    if ((out != NULL && sscanf(out, " -o %31s", name) == 1 &&
         is_ours(name, '+', reading->prefix)) ||
        (in == NULL && out == NULL && strstr(line, "ESTABLISHED") != NULL))
        reading->lets_in = true;
}

static void read_lines(struct reading *reading, const char *text,
                       void (*read_line)(struct reading *, char *))
{
    while (*text != '\0') {
        char line[LINE_MAX_];
        size_t length = strcspn(text, "\n");
        size_t blank = strspn(text, " \t");
        if (blank < length && length - blank < sizeof(line)) { /* a list that long is no rule */
            size_t end = length;
            while (end > blank && text[end - 1] == ' ')
                end--;
            memcpy(line, text + blank, end - blank);
            line[end - blank] = '\0';
            read_line(reading, line);
        }
        text += length + (text[length] == '\n');
    }
    end_table(reading);
}

void firewall_read_nft(const char *ruleset, const char *prefix, struct firewall *ret)
{
    *ret = (struct firewall){0};
    struct reading reading = {.prefix = prefix, .result = ret};
    read_lines(&reading, ruleset, read_nft_line);
}

void firewall_read_iptables(const char *saved, const char *prefix, struct firewall *ret)
{
    *ret = (struct firewall){0};
    struct reading reading = {.prefix = prefix, .result = ret, .family = "ip", .table = "filter"};
    read_lines(&reading, saved, read_iptables_line);
}

const char *firewall_name(const struct firewall *firewall)
{
    static const char *const names[] = {
        [FIREWALL_NFT] = "nft", [FIREWALL_IPTABLES] = "iptables",   [FIREWALL_DOCKER] = "Docker",
        [FIREWALL_UFW] = "ufw", [FIREWALL_FIREWALLD] = "firewalld",
    };
    return names[firewall->manager];
}

/* Only out by the way to the world: other interfaces of the host may lead to containers and virtual
 * machines, which these rules are there to protect. */
void firewall_advice(const struct firewall *firewall, const char *prefix, const char *device,
                     char *ret, size_t size)
{
    const char *chain = firewall->manager == FIREWALL_DOCKER ? "DOCKER-USER" : firewall->chain;
    switch (firewall->manager) {
    case FIREWALL_UFW:
        snprintf(ret, size, "ufw route allow in on %s+ out on %s", prefix, device);
        break;
    case FIREWALL_FIREWALLD:
        snprintf(ret, size,
                 "firewall-cmd --permanent --zone=trusted --add-interface=%s+ && firewall-cmd "
                 "--reload",
                 prefix);
        break;
    case FIREWALL_DOCKER:
    case FIREWALL_IPTABLES:
        snprintf(ret, size,
                 "iptables -I %s -i %s+ -o %s -j ACCEPT && iptables -I %s -o %s+ -m conntrack "
                 "--ctstate RELATED,ESTABLISHED -j ACCEPT",
                 chain, prefix, device, chain, prefix);
        break;
    case FIREWALL_NFT:
        snprintf(ret, size,
                 "nft 'insert rule %s %s %s iifname \"%s*\" oifname \"%s\" accept; insert rule %s "
                 "%s %s oifname \"%s*\" ct state established,related accept'",
                 firewall->family, firewall->table, chain, prefix, device, firewall->family,
                 firewall->table, chain, prefix);
        break;
    }
}
