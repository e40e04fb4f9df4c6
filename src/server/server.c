/* Start: client, store, runtime; then a reconcile, since requests must not see sandboxes that are
 * gone; then the listening socket. Stop: listener and connections, then the runtime, which finishes
 * every operation that is under way, then what those used. */
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/native/native.h"
#include "server/api.h"
#include "server/checkpoint.h"
#include "server/reconcile.h"
#include "server/state_dir.h"

struct run {
    struct server server;
    const struct server_run_options *options;
    uv_loop_t loop;
    struct server_checkpoint *checkpoint;
    uv_signal_t signals[2];
    bool listening;
    bool failed;
    struct error err;
};

static void begin_listening(struct run *run);

static void stop_with(struct run *run, const struct error *err)
{
    run->failed = true;
    run->err = *err;
    uv_stop(&run->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    log_info("stopping on signal %d; sandboxes live on", number);
    uv_stop(handle->loop);
}

/* --- runtime ---------------------------------------------------------------------------------- */

static void on_reconciled(const struct error *err, void *ctx)
{
    struct run *run = ctx;
    struct server *server = &run->server;
    if (err != NULL && !run->listening) {
        stop_with(run, err);
        return;
    }
    if (err != NULL) {
        /* The launcher went away again: its return brings the next reconcile. */
        log_error("cannot reconcile with the launcher: %s", err->message);
        return;
    }
    server_expiry_run(server->expiry);
    if (!run->listening)
        begin_listening(run);
}

static void reconcile(struct run *run)
{
    const struct server_reconcile_config config = {
        .store = run->server.store,
        .runtime = run->server.runtime,
        .lifecycle = run->server.lifecycle,
        .now_ms = clock_unix_ms,
    };
    server_reconcile_start(&config, on_reconciled, run);
}

static void on_runtime_exit(const struct runtime_sandbox *sandbox, void *ctx)
{
    struct run *run = ctx;
    server_lifecycle_exited(run->server.lifecycle, sandbox);
}

static void on_runtime_state(bool available, void *ctx)
{
    struct run *run = ctx;
    server_lifecycle_set_available(run->server.lifecycle, available);
    if (available) {
        log_info("the launcher is back");
        reconcile(run);
        return;
    }
    log_error("the launcher is gone: running sandboxes live on, but none can be made or removed "
              "until it is started again: %s",
              run->options->launcher_command);
}

static void on_expiry(int64_t expires_at_ms, void *ctx)
{
    struct run *run = ctx;
    server_expiry_note(run->server.expiry, expires_at_ms);
}

/* --- start ------------------------------------------------------------------------------------ */

static void begin_listening(struct run *run)
{
    const struct server_config *config = run->options->config;
    const struct http_server_config http = {
        .loop = &run->loop,
        .on_request = server_api_on_request,
        .ctx = &run->server,
    };
    run->server.http = http_server_new(&http);
    int port = 0;
    struct error err = ERROR_INIT;
    if (http_server_listen_tcp(run->server.http, config->host, config->port, &port, &err) < 0) {
        error_wrap(&err, "cannot listen on %s port %d", config->host, config->port);
        stop_with(run, &err);
        return;
    }
    run->listening = true;
    bool is_ipv6 = strchr(config->host, ':') != NULL;
    printf("listening on http://%s%s%s:%d\n", is_ipv6 ? "[" : "", config->host, is_ipv6 ? "]" : "",
           port);
    fflush(stdout);
}

static int open_store(struct run *run, struct error *err)
{
    AUTO_FREE char *path =
        mem_printf("%s/%s", run->options->config->state_dir, SERVER_STATE_DATABASE);
    int r = store_open(path, &run->server.store, err);
    if (r < 0)
        return r;
    run->checkpoint = server_checkpoint_new(&run->loop, run->server.store, path, err);
    return run->checkpoint != NULL ? 0 : -1;
}

static void tell_network(const struct run *run)
{
    struct runtime_networks networks;
    run->server.runtime->networks(run->server.runtime, &networks);
    if (run->options->config->network != SERVER_NETWORK_NONE && !networks.nat)
        log_warn("sandboxes have no network: %s", networks.nat_reason);
}

static int open_runtime(struct run *run, struct error *err)
{
    const struct native_config config = {
        .loop = &run->loop,
        .client = run->server.client,
        .launcher_socket = run->options->launcher_socket,
        .events = {.on_exit = on_runtime_exit, .on_state = on_runtime_state},
        .ctx = run,
    };
    run->server.runtime = native_runtime_new(&config, err);
    fd_close(run->options->launcher_probe);
    if (run->server.runtime == NULL)
        return -1;
    tell_network(run);
    return 0;
}

static int open_parts(struct run *run, struct error *err)
{
    struct server *server = &run->server;
    int r = open_store(run, err);
    if (r < 0)
        return r;
    server->client = http_client_new(&(struct http_client_config){.loop = &run->loop});
    r = open_runtime(run, err);
    if (r < 0)
        return r;
    server->lifecycle = server_lifecycle_new(&(struct server_lifecycle_config){
        .store = server->store,
        .runtime = server->runtime,
        .images = &run->options->config->images,
        .network = run->options->config->network,
        .now_ms = clock_unix_ms,
        .on_expiry = on_expiry,
        .ctx = run,
    });
    server->expiry = server_expiry_new(&(struct server_expiry_config){
        .loop = &run->loop,
        .store = server->store,
        .lifecycle = server->lifecycle,
        .now_ms = clock_unix_ms,
    });
    return 0;
}

static void open_signals(struct run *run)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        uv_signal_init(&run->loop, &run->signals[i]);
        uv_signal_start(&run->signals[i], on_signal, numbers[i]);
    }
}

static void close_parts(struct run *run)
{
    struct server *server = &run->server;
    server->http = http_server_free(server->http);
    if (server->runtime != NULL)
        server->runtime->free(server->runtime);
    server->runtime = NULL;
    run->checkpoint = server_checkpoint_free(run->checkpoint);
    server->expiry = server_expiry_free(server->expiry);
    server->client = http_client_free(server->client);
    for (size_t i = 0; i < ARRAY_LEN(run->signals); i++)
        uv_close((uv_handle_t *)&run->signals[i], NULL);
    while (uv_run(&run->loop, UV_RUN_DEFAULT) != 0)
        ; /* until every handle is closed, whoever calls uv_stop() meanwhile */
    server->lifecycle = server_lifecycle_free(server->lifecycle);
    server->store = store_close(server->store);
    uv_loop_close(&run->loop);
}

int server_run(const struct server_run_options *options, struct error *err)
{
    struct run run = {.options = options, .err = ERROR_INIT};
    uv_loop_init(&run.loop);
    run.server.loop = &run.loop;
    run.server.config = options->config;
    run.server.api_key = options->api_key;
    open_signals(&run);
    int r = open_parts(&run, err);
    if (r == 0) {
        reconcile(&run);
        uv_run(&run.loop, UV_RUN_DEFAULT);
    }
    close_parts(&run);
    if (r == 0 && run.failed)
        r = error_set(err, run.err.code, "%s", run.err.message);
    return r;
}
