/* Moves the database's log into the database on a thread of its own whenever it has grown long, so
 * that no request waits for the disk. */
#pragma once

#include <uv.h>

#include "store/store.h"

struct server_checkpoint;

struct server_checkpoint *server_checkpoint_new(uv_loop_t *loop, struct store *store,
                                                const char *path, struct error *err);
/* Before the store is closed, and with the loop run to its end in between: a checkpoint under way
 * is finished. Accepts NULL, returns NULL. */
struct server_checkpoint *server_checkpoint_free(struct server_checkpoint *checkpoint);
