#include "base/str.h"
#include "launcher/options.h"

void options_default_network(struct options *options)
{
    (void)address_parse_network(OPTIONS_POOL_DEFAULT, &options->pool);
}

static int set_mode(struct options *options, const char *value, struct error *err)
{
    static const char *const names[] = {
        [OPTIONS_NETWORK_AUTO] = "auto",
        [OPTIONS_NETWORK_NAT] = "nat",
        [OPTIONS_NETWORK_NONE] = "none",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_equal(value, names[i])) {
            options->network = (enum options_network)i;
            return 0;
        }
    }
    return error_set(err, ERR_INVALID, "--network '%s' is not auto, nat or none", value);
}

static int set_pool(struct options *options, const char *value, struct error *err)
{
    struct address_network pool;
    if (address_parse_network(value, &pool) < 0 || pool.bits < OPTIONS_POOL_BITS_MIN ||
        pool.bits > OPTIONS_POOL_BITS_MAX)
        return error_set(err, ERR_INVALID,
                         "--network-pool '%s' is not an IPv4 network of %d to %d bits such as "
                         "'" OPTIONS_POOL_DEFAULT "'",
                         value, OPTIONS_POOL_BITS_MIN, OPTIONS_POOL_BITS_MAX);
    if (address_is_closed(pool))
        return error_set(err, ERR_INVALID,
                         "--network-pool '%s' has addresses that are never routed (0.0.0.0/8, "
                         "127.0.0.0/8, 169.254.0.0/16 or 224.0.0.0/3)",
                         value);
    options->pool = pool;
    return 0;
}

static int add_dns(struct options *options, const char *value, struct error *err)
{
    uint32_t address;
    if (address_parse(value, &address) < 0)
        return error_set(err, ERR_INVALID, "--dns '%s' is not an IPv4 address", value);
    if (address_is_closed((struct address_network){address, 32}))
        return error_set(err, ERR_INVALID,
                         "--dns '%s': sandboxes reach no address of 0.0.0.0/8, 127.0.0.0/8, "
                         "169.254.0.0/16 and 224.0.0.0/3",
                         value);
    if (options->dns_count == OPTIONS_DNS_MAX)
        return error_set(err, ERR_INVALID, "--dns '%s': at most %d name servers can be given",
                         value, OPTIONS_DNS_MAX);
    options->dns[options->dns_count++] = address;
    return 0;
}

int options_set_network(struct options *options, const char *name, const char *value,
                        struct error *err)
{
    if (str_equal(name, "--network"))
        return set_mode(options, value, err);
    if (str_equal(name, "--network-pool"))
        return set_pool(options, value, err);
    if (str_equal(name, "--dns"))
        return add_dns(options, value, err);
    return 1;
}
