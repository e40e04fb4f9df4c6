#include "launcher/nat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/link.h"
#include "launcher/nat_internal.h"
#include "launcher/nat_resolv.h"
#include "launcher/nat_rules.h"
#include "launcher/process.h"

#define FORWARDING   "/proc/sys/net/ipv4/ip_forward"
#define MTU_DEFAULT  1500
#define MTU_MIN      576
#define MTU_MAX      65535
#define NUMBERS_MAX  0xffff /* four hex digits of a name */
#define RESOLV_LIMIT (64u << 10)

int nat_pool_check(const struct nat_routes *routes, struct error *err)
{
    char pool[ADDRESS_MAX], other[ADDRESS_MAX];
    if (!routes->overlaps)
        return 0;
    address_print(routes->pool.first, pool);
    address_print(routes->overlap.to.first, other);
    return error_set(err, ERR_CONFLICT,
                     "the pool %s/%u overlaps the machine's route to %s/%u%s%s; choose another "
                     "with --network-pool",
                     pool, routes->pool.bits, other, routes->overlap.to.bits,
                     routes->overlap_device[0] != '\0' ? " on " : "", routes->overlap_device);
}

unsigned nat_mtu(const struct nat_routes *routes)
{
    unsigned mtu = nat_routes_mtu(routes->default_device);
    return mtu < MTU_MIN ? MTU_DEFAULT : MIN(mtu, (unsigned)MTU_MAX);
}

static bool is_reachable(uint32_t server, const void *context)
{
    const struct nat_routes *routes = context;
    return !nat_routes_is_local(routes, server) && !address_is_in(server, routes->pool);
}

void nat_find_servers(const struct options *options, const struct nat_routes *routes,
                      struct nat_resolv *ret)
{
    static const char *const paths[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};
    *ret = (struct nat_resolv){.count = options->dns_count};
    memcpy(ret->servers, options->dns, sizeof(ret->servers));
    for (size_t i = 0; i < ARRAY_LEN(paths) && ret->count == 0; i++) {
        CLEANUP(buf_done) struct buf text;
        buf_init(&text, RESOLV_LIMIT);
        if (file_read_at(AT_FDCWD, paths[i], &text, NULL) == 0)
            nat_resolv_parse(text.data, is_reachable, routes, ret);
    }
}

int nat_forwarding(bool *ret_on)
{
    char digit = '0';
    AUTO_CLOSE int fd = open(FORWARDING, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (read(fd, &digit, 1) != 1)
        return -EIO;
    *ret_on = digit != '0';
    return *ret_on || access(FORWARDING, W_OK) == 0 ? 0 : -errno;
}

static int forward(struct error *err)
{
    AUTO_CLOSE int fd = open(FORWARDING, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        return error_set_errno(err, errno, "cannot turn on net.ipv4.ip_forward");
    log_info("turned on net.ipv4.ip_forward, which network mode nat needs");
    return 0;
}

static void set_resolv(struct nat *nat, const struct options *options,
                       const struct nat_routes *routes)
{
    struct nat_resolv resolv;
    nat_find_servers(options, routes, &resolv);
    nat_resolv_write(&resolv, nat->resolv, sizeof(nat->resolv));
    if (resolv.count == 0)
        log_warn("sandboxes will resolve no names: the host has no name server that they can "
                 "reach; give one with --dns");
}

/* Rules come before forwarding, and both before the first interface: there is no moment at which
 * something could pass that should not. What may fail is therefore asked first. */
static int turn_on(struct nat *nat, const struct options *options, struct error *err)
{
    struct nat_routes routes = {.pool = {nat->pool, nat->pool_bits}, .ours = nat->prefix};
    bool forwarding = false;
    int r = nat_routes_read(&routes);
    if (r < 0)
        return error_set_errno(err, -r, "cannot read the machine's routes");
    r = nat_pool_check(&routes, err);
    if (r < 0)
        return r;
    r = nat_forwarding(&forwarding);
    if (r < 0)
        return error_set_errno(err, -r, "cannot turn on net.ipv4.ip_forward");
    nat->mtu = nat_mtu(&routes);
    r = link_probe();
    if (r < 0)
        return error_set_errno(err, -r, "cannot make pairs of interfaces (modprobe veth)");
    r = nat_rules_load(nat, err);
    if (r == 0 && !forwarding)
        r = forward(err);
    if (r == 0)
        set_resolv(nat, options, &routes);
    return r;
}

int nat_open(struct nat *nat, const struct options *options, const struct state *state,
             const struct powers *powers, struct error *err)
{
    *nat = (struct nat){
        .pool = options->pool.first, .pool_bits = options->pool.bits, .mtu = MTU_DEFAULT};
    snprintf(nat->prefix, sizeof(nat->prefix), "o%s-", state->instance);
    if (options->network == OPTIONS_NETWORK_NONE) {
        snprintf(nat->reason, sizeof(nat->reason), "it is turned off (--network none)");
        return 0;
    }
    struct error why = ERROR_INIT;
    int r = powers->machine ? turn_on(nat, options, &why)
                            : error_set(&why, ERR_UNSUPPORTED,
                                        "networks of sandboxes need a launcher that is root");
    nat->on = r == 0;
    if (r == 0)
        return 0;
    if (options->network == OPTIONS_NETWORK_NAT) {
        *err = why;
        return error_wrap(err, "network mode nat cannot be had");
    }
    snprintf(nat->reason, sizeof(nat->reason), "%.*s", (int)sizeof(nat->reason) - 1, why.message);
    log_warn("sandboxes have no network: %s", nat->reason);
    return 0;
}

void nat_close(struct nat *nat, bool last)
{
    struct error err = ERROR_INIT;
    if (nat->on && last && nat_rules_remove(nat, &err) < 0)
        log_warn("cannot remove our rules: %s", err.message);
    nat->on = false;
}

unsigned nat_numbers(const struct nat *nat)
{
    uint32_t addresses = 1u << (32 - nat->pool_bits);
    return MIN(addresses - 3, (uint32_t)NUMBERS_MAX); /* without first, gateway and last */
}

uint32_t nat_gateway(const struct nat *nat)
{
    return nat->pool + 1;
}

uint32_t nat_address(const struct nat *nat, unsigned number)
{
    return nat_gateway(nat) + number;
}

void nat_name(const struct nat *nat, unsigned number, char ret[IFNAMSIZ])
{
    snprintf(ret, IFNAMSIZ, "%.10s%04x", nat->prefix, number & NUMBERS_MAX);
}
