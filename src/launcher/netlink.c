#include "launcher/netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mem.h"

#define ERRNO_MAX   4095 /* of the kernel */
#define ANSWERS_MAX 8    /* packets looked at for one answer; there should be one */
#define SEQUENCE    1    /* of every request: there is never more than one under way */

_Static_assert(NLMSG_HDRLEN == sizeof(struct nlmsghdr), "a message begins right behind its header");

int netlink_open(int protocol)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    return fd < 0 ? -errno : fd;
}

/* Room for so many more bytes, aligned and zeroed; NULL: there is none. */
static void *extend(struct netlink_request *request, size_t length)
{
    size_t at = NLMSG_ALIGN(request->length);
    if (length > sizeof(request->bytes) || at + NLMSG_ALIGN(length) > sizeof(request->bytes))
        request->too_long = true;
    if (request->too_long)
        return NULL;
    request->length = at + length;
    return request->bytes + at;
}

void netlink_nest_raw(struct netlink_request *request, const void *data, size_t length)
{
    void *place = extend(request, length);
    if (place != NULL && length > 0)
        memcpy(place, data, length);
}

void netlink_begin(struct netlink_request *request, uint16_t type, uint16_t flags, const void *body,
                   size_t length)
{
    const struct nlmsghdr header = {
        .nlmsg_type = type,
        .nlmsg_flags = (uint16_t)(flags | NLM_F_REQUEST | NLM_F_ACK),
        .nlmsg_seq = SEQUENCE,
    };
    memset(request, 0, sizeof(*request));
    netlink_nest_raw(request, &header, sizeof(header));
    netlink_nest_raw(request, body, length);
}

void netlink_put(struct netlink_request *request, uint16_t type, const void *data, size_t length)
{
    if (length > NETLINK_REQUEST_MAX) {
        request->too_long = true;
        return;
    }
    const struct nlattr head = {.nla_len = (uint16_t)(NLA_HDRLEN + length), .nla_type = type};
    unsigned char *place = extend(request, NLA_HDRLEN + length);
    if (place == NULL)
        return;
    memcpy(place, &head, sizeof(head));
    if (length > 0)
        memcpy(place + NLA_HDRLEN, data, length);
}

void netlink_put_u32(struct netlink_request *request, uint16_t type, uint32_t value)
{
    netlink_put(request, type, &value, sizeof(value));
}

void netlink_put_text(struct netlink_request *request, uint16_t type, const char *text)
{
    netlink_put(request, type, text, strlen(text) + 1);
}

size_t netlink_nest(struct netlink_request *request, uint16_t type)
{
    size_t at = NLMSG_ALIGN(request->length);
    netlink_put(request, type, NULL, 0);
    return at;
}

void netlink_nest_end(struct netlink_request *request, size_t nest)
{
    const uint16_t length = (uint16_t)(request->length - nest);
    if (!request->too_long)
        memcpy(request->bytes + nest + offsetof(struct nlattr, nla_len), &length, sizeof(length));
}

int netlink_parse_answer(const void *packet, size_t length, uint32_t sequence, int *ret_error)
{
    struct nlmsghdr header;
    int32_t error;
    if (length < sizeof(header))
        return -EBADMSG;
    memcpy(&header, packet, sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > length)
        return -EBADMSG;
    if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_seq != sequence)
        return -EAGAIN;
    if (header.nlmsg_len < sizeof(header) + sizeof(error))
        return -EBADMSG;
    memcpy(&error, (const unsigned char *)packet + sizeof(header), sizeof(error));
    if (error > 0 || error < -ERRNO_MAX)
        return -EBADMSG;
    *ret_error = error;
    return 0;
}

/* One packet; anybody's but the kernel's is passed over. */
static int receive_answer(int fd, uint32_t sequence, int *ret_error)
{
    unsigned char packet[NETLINK_REQUEST_MAX + 512]; /* an error repeats the request */
    struct sockaddr_nl from = {0};
    socklen_t size = sizeof(from);
    ssize_t n;
    do {
        n = recvfrom(fd, packet, sizeof(packet), MSG_TRUNC, (struct sockaddr *)&from, &size);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (size != sizeof(from) || from.nl_pid != 0)
        return -EAGAIN;
    return (size_t)n > sizeof(packet)
               ? -EBADMSG
               : netlink_parse_answer(packet, (size_t)n, sequence, ret_error);
}

int netlink_ask(int fd, struct netlink_request *request)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (request->too_long)
        return -EMSGSIZE;
    const uint32_t length = (uint32_t)request->length;
    memcpy(request->bytes + offsetof(struct nlmsghdr, nlmsg_len), &length, sizeof(length));
    ssize_t n;
    do {
        n = sendto(fd, request->bytes, length, MSG_NOSIGNAL, (const struct sockaddr *)&kernel,
                   sizeof(kernel));
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)length)
        return n < 0 ? -errno : -EIO;
    int error = -EPROTO;
    int r = -EAGAIN;
    for (unsigned i = 0; r == -EAGAIN && i < ANSWERS_MAX; i++)
        r = receive_answer(fd, SEQUENCE, &error);
    return r < 0 ? (r == -EAGAIN ? -EPROTO : r) : error;
}
