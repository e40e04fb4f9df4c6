/* IPv4 addresses and networks as text; numbers are in host byte order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_MAX 16 /* "255.255.255.255" with NUL */

struct address_network {
    uint32_t first;
    unsigned bits; /* 0 to 32 */
};

int address_parse(const char *text, uint32_t *ret); /* 0 or -EINVAL */
void address_print(uint32_t address, char ret[ADDRESS_MAX]);

/* "10.0.0.0/8", without a bit set behind the prefix. 0 or -EINVAL. */
int address_parse_network(const char *text, struct address_network *ret);

bool address_is_in(uint32_t address, struct address_network network);
bool address_overlaps(struct address_network a, struct address_network b);

/* What means the host itself, its link, or nobody in particular: no sandbox may reach any of
 * these, whatever the machine's routes say. Ends with a network of 0 bits. */
extern const struct address_network address_closed[];
bool address_is_closed(struct address_network network); /* overlaps one of them */
