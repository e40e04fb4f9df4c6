/* Encoding and, above all, checking of the messages between server and launcher.
 *
 * Accepting is strict enough to be canonical: a packet that decodes is byte for byte the packet
 * that message_send() would make of the result. Nothing can hide in padding, in bytes after a
 * terminator or in unused list items, which is also what the fuzz target asserts. */
#include "runtime/native/message.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "base/mem.h"

#define UNIX_MS_MAX     253402300799999ull /* the last millisecond of the year 9999 */
#define ERRNO_MAX       4095
#define EXIT_STATUS_MAX 255

/* The layout is the contract: no implicit padding anywhere. */
static_assert(sizeof(struct message_header) == 16, "header layout");
static_assert(sizeof(struct message_limits) == 56, "limits layout");
static_assert(sizeof(struct message_volume) == 784, "volume layout");
static_assert(sizeof(struct message_create) == 264 + MESSAGE_VOLUMES_MAX * 784, "create layout");
static_assert(sizeof(struct message_socket) == 64, "socket layout");
static_assert(sizeof(struct message_welcome) == 536, "welcome layout");
static_assert(sizeof(struct message_target) == 56, "target layout");
static_assert(sizeof(struct message_set_limits) == 112, "set_limits layout");
static_assert(sizeof(struct message_deadline) == 64, "deadline layout");
static_assert(sizeof(struct message_list) == 56, "list layout");
static_assert(sizeof(struct message_result) == 644, "result layout");
static_assert(sizeof(struct message_sandbox) == 176, "sandbox layout");
static_assert(sizeof(struct message_sandboxes) == 24 + MESSAGE_SANDBOXES_MAX * 176, "list layout");
static_assert(sizeof(struct message_exit) == 192, "exit layout");
static_assert(sizeof(struct message_usage) == 184, "usage layout");
static_assert(sizeof(struct message_usage_page) == 24 + MESSAGE_USAGE_MAX * 184, "page layout");
static_assert(sizeof(union message) <= MESSAGE_MAX, "a message fits a packet");

/* 0 when there is no such type. */
static size_t type_length(unsigned type, bool *ret_from_server)
{
    *ret_from_server = type < MESSAGE_RESULT;
    switch (type) {
    case MESSAGE_HELLO:
        return sizeof(struct message_hello);
    case MESSAGE_CREATE:
        return sizeof(struct message_create);
    case MESSAGE_KILL:
    case MESSAGE_REMOVE:
    case MESSAGE_FREEZE:
    case MESSAGE_THAW:
        return sizeof(struct message_target);
    case MESSAGE_LIST:
    case MESSAGE_STAT:
        return sizeof(struct message_list);
    case MESSAGE_LIMITS:
        return sizeof(struct message_set_limits);
    case MESSAGE_DEADLINE:
        return sizeof(struct message_deadline);
    case MESSAGE_SOCKET:
        return sizeof(struct message_socket);
    case MESSAGE_WELCOME:
        return sizeof(struct message_welcome);
    case MESSAGE_RESULT:
        return sizeof(struct message_result);
    case MESSAGE_SANDBOXES:
        return sizeof(struct message_sandboxes);
    case MESSAGE_EXIT:
        return sizeof(struct message_exit);
    case MESSAGE_USAGE:
        return sizeof(struct message_usage_page);
    default:
        return 0;
    }
}

void message_init(union message *message, enum message_type type, uint32_t sequence)
{
    bool from_server;
    memset(message, 0, sizeof(*message));
    message->header = (struct message_header){
        .magic = MESSAGE_MAGIC,
        .version = MESSAGE_VERSION,
        .type = type,
        .sequence = sequence,
        .length = (uint32_t)type_length(type, &from_server),
    };
}

static bool all_zero(const void *bytes, size_t length)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < length; i++) {
        if (byte[i] != 0)
            return false;
    }
    return true;
}

/* Terminated within its field and nothing but zeros behind the terminator. */
static bool is_padded_string(const char *field, size_t size)
{
    size_t length = strnlen(field, size);
    return length < size && all_zero(field + length, size - length);
}

static int check_id(const char *field, size_t size, struct error *err)
{
    if (!is_padded_string(field, size) || !id_is_uuid(field))
        return error_set(err, ERR_INVALID, "sandbox id must be a lower-case version 4 UUID");
    return 0;
}

