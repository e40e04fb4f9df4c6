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
        again.create.flags = message->create.flags & MESSAGE_READ_ONLY_ROOT;
        if (strstr(again.create.image, "..") != NULL)
            abort();
        break;
    case MESSAGE_LIMITS:
        strcpy(again.limits.id, message->limits.id);
        again.limits.limits = copy_limits(&message->limits.limits);
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
    /* The id is at the same place in all of them. */
    if (memcmp(&again, message, size) != 0 || !id_is_uuid(again.target.id))
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
