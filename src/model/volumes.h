/* The volumes of a create request: what a sandbox is given besides its image.
 *
 * A volume has a name, a place inside and exactly one source: `host` (a path of the server's
 * machine), `pvc` (a named volume of this server) or, in this server only, `tmpfs` (memory). Unlike
 * elsewhere in a request a member that nobody knows is refused: a misspelt `readOnly` would give
 * away more than was meant. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/problem.h"

#define VOLUMES_MAX       16
#define VOLUMES_NAME_MAX  63
#define VOLUMES_PATH_MAX  255
#define VOLUMES_TMPFS_MIN 4096ull
#define VOLUMES_TMPFS_MAX (1ull << 50)

#define VOLUMES_NOT_ALLOWED  "VOLUME::HOST_PATH_NOT_ALLOWED"
#define VOLUMES_PVC_MISSING  "VOLUME::PVC_NOT_FOUND"
#define VOLUMES_BAD_SUB_PATH "VOLUME::INVALID_SUB_PATH"

enum volumes_kind { VOLUMES_HOST, VOLUMES_NAMED, VOLUMES_TMPFS };

struct volume {
    enum volumes_kind kind;
    char *name;
    char *mount_path; /* absolute and plain */
    char *source;     /* HOST: absolute and plain; NAMED: its name; TMPFS: "" */
    char *sub_path;   /* relative and plain, or "" */
    bool read_only;
    bool create;         /* HOST, NAMED: when it is missing */
    bool remove;         /* NAMED: with the sandbox, if it was created for it */
    uint64_t size_bytes; /* NAMED: 0 for no limit; TMPFS */
};

struct volumes {
    struct volume *items;
    size_t count;
};

/* Whether a path may be used: no control characters, no empty component, none that is . or .., no
 * final slash, within VOLUMES_PATH_MAX; absolute or relative as asked. */
bool volumes_is_plain_path(const char *path, bool absolute);

/* `allowed` are the directories in which host paths may lie, NULL-terminated; NULL: none. On
 * failure `ret` is left empty. */
int volumes_parse(const json_t *array, const char *const *allowed, struct volumes *ret,
                  struct problem *problem);
void volumes_done(struct volumes *volumes);