static bool is_image_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:/@+-", c) != NULL);
}

/* Names become directory names in the launcher's store, so nothing that walks may pass. */
bool message_is_image_name(const char *name)
{
    size_t length = strnlen(name, MESSAGE_IMAGE_MAX);
    if (length == 0 || length == MESSAGE_IMAGE_MAX || strchr("._:/@+-", name[0]) != NULL ||
        name[length - 1] == '/')
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!is_image_char(name[i]))
            return false;
    }
    return strstr(name, "..") == NULL && strstr(name, "//") == NULL && strstr(name, "/.") == NULL;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool message_is_volume_name(const char *name)
{
    size_t length = strnlen(name, MESSAGE_NAME_MAX + 1);
    if (length == 0 || length > MESSAGE_NAME_MAX || !is_name_char(name[0]) ||
        !is_name_char(name[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!is_name_char(name[i]) && name[i] != '-' && name[i] != '.')
            return false;
    }
    return true;
}

static bool is_plain_component(const char *name, size_t length)
{
    return length > 0 && !(length == 1 && name[0] == '.') &&
           !(length == 2 && name[0] == '.' && name[1] == '.');
}

bool message_is_plain_path(const char *path, bool absolute)
{
    size_t length = strnlen(path, MESSAGE_PATH_MAX);
    if (length == MESSAGE_PATH_MAX || (path[0] == '/') != absolute)
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)path[i] < ' ' || path[i] == 0x7f)
            return false;
    }
    const char *at = path + (absolute ? 1 : 0);
    for (;;) {
        size_t part = strcspn(at, "/");
        if (!is_plain_component(at, part))
            return false;
        if (at[part] == '\0')
            return true;
        at += part + 1;
    }
}

struct range {
    const char *name;
    const char *unit;
    size_t offset;
    size_t size;
    uint64_t min;
    uint64_t max;
};

#define RANGE(field, name, unit, min, max)                            \
    {                                                                 \
        name, unit, offsetof(struct message_limits, field),           \
            sizeof(((struct message_limits *)0)->field), (min), (max) \
    }

static const struct range limit_ranges[] = {
    RANGE(memory_bytes, "memory", "bytes", 4ull << 20, 1ull << 50),
    RANGE(disk_bytes, "disk", "bytes", 16ull << 20, 1ull << 50),
    RANGE(io_read_bps, "io-read-bps", "bytes/s", 4096, 1ull << 40),
    RANGE(io_write_bps, "io-write-bps", "bytes/s", 4096, 1ull << 40),
    RANGE(io_read_iops, "io-read-iops", "operations/s", 1, 1000000000),
    RANGE(io_write_iops, "io-write-iops", "operations/s", 1, 1000000000),
    RANGE(cpu_millis, "cpu", "millis", 1, 1000000),
    RANGE(pids, "pids", "processes", 1, 4194304),
    RANGE(open_files, "open-files", "files", 64, 1048576),
};

