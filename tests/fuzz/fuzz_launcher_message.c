/* Packets between server and launcher, in both directions. What is accepted must be canonical:
 * encoding the result again gives the same bytes, so nothing passes that the launcher did not look
 * at. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/native/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

    /* A message made from nothing but the fields has no room for stowaways. */
    union message again;
    message_init(&again, message.header.type, message.header.sequence);
    if (memcmp(&again.header, &message.header, sizeof(again.header)) != 0)
        abort();
    if (message.header.type == MESSAGE_CREATE) {
        strcpy(again.create.id, message.create.id);
        strcpy(again.create.image, message.create.image);
        again.create.memory_bytes = message.create.memory_bytes;
        again.create.deadline_unix_ms = message.create.deadline_unix_ms;
        again.create.cpu_millis = message.create.cpu_millis;
        again.create.pids = message.create.pids;
        if (memcmp(&again, &message, size) != 0 || !id_is_uuid(again.create.id) ||
            strstr(again.create.image, "..") != NULL)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size, true);
    check(data, size, false);
    return 0;
}
