/* Connections to ports inside sandboxes: the launcher makes a socket in the sandbox's network, and
 * it is connected here to that port of the loopback address: 127.0.0.1, then ::1 when there nobody
 * listens.
 *
 * The number under way is bounded, also for each sandbox, so that one that lets connections wait
 * does not keep others from theirs. */
#pragma once

#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "http/connector.h"

#define NATIVE_CONNECTS_MAX     512
#define NATIVE_CONNECTS_BOX_MAX 128 /* of one sandbox */

struct native;

struct native_connector {
    struct http_connector connector;
    struct native *native;
    uv_loop_t *loop;
    TAILQ_HEAD(, http_connecting) list; /* those that wait */
    size_t count;
};

void native_connector_init(struct native_connector *connector, struct native *native,
                           uv_loop_t *loop);

/* Fails those that wait for the kernel. Those that wait for the launcher end with its operations,
 * before this. */
void native_connector_done(struct native_connector *connector);
