#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const struct address_network address_closed[] = {
    {0x00000000, 8},  /* 0.0.0.0/8: this host */
    {0x7f000000, 8},  /* 127.0.0.0/8: loopback */
    {0xa9fe0000, 16}, /* 169.254.0.0/16: link-local, and what clouds tell a machine about itself */
    {0xe0000000, 3},  /* 224.0.0.0/3: multicast, reserved, broadcast */
    {0, 0},
};

int address_parse(const char *text, uint32_t *ret)
{
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1)
        return -EINVAL;
    *ret = ntohl(address.s_addr);
    return 0;
}

void address_print(uint32_t address, char ret[ADDRESS_MAX])
{
    snprintf(ret, ADDRESS_MAX, "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
             address >> 8 & 255, address & 255);
}

static uint32_t mask_of(unsigned bits)
{
    return bits == 0 ? 0 : UINT32_MAX << (32 - bits);
}

int address_parse_network(const char *text, struct address_network *ret)
{
    char address[ADDRESS_MAX];
    const char *slash = strchr(text, '/');
    uint64_t bits;
    uint32_t first;
    if (slash == NULL || (size_t)(slash - text) >= sizeof(address))
        return -EINVAL;
    memcpy(address, text, (size_t)(slash - text));
    address[slash - text] = '\0';
    if (address_parse(address, &first) < 0 || str_to_u64(slash + 1, 0, 32, &bits) < 0 ||
        (first & ~mask_of((unsigned)bits)) != 0)
        return -EINVAL;
    *ret = (struct address_network){.first = first, .bits = (unsigned)bits};
    return 0;
}

bool address_is_in(uint32_t address, struct address_network network)
{
    return (address & mask_of(network.bits)) == network.first;
}

bool address_overlaps(struct address_network a, struct address_network b)
{
    return a.bits <= b.bits ? address_is_in(b.first, a) : address_is_in(a.first, b);
}

bool address_is_closed(struct address_network network)
{
    for (const struct address_network *closed = address_closed; closed->bits > 0; closed++) {
        if (address_overlaps(network, *closed))
            return true;
    }
    return false;
}