static uint64_t field_value(const struct message_limits *limits, const struct range *range)
{
    uint64_t wide;
    uint32_t narrow;
    const char *at = (const char *)limits + range->offset;
    if (range->size == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

int message_check_limits(const struct message_limits *limits, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(limit_ranges); i++) {
        const struct range *range = &limit_ranges[i];
        uint64_t value = field_value(limits, range);
        if (value != 0 && (value < range->min || value > range->max))
            return error_set(err, ERR_INVALID,
                             "%s of %" PRIu64 " %s is not within %" PRIu64 " and %" PRIu64,
                             range->name, value, range->unit, range->min, range->max);
    }
    if (limits->reserved != 0)
        return error_set(err, ERR_INVALID, "reserved field must be zero");
    return 0;
}

static int check_deadline(uint64_t deadline_unix_ms, struct error *err)
{
    if (deadline_unix_ms > UNIX_MS_MAX)
        return error_set(err, ERR_INVALID, "deadline %" PRIu64 " ms lies after the year 9999",
                         deadline_unix_ms);
    return 0;
}

#define VOLUME_SIZE_MIN 4096u
#define VOLUME_SIZE_MAX (1ull << 50)

static int check_volume_source(const struct message_volume *volume, struct error *err)
{
    switch (volume->kind) {
    case MESSAGE_VOLUME_HOST:
        if (message_is_plain_path(volume->source, true))
            return 0;
        return error_set(err, ERR_INVALID, "host path '%s' is not a plain absolute path",
                         volume->source);
    case MESSAGE_VOLUME_NAMED:
        if (message_is_volume_name(volume->source))
            return 0;
        return error_set(err, ERR_INVALID,
                         "volume name '%s' must be 1 to %d characters of [a-z0-9.-] and begin and "
                         "end with a letter or digit",
                         volume->source, MESSAGE_NAME_MAX);
    case MESSAGE_VOLUME_TMPFS:
        if (volume->source[0] == '\0' && volume->sub_path[0] == '\0')
            return 0;
        return error_set(err, ERR_INVALID, "a volume in memory has no source");
    default:
        return error_set(err, ERR_INVALID, "volume kind %u is not known", volume->kind);
    }
}

static uint32_t volume_flags(uint32_t kind)
{
    switch (kind) {
    case MESSAGE_VOLUME_HOST:
        return MESSAGE_VOLUME_READ_ONLY | MESSAGE_VOLUME_CREATE;
    case MESSAGE_VOLUME_NAMED:
        return MESSAGE_VOLUME_FLAGS;
    default:
        return MESSAGE_VOLUME_READ_ONLY;
    }
}

static int check_volume_size(const struct message_volume *volume, struct error *err)
{
    uint64_t size = volume->size_bytes;
    bool may_be_none = volume->kind != MESSAGE_VOLUME_TMPFS;
    if (size == 0 && may_be_none)
        return 0;
    if (volume->kind == MESSAGE_VOLUME_HOST || size < VOLUME_SIZE_MIN || size > VOLUME_SIZE_MAX)
        return error_set(err, ERR_INVALID,
                         "size %" PRIu64 " of volume '%s' is not possible: %u to %llu bytes for "
                         "volumes in memory or with a name",
                         size, volume->mount_path, VOLUME_SIZE_MIN, VOLUME_SIZE_MAX);
    return 0;
}

int message_check_volume(const struct message_volume *volume, struct error *err)
{
    if (!is_padded_string(volume->source, sizeof(volume->source)) ||
        !is_padded_string(volume->sub_path, sizeof(volume->sub_path)) ||
        !is_padded_string(volume->mount_path, sizeof(volume->mount_path)))
        return error_set(err, ERR_INVALID, "a string of a volume is not zero-padded");
    int r = check_volume_source(volume, err);
    if (r < 0)
        return r;
    if (volume->sub_path[0] != '\0' && !message_is_plain_path(volume->sub_path, false))
        return error_set(err, ERR_INVALID, "sub-path '%s' is not a plain relative path",
                         volume->sub_path);
    if (!message_is_plain_path(volume->mount_path, true))
        return error_set(err, ERR_INVALID, "mount path '%s' is not a plain absolute path",
                         volume->mount_path);
    if ((volume->flags & ~volume_flags(volume->kind)) != 0)
        return error_set(err, ERR_INVALID, "flags %#x do not suit volume '%s'", volume->flags,
                         volume->mount_path);
    return check_volume_size(volume, err);
}

static int check_volumes(const struct message_create *create, struct error *err)
{
    if (create->volume_count > MESSAGE_VOLUMES_MAX)
        return error_set(err, ERR_INVALID, "%u volumes are more than %d", create->volume_count,
                         MESSAGE_VOLUMES_MAX);
    for (uint32_t i = 0; i < create->volume_count; i++) {
        int r = message_check_volume(&create->volumes[i], err);
        if (r < 0)
            return r;
    }
    if (create->reserved != 0 ||
        !all_zero(create->volumes + create->volume_count,
                  (MESSAGE_VOLUMES_MAX - create->volume_count) * sizeof(create->volumes[0])))
        return error_set(err, ERR_INVALID, "unused volumes and reserved fields must be zero");
    return 0;
}

static int check_create(const struct message_create *create, struct error *err)
{
    int r = check_id(create->id, sizeof(create->id), err);
    if (r < 0)
        return r;
    if (!is_padded_string(create->image, sizeof(create->image)) ||
        !message_is_image_name(create->image))
        return error_set(
            err, ERR_INVALID,
            "image name must be 1 to %d characters of [A-Za-z0-9._:/@+-], begin with a "
            "letter or digit and not contain '..'",
            MESSAGE_IMAGE_MAX - 1);
    r = message_check_limits(&create->limits, err);
    if (r == 0)
        r = check_deadline(create->deadline_unix_ms, err);
    if (r < 0)
        return r;
    if (create->network > MESSAGE_NETWORK_NAT)
        return error_set(err, ERR_INVALID, "network mode %u is not known", create->network);
    if ((create->flags & ~MESSAGE_CREATE_FLAGS) != 0)
        return error_set(err, ERR_INVALID, "flags %#x are not known", create->flags);
    return check_volumes(create, err);
}

static int check_socket(const struct message_socket *request, struct error *err)
{
    int r = check_id(request->id, sizeof(request->id), err);
    if (r < 0)
        return r;
    if ((request->family != 4 && request->family != 6) || request->reserved != 0)
        return error_set(err, ERR_INVALID, "address family %u is not 4 or 6", request->family);
    return 0;
}

static int check_welcome(const struct message_welcome *welcome, struct error *err)
{
    uint32_t known = 1u << MESSAGE_NETWORK_NONE | 1u << MESSAGE_NETWORK_NAT;
    if ((welcome->networks & ~known) != 0 || (welcome->missing & ~MESSAGE_MISSING) != 0)
        return error_set(err, ERR_INVALID, "networks %#x or missing %#x are not known",
                         welcome->networks, welcome->missing);
    if (!is_padded_string(welcome->network_reason, sizeof(welcome->network_reason)) ||
        !is_padded_string(welcome->missing_reason, sizeof(welcome->missing_reason)))
        return error_set(err, ERR_INVALID, "a string of the welcome is not zero-padded");
    return 0;
}

static int check_set_limits(const struct message_set_limits *request, struct error *err)
{
    int r = check_id(request->id, sizeof(request->id), err);
    return r < 0 ? r : message_check_limits(&request->limits, err);
}

static int check_set_deadline(const struct message_deadline *request, struct error *err)
{
    int r = check_id(request->id, sizeof(request->id), err);
    return r < 0 ? r : check_deadline(request->deadline_unix_ms, err);
}

static int check_list(const struct message_list *list, struct error *err)
{
    if (all_zero(list->after, sizeof(list->after)))
        return 0;
    return check_id(list->after, sizeof(list->after), err);
}

static int check_result(const struct message_result *result, struct error *err)
{
    if (result->code > ERR_INTERNAL)
        return error_set(err, ERR_INVALID, "result code %u is not known", result->code);
    if (result->sys < 0 || result->sys > ERRNO_MAX)
        return error_set(err, ERR_INVALID, "errno %d is not within 0 and %d", result->sys,
                         ERRNO_MAX);
    if (!is_padded_string(result->message, sizeof(result->message)) ||
        !is_padded_string(result->socket, sizeof(result->socket)))
        return error_set(err, ERR_INVALID, "a string of the result is not zero-padded");
    if (result->code == ERR_OK && (result->sys != 0 || result->message[0] != '\0'))
        return error_set(err, ERR_INVALID, "a result without error has an error text");
    if (result->socket[0] != '\0' && (result->code != ERR_OK || result->socket[0] != '/'))
        return error_set(err, ERR_INVALID, "socket path of the result is not an absolute path");
    return 0;
}

/* What is the same in everything that describes a sandbox. */
static int check_state(uint32_t state, uint32_t limits_hit, struct error *err)
{
    if (state < MESSAGE_RUNNING || state > MESSAGE_FROZEN)
        return error_set(err, ERR_INVALID, "sandbox state %u is not known", state);
    if ((limits_hit & ~MESSAGE_HITS) != 0)
        return error_set(err, ERR_INVALID, "limits hit %#x are not known", limits_hit);
    return 0;
}

static int check_sandbox(const struct message_sandbox *sandbox, struct error *err)
{
    int r = check_id(sandbox->id, sizeof(sandbox->id), err);
    if (r == 0)
        r = check_state(sandbox->state, sandbox->limits_hit, err);
    if (r < 0)
        return r;
    if (sandbox->exit_reason > MESSAGE_EXIT_LOST)
        return error_set(err, ERR_INVALID, "exit reason %u is not known", sandbox->exit_reason);
    if ((sandbox->state == MESSAGE_EXITED) == (sandbox->exit_reason == MESSAGE_EXIT_NONE))
        return error_set(err, ERR_INVALID, "exit reason %u does not suit state %u",
                         sandbox->exit_reason, sandbox->state);
    if (sandbox->exit_status < 0 || sandbox->exit_status > EXIT_STATUS_MAX)
        return error_set(err, ERR_INVALID, "exit status %d is not within 0 and %d",
                         sandbox->exit_status, EXIT_STATUS_MAX);
    if (sandbox->created_unix_ms > UNIX_MS_MAX)
        return error_set(err, ERR_INVALID, "time of creation lies after the year 9999");
    if (!is_padded_string(sandbox->socket, sizeof(sandbox->socket)) || sandbox->socket[0] != '/')
        return error_set(err, ERR_INVALID, "socket path of the sandbox is not an absolute path");
    return 0;
}

static int check_sandboxes(const struct message_sandboxes *list, struct error *err)
{
    if (list->count > MESSAGE_SANDBOXES_MAX || list->more > 1)
        return error_set(err, ERR_INVALID, "a page has at most %d sandboxes",
                         MESSAGE_SANDBOXES_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        int r = check_sandbox(&list->items[i], err);
        if (r < 0)
            return r;
        if (i > 0 && strcmp(list->items[i - 1].id, list->items[i].id) >= 0)
            return error_set(err, ERR_INVALID, "sandboxes of a page are not sorted by id");
    }
    if (!all_zero(list->items + list->count,
                  (MESSAGE_SANDBOXES_MAX - list->count) * sizeof(list->items[0])))
        return error_set(err, ERR_INVALID, "unused items of a page must be zero");
    return 0;
}

static int check_usage(const struct message_usage *usage, struct error *err)
{
    int r = check_id(usage->id, sizeof(usage->id), err);
    if (r == 0)
        r = check_state(usage->state, usage->limits_hit, err);
    if (r < 0)
        return r;
    if (usage->read_unix_ms > UNIX_MS_MAX)
        return error_set(err, ERR_INVALID, "time of reading lies after the year 9999");
    if (usage->reserved != 0)
        return error_set(err, ERR_INVALID, "reserved field must be zero");
    return 0;
}

static int check_usage_page(const struct message_usage_page *page, struct error *err)
{
    if (page->count > MESSAGE_USAGE_MAX || page->more > 1)
        return error_set(err, ERR_INVALID, "a page has at most %d sandboxes", MESSAGE_USAGE_MAX);
    for (uint32_t i = 0; i < page->count; i++) {
        int r = check_usage(&page->items[i], err);
        if (r < 0)
            return r;
        if (i > 0 && strcmp(page->items[i - 1].id, page->items[i].id) >= 0)
            return error_set(err, ERR_INVALID, "sandboxes of a page are not sorted by id");
    }
    if (!all_zero(page->items + page->count,
                  (MESSAGE_USAGE_MAX - page->count) * sizeof(page->items[0])))
        return error_set(err, ERR_INVALID, "unused items of a page must be zero");
    return 0;
}

static int check_exit(const struct message_exit *event, struct error *err)
{
    if (event->header.sequence != 0)
        return error_set(err, ERR_INVALID, "an event must have sequence 0");
    if (event->sandbox.state != MESSAGE_EXITED)
        return error_set(err, ERR_INVALID, "an exit event must be about an ended sandbox");
    return check_sandbox(&event->sandbox, err);
}

static int check_body(const union message *message, struct error *err)
{
    switch (message->header.type) {
    case MESSAGE_CREATE:
        return check_create(&message->create, err);
    case MESSAGE_KILL:
    case MESSAGE_REMOVE:
    case MESSAGE_FREEZE:
    case MESSAGE_THAW:
        return check_id(message->target.id, sizeof(message->target.id), err);
    case MESSAGE_LIMITS:
        return check_set_limits(&message->limits, err);
    case MESSAGE_DEADLINE:
        return check_set_deadline(&message->deadline, err);
    case MESSAGE_LIST:
    case MESSAGE_STAT:
        return check_list(&message->list, err);
    case MESSAGE_RESULT:
        return check_result(&message->result, err);
    case MESSAGE_SANDBOXES:
        return check_sandboxes(&message->sandboxes, err);
    case MESSAGE_EXIT:
        return check_exit(&message->exit, err);
    case MESSAGE_USAGE:
        return check_usage_page(&message->usage, err);
    case MESSAGE_SOCKET:
        return check_socket(&message->socket, err);
    case MESSAGE_WELCOME:
        return check_welcome(&message->welcome, err);
    default:
        return 0;
    }
}

/* Whether the header can be believed at all: only then is there a sequence to answer to. */
static bool header_is_ours(const void *packet, size_t length, struct message_header *ret)
{
    if (length < sizeof(*ret))
        return false;
    memcpy(ret, packet, sizeof(*ret));
    return ret->magic == MESSAGE_MAGIC && ret->version == MESSAGE_VERSION;
}

int message_decode(const void *packet, size_t length, bool from_server, union message *ret,
                   struct error *err)
{
    struct message_header header;
    if (!header_is_ours(packet, length, &header))
        return error_set(err, ERR_INVALID, "not a message of version %d", MESSAGE_VERSION);

    bool type_from_server;
    size_t expected = type_length(header.type, &type_from_server);
    if (expected == 0 || type_from_server != from_server)
        return error_set(err, ERR_INVALID, "message type %u is not allowed here", header.type);
    if (length != expected || header.length != expected)
        return error_set(err, ERR_INVALID,
                         "message type %u must have %zu bytes, not %zu (header says %u)",
                         header.type, expected, length, header.length);

    union message message;
    memset(&message, 0, sizeof(message));
    memcpy(&message, packet, length);
    int r = check_body(&message, err);
    if (r < 0)
        return r;
    *ret = message;
    return 0;
}

int message_send(int socket, const union message *message)
{
    return message_send_with(socket, message, -1);
}

int message_send_with(int socket, const union message *message, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = message->header.length};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        control.align = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof(control.bytes);
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

/* The first descriptor that came along, if any; a second has no room and is closed by the kernel.
 */
static int attached_fd(struct msghdr *packet)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c != NULL; c = CMSG_NXTHDR(packet, c)) {
        int fd;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
            c->cmsg_len < CMSG_LEN(sizeof(fd)))
            continue;
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        return fd;
    }
    return -1;
}

