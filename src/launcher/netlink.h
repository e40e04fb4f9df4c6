/* Requests to the kernel's routing socket: interfaces, addresses, routes; and to those of its kind.
 *
 * One request at a time, each with one answer, which is an error number. A request is put together
 * in a buffer of fixed size; one that does not fit is remembered and refused when it is sent, so
 * that nobody has to look at each part. What the kernel has to tell in lists (interfaces, counters)
 * is read from /proc instead: the socket would make us wait for a lock that the deletion of any
 * network holds for milliseconds. */
#pragma once

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_REQUEST_MAX 1024

struct netlink_request {
    _Alignas(struct nlmsghdr) unsigned char bytes[NETLINK_REQUEST_MAX];
    size_t length;
    bool too_long;
};

/* A socket of the calling process's network namespace, which it stays in, for NETLINK_ROUTE or
 * another protocol. The fd, or -errno. */
int netlink_open(int protocol);

/* `body` is the fixed part of this type of message (struct ifinfomsg and the like). */
void netlink_begin(struct netlink_request *request, uint16_t type, uint16_t flags, const void *body,
                   size_t length);
void netlink_put(struct netlink_request *request, uint16_t type, const void *data, size_t length);
void netlink_put_u32(struct netlink_request *request, uint16_t type, uint32_t value);
void netlink_put_text(struct netlink_request *request, uint16_t type, const char *text);

/* What is put between these two is inside of an attribute; they can be nested. */
size_t netlink_nest(struct netlink_request *request, uint16_t type);
void netlink_nest_raw(struct netlink_request *request, const void *data, size_t length);
void netlink_nest_end(struct netlink_request *request, size_t nest);

/* Send it and wait for the answer. 0 or -errno, the kernel's or that of sending: -EMSGSIZE when the
 * request was too long. Does not wait for anything but the kernel's work itself. */
int netlink_ask(int fd, struct netlink_request *request);

/* Of one packet from the kernel: 0 and *ret_error (0 or -errno) when it is the answer to the
 * request with this sequence number, -EAGAIN when it is something else, -EBADMSG when it is not
 * well-formed. */
int netlink_parse_answer(const void *packet, size_t length, uint32_t sequence, int *ret_error);
