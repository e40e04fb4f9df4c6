#include "launcher/link_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "launcher/link.h"

#define NAME_DIGITS 4
#define LIST_MAX    (16u << 20) /* of /proc/net/dev: a line has 130 characters */

static bool is_used(const struct link_pool *pool, unsigned number)
{
    return pool->used[number / 64] >> (number % 64) & 1;
}

static void set_used(struct link_pool *pool, unsigned number)
{
    pool->used[number / 64] |= 1ull << (number % 64);
}

/* 0: it is gone, 1: it is there, or -errno. An interface that has left this directory has left its
 * name as well, and to look here takes no lock; to ask a socket for it would wait for whoever makes
 * or deletes one, or start a program that loads modules. */
static int device_exists(const struct nat *nat, unsigned number)
{
    char name[IFNAMSIZ], path[64];
    nat_name(nat, number, name);
    snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s", name);
    if (faccessat(AT_FDCWD, path, F_OK, 0) == 0)
        return 1;
    return errno == ENOENT ? 0 : -errno;
}

int link_pool_take(struct launcher *launcher, unsigned *ret_number, struct error *err)
{
    struct link_pool *pool = &launcher->link_pool;
    unsigned count = MIN(nat_numbers(&launcher->nat), (unsigned)LINK_POOL_MAX);
    for (unsigned i = 0; i < count; i++) {
        unsigned number = (pool->last + i) % count + 1;
        if (is_used(pool, number))
            continue;
        int r = device_exists(&launcher->nat, number);
        if (r < 0)
            return error_set_errno(err, -r, "cannot look for a network device");
        if (r > 0)
            continue;
        set_used(pool, number);
        pool->last = number;
        *ret_number = number;
        return 0;
    }
    return error_set(err, ERR_LIMIT, "all %u addresses of the sandboxes' network are in use",
                     count);
}

int link_pool_reserve(struct launcher *launcher, unsigned number)
{
    struct link_pool *pool = &launcher->link_pool;
    if (number == 0 || number > LINK_POOL_MAX)
        return -ERANGE;
    if (is_used(pool, number))
        return -EEXIST;
    set_used(pool, number);
    return 0;
}

void link_pool_release(struct launcher *launcher, unsigned number)
{
    if (number > 0 && number <= LINK_POOL_MAX)
        launcher->link_pool.used[number / 64] &= ~(1ull << (number % 64));
}

/* Of a name of ours. 0: it is none. */
static unsigned number_of(const struct nat *nat, const char *name)
{
    static const char digits[] = "0123456789abcdef";
    unsigned number = 0;
    if (nat->prefix[0] == '\0' || !str_starts_with(name, nat->prefix))
        return 0;
    name += strlen(nat->prefix);
    if (strlen(name) != NAME_DIGITS || strspn(name, digits) != NAME_DIGITS)
        return 0;
    for (; *name != '\0'; name++)
        number = number * 16 + (unsigned)(strchr(digits, *name) - digits);
    return number;
}

static void check_device(void *context, const char *name)
{
    struct launcher *launcher = context;
    unsigned number = number_of(&launcher->nat, name);
    if (number == 0 || is_used(&launcher->link_pool, number))
        return;
    int r = link_delete(name);
    if (r < 0 && r != -ENODEV)
        log_warn("cannot delete network device %s, which no sandbox has: %s", name, strerror(-r));
    else
        log_info("network device %s, which no sandbox has, is deleted", name);
}

void link_pool_sweep(struct launcher *launcher)
{
    struct error err = ERROR_INIT;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, LIST_MAX);
    if (file_read_at(AT_FDCWD, "/proc/self/net/dev", &text, &err) < 0)
        log_warn("cannot look for network devices that no sandbox has: %s", err.message);
    else
        link_each(text.data, check_device, launcher);
}
