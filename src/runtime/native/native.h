/* The native runtime: talks to opensandbox-launcher over its message socket and to execd over
 * the sandbox's unix socket. Reconnects by itself (1 s steps) when the launcher goes away. */
#pragma once

#include "runtime/runtime.h"

struct native_config {
    uv_loop_t *loop;
    struct http_client *client;  /* borrowed; for /internal/start and probing */
    const char *launcher_socket; /* path; copied */
    struct runtime_events events;
    void *ctx;
};

/* Connects and says HELLO before returning, so that a wrong socket is an error at start. */
struct runtime *native_runtime_new(const struct native_config *config, struct error *err);