/* MSG_TRUNC makes the result the true length, so that an oversized packet is seen as such. */
static ssize_t receive_packet(int socket, void *packet, size_t size, int *ret_fd)
{
    union {
        char bytes[CMSG_LEN(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = packet, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (ret_fd != NULL) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
    }
    ssize_t length;
    do {
        length = recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    } while (length < 0 && errno == EINTR);
    if (length >= 0 && ret_fd != NULL)
        *ret_fd = attached_fd(&message);
    return length < 0 ? -errno : length;
}

static int decode_packet(const char *packet, size_t length, bool from_server, union message *ret,
                         struct error *err)
{
    struct message_header header;
    memset(&ret->header, 0, sizeof(ret->header));
    if (header_is_ours(packet, MIN(length, (size_t)MESSAGE_MAX), &header))
        ret->header = header;
    if (length > MESSAGE_MAX) {
        error_set(err, ERR_INVALID, "packet of %zu bytes is over %d", length, MESSAGE_MAX);
        return -EPROTO;
    }
    return message_decode(packet, length, from_server, ret, err) < 0 ? -EPROTO : 1;
}

/* No control buffer: descriptors somebody attaches are closed by the kernel. */
int message_receive(int socket, bool from_server, union message *ret, struct error *err)
{
    char packet[MESSAGE_MAX];
    ssize_t length = receive_packet(socket, packet, sizeof(packet), NULL);
    if (length <= 0)
        return (int)length;
    return decode_packet(packet, (size_t)length, from_server, ret, err);
}

int message_receive_with(int socket, bool from_server, union message *ret, int *ret_fd,
                         struct error *err)
{
    char packet[MESSAGE_MAX];
    AUTO_CLOSE int fd = -1;
    *ret_fd = -1;
    ssize_t length = receive_packet(socket, packet, sizeof(packet), &fd);
    if (length <= 0)
        return (int)length;
    int r = decode_packet(packet, (size_t)length, from_server, ret, err);
    if (r == 1)
        *ret_fd = TAKE_FD(fd);
    return r;
}
