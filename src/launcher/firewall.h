/* Other people's rules. Every chain at the forward hook has a veto: what our table lets pass,
 * Docker's, ufw's or firewalld's may still drop. Read from the words of `nft -s list ruleset` or
 * `iptables-save`, for `check` alone: not a judge of all rules there can be, but of those that drop
 * whatever they do not know. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FIREWALL_NAME_MAX 64

enum firewall_manager {
    FIREWALL_NFT,
    FIREWALL_IPTABLES,
    FIREWALL_DOCKER,
    FIREWALL_UFW,
    FIREWALL_FIREWALLD,
};

struct firewall {
    bool drops; /* what sandboxes send or what is sent back to them */
    enum firewall_manager manager;
    char family[8]; /* of the table, such as "ip" */
    char table[FIREWALL_NAME_MAX];
    char chain[FIREWALL_NAME_MAX];
    unsigned others; /* chains besides that drop it as well */
};

/* `prefix`: of the names of our interfaces. */
void firewall_read_nft(const char *ruleset, const char *prefix, struct firewall *ret);
void firewall_read_iptables(const char *saved, const char *prefix, struct firewall *ret);

/* The command that lets sandboxes through it, out by `device` and answers back in. */
void firewall_advice(const struct firewall *firewall, const char *prefix, const char *device,
                     char *ret, size_t size);
const char *firewall_name(const struct firewall *firewall); /* "Docker" */
