/* The nft table of one instance. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "launcher/nat.h"

#define NAT_RULES_MAX        8192
#define NAT_CONNECTIONS      4096 /* that one sandbox may have at once */
#define NAT_RULES_TABLE_MAX  32   /* "opensandbox-<instance>" */
#define NAT_RULES_TIMEOUT_MS 10000
#define NAT_RULES_NO_PROGRAM "the program nft is not installed (package nftables)"

void nat_rules_table(const struct nat *nat, char ret[NAT_RULES_TABLE_MAX]);

/* The script that makes the table what it should be, whatever it was. Of `nat` pool, pool_bits and
 * prefix are used. */
void nat_rules_write(const struct nat *nat, struct buf *script);

int nat_rules_load(const struct nat *nat, struct error *err);
int nat_rules_remove(const struct nat *nat, struct error *err); /* absent is success */
