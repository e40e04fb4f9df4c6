/* The running server: everything a request handler may need. */
#pragma once

#include <uv.h>

#include "http/client.h"
#include "http/server.h"
#include "runtime/runtime.h"
#include "server/config.h"
#include "server/expiry.h"
#include "server/lifecycle.h"
#include "store/store.h"

struct server {
    uv_loop_t *loop;
    const struct server_config *config;
    const char *api_key;
    struct store *store;
    struct http_client *client;
    struct runtime *runtime;
    struct server_lifecycle *lifecycle;
    struct server_expiry *expiry;
    struct http_server *http;
};

struct server_run_options {
    const struct server_config *config;
    const char *api_key;
    const char *launcher_socket;
    const char *launcher_command; /* for the log, when the launcher is away */
    int launcher_probe;           /* a connection to close once there is a real one; -1: none */
};

/* Serve until SIGTERM or SIGINT. Sandboxes live on afterwards. */
int server_run(const struct server_run_options *options, struct error *err);
