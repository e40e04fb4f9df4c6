#include "launcher/network.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

int network_write(int proc_fd, const char *path, const char *text)
{
    AUTO_CLOSE int fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int network_set_up(int proc_fd, const struct powers *powers)
{
    char groups[32];
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return -errno;
    /* Of those that are mapped, which must be all: the next sandbox may have others than this. */
    uint32_t first = powers->machine ? 0 : powers->ids_first;
    snprintf(groups, sizeof(groups), "%u %u", first, powers->ids_last);
    int r = network_write(proc_fd, "sys/net/ipv4/ip_unprivileged_port_start", "0");
    if (r == 0)
        r = network_write(proc_fd, "sys/net/ipv4/ping_group_range", groups);
    return r;
}

/* FNV-1a of 64 bits: whoever could choose the numbers would have to leave them as they are. */
static void add(uint64_t *print, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        *print = (*print ^ (unsigned char)text[i]) * 1099511628211u;
}

static int add_file(uint64_t *print, int proc_fd, const char *path)
{
    char text[4096];
    AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* a kernel without IPv6 */
    for (;;) {
        ssize_t n = read(fd, text, sizeof(text));
        if (n < 0)
            return -errno;
        add(print, text, (size_t)n);
        if (n == 0)
            return 0;
    }
}

int network_print(int proc_fd, uint64_t *ret_print)
{
    static const char *const files[] = {"self/net/dev", "self/net/snmp", "self/net/netstat",
                                        "self/net/snmp6", "self/net/ip6_flowlabel"};
    uint64_t print = 14695981039346656037u;
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++)
        r = add_file(&print, proc_fd, files[i]);
    *ret_print = print;
    return r;
}

/* The first line; the others are about the whole machine. */
int network_sockets(int proc_fd, unsigned *ret_count)
{
    static const char begin[] = "sockets: used ";
    char text[256];
    uint64_t count = 0;
    AUTO_CLOSE int fd = openat(proc_fd, "self/net/sockstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (!str_starts_with(text, begin) ||
        str_to_u64(text + strlen(begin), 0, UINT32_MAX, &count) < 0)
        return -EBADMSG;
    *ret_count = (unsigned)count;
    return 0;
}
