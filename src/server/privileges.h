/* From root, or from an ordinary user, to one that may do nothing special, for good. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Used when the configured user does not exist. */
#define SERVER_PRIVILEGES_UID 64001

struct server_identity {
    uid_t uid;
    gid_t gid;
};

/* By name or number. A name that no user has gives SERVER_PRIVILEGES_UID for both. Root is refused.
 */
int server_privileges_find_user(const char *user, struct server_identity *ret, struct error *err);

/* Of an ordinary user: no capabilities and no_new_privs. He stays who he is, with his groups. */
int server_privileges_seal(struct error *err);

/* No groups, no capabilities (nor a way to gain any by executing a file), no_new_privs. Proves at
 * the end that there is no way back; a process that returns 0 from here is unprivileged. */
int server_privileges_drop(const struct server_identity *identity, struct error *err);
