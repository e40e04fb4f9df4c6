/* Packets between server and launcher, in both directions. What is accepted must be canonical:
 * encoding the result again gives the same bytes, so nothing passes that the launcher did not look
 * at. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/native/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Field by field, so that padding and reserved ones are seen. */
static struct message_limits copy_limits(const struct message_limits *from)
{
    struct error err = ERROR_INIT;
    if (message_check_limits(from, &err) < 0)
        abort();
    struct message_limits to;
    memset(&to, 0, sizeof(to));
    to.memory_bytes = from->memory_bytes;
    to.disk_bytes = from->disk_bytes;
    to.io_read_bps = from->io_read_bps;
    to.io_write_bps = from->io_write_bps;
    to.io_read_iops = from->io_read_iops;
    to.io_write_iops = from->io_write_iops;
    to.cpu_millis = from->cpu_millis;
    to.pids = from->pids;
    to.open_files = from->open_files;
    return to;
}

static struct message_volume copy_volume(const struct message_volume *from)
{
    struct error err = ERROR_INIT;
    if (message_check_volume(from, &err) < 0)
        abort();
    struct message_volume to;
    memset(&to, 0, sizeof(to));
    to.kind = from->kind;
    to.flags = from->flags & MESSAGE_VOLUME_FLAGS;
    to.size_bytes = from->size_bytes;
    strcpy(to.source, from->source);
    strcpy(to.sub_path, from->sub_path);
    strcpy(to.mount_path, from->mount_path);
    if (strncmp(to.sub_path, "../", 3) == 0 || strstr(to.sub_path, "/../") != NULL)
        abort();
    return to;
}

/* A message made from nothing but the fields has no room for stowaways. */
static void check_again(const union message *message, size_t size)
{
    union message again;
    message_init(&again, message->header.type, message->header.sequence);
    if (memcmp(&again.header, &message->header, sizeof(again.header)) != 0)
        abort();
    switch (message->header.type) {
    case MESSAGE_CREATE:
        strcpy(again.create.id, message->create.id);
        strcpy(again.create.image, message->create.image);
        again.create.limits = copy_limits(&message->create.limits);
        again.create.deadline_unix_ms = message->create.deadline_unix_ms;
        again.create.network = message->create.network;
        again.create.flags = message->create.flags & MESSAGE_READ_ONLY_ROOT;
        again.create.volume_count = message->create.volume_count;
        for (uint32_t i = 0; i < again.create.volume_count; i++)
            again.create.volumes[i] = copy_volume(&message->create.volumes[i]);
        if (strstr(again.create.image, "..") != NULL)
            abort();
        break;
    case MESSAGE_LIMITS:
        strcpy(again.limits.id, message->limits.id);
        again.limits.limits = copy_limits(&message->limits.limits);
        break;
    case MESSAGE_SOCKET:
        strcpy(again.socket.id, message->socket.id);
        again.socket.family = message->socket.family;
        break;
    case MESSAGE_WELCOME:
        again.welcome.networks = message->welcome.networks;
        again.welcome.missing = message->welcome.missing;
        strcpy(again.welcome.network_reason, message->welcome.network_reason);
        strcpy(again.welcome.missing_reason, message->welcome.missing_reason);
        break;
    case MESSAGE_DEADLINE:
        strcpy(again.deadline.id, message->deadline.id);
        again.deadline.deadline_unix_ms = message->deadline.deadline_unix_ms;
        break;
    case MESSAGE_KILL:
    case MESSAGE_REMOVE:
    case MESSAGE_FREEZE:
    case MESSAGE_THAW:
        strcpy(again.target.id, message->target.id);
        break;
    default:
        return;
    }
    if (memcmp(&again, message, size) != 0)
        abort();
    /* The id is at the same place in all others. */
    if (message->header.type != MESSAGE_WELCOME && !id_is_uuid(again.target.id))
        abort();
}

static void check(const uint8_t *data, size_t size, bool from_server)
{
    union message message;
    struct error err = ERROR_INIT;
    memset(&message, 0xa5, sizeof(message));
    if (message_decode(data, size, from_server, &message, &err) < 0) {
        if (err.code != ERR_INVALID || err.message[0] == '\0')
            abort();
        return;
    }
    if (message.header.length != size || memcmp(&message, data, size) != 0)
        abort();

    check_again(&message, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size, true);
    check(data, size, false);
    return 0;
}
