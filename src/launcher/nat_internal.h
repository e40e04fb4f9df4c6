/* The parts of nat_open(), for `check`, which asks for each and changes nothing. */
#pragma once

#include "launcher/nat.h"
#include "launcher/nat_resolv.h"
#include "launcher/nat_routes.h"

int nat_pool_check(const struct nat_routes *routes, struct error *err);
unsigned nat_mtu(const struct nat_routes *routes);
void nat_find_servers(const struct options *options, const struct nat_routes *routes,
                      struct nat_resolv *ret);

/* Whether the machine forwards; -errno when it does not and cannot be made to. */
int nat_forwarding(bool *ret_on);
