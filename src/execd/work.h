/* Work of one request that may block or take long: it runs in steps on libuv's work queue, and what
 * a step has written is sent before the next one, as fast as the client takes it. No thread ever
 * waits for a client, and memory does not depend on the size of the answer.
 *
 * The answer is 200 with what the steps wrote, as JSON: whole if the first step is also the last,
 * without a body if that wrote nothing, streamed otherwise. A first step that fails gives an error
 * answer; after that a failure cuts the connection, so that a part is never taken for the whole. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "http/server.h"

#define EXECD_WORK_STEP_BYTES (64 * 1024)        /* a step ends when it has written so much ... */
#define EXECD_WORK_OUT_MAX    (64 * 1024 * 1024) /* ... and cannot write more */
#define EXECD_WORK_HEAVY_MAX  16                 /* at once; more wait for their turn */

struct execd_work_ops {
    /* On a thread of the work queue, one step at a time: touches nothing but ctx. 1 when there is
     * more to do, 0 when all is done, negative with err. *gone becomes true when nobody waits for
     * the answer any more: return soon, with anything. */
    int (*step)(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err);
    void (*free)(void *ctx);  /* on the loop, after the last step */
    const char *invalid_code; /* of mistakes of the client, see execd_reply_failure() */
    bool heavy;               /* holds memory and descriptors between steps */
};

/* Takes ctx. The exchange must not be answered by anybody else. `ops` is borrowed for ever. */
void execd_work_start(struct http_exchange *exchange, const struct execd_work_ops *ops, void *ctx);
