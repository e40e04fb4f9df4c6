/* The connection to the launcher: messages out in their order, messages in, and coming back after
 * the launcher went away.
 *
 * When the launcher does not read, messages wait here and go out once it does. Who sends must bound
 * what it has under way, which bounds that queue, too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "runtime/native/message.h"

struct native_channel;

struct native_channel_events {
    void (*on_message)(const union message *message, void *ctx); /* checked; not our HELLO's */
    /* The connection broke: what was sent may or may not have arrived, no answer will come. */
    void (*on_lost)(const char *why, void *ctx);
    void (*on_ready)(void *ctx); /* connected again and greeted */
};

/* Connects and says HELLO before it returns, so that a wrong socket is an error at start. */
struct native_channel *native_channel_new(uv_loop_t *loop, const char *path,
                                          const struct native_channel_events *events, void *ctx,
                                          struct error *err);
void native_channel_free(struct native_channel *channel); /* no events from here on */

bool native_channel_is_ready(const struct native_channel *channel);

/* What the launcher answered to the last HELLO. */
const struct message_welcome *native_channel_welcome(const struct native_channel *channel);

/* Give the message a number and send or queue it. 0, or -errno when it will never arrive; only
 * while ready. Nothing is called back from inside. */
int native_channel_send(struct native_channel *channel, union message *message,
                        uint32_t *ret_sequence);
