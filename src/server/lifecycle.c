#include "server/lifecycle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/log.h"
#include "base/mem.h"

/* Somebody who waits for a removal. */
struct waiter {
    STAILQ_ENTRY(waiter) link;
    runtime_done_fn *done;
    void *ctx;
};

struct job {
    LIST_ENTRY(job) link;
    struct server_lifecycle *lifecycle;
    bool has_volumes;
    bool unwanted; /* being made, and to be removed as soon as that is done */
    struct sandbox sandbox;
    bool nat;
    char *note; /* what its message says when it runs, besides that; NULL: nothing */
    server_lifecycle_created_fn *created; /* while creating */
    void *ctx;
    STAILQ_HEAD(waiter_list, waiter) waiters;
};

struct server_lifecycle {
    struct server_lifecycle_config config;
    bool available;
    size_t creates;
    LIST_HEAD(job_list, job) jobs; /* few at a time: bounded by the runtime's operations */
};

struct server_lifecycle *server_lifecycle_new(const struct server_lifecycle_config *config)
{
    struct server_lifecycle *lifecycle = mem_alloc(sizeof(*lifecycle));
    lifecycle->config = *config;
    lifecycle->available = true;
    LIST_INIT(&lifecycle->jobs);
    return lifecycle;
}

struct server_lifecycle *server_lifecycle_free(struct server_lifecycle *lifecycle)
{
    free(lifecycle);
    return NULL;
}

void server_lifecycle_set_available(struct server_lifecycle *lifecycle, bool available)
{
    lifecycle->available = available;
}

bool server_lifecycle_is_available(const struct server_lifecycle *lifecycle)
{
    return lifecycle->available;
}

/* --- jobs ------------------------------------------------------------------------------------- */

static struct job *job_find(const struct server_lifecycle *lifecycle, const char *id)
{
    struct job *job = NULL;
    LIST_FOREACH(job, &lifecycle->jobs, link)
    {
        if (strcmp(job->sandbox.id, id) == 0)
            return job;
    }
    return NULL;
}

bool server_lifecycle_is_busy(const struct server_lifecycle *lifecycle, const char *id)
{
    return job_find(lifecycle, id) != NULL;
}

static struct job *job_new(struct server_lifecycle *lifecycle)
{
    struct job *job = mem_alloc(sizeof(*job));
    job->lifecycle = lifecycle;
    STAILQ_INIT(&job->waiters);
    LIST_INSERT_HEAD(&lifecycle->jobs, job, link);
    return job;
}

static void job_add_waiter(struct job *job, runtime_done_fn *done, void *ctx)
{
    if (done == NULL)
        return;
    struct waiter *waiter = mem_alloc(sizeof(*waiter));
    waiter->done = done;
    waiter->ctx = ctx;
    STAILQ_INSERT_TAIL(&job->waiters, waiter, link);
}

/* The end of a job: out of the list first, so that a callback may begin the next one. */
static void job_finish(struct job *job, const struct error *err)
{
    LIST_REMOVE(job, link);
    struct waiter *waiter;
    while ((waiter = STAILQ_FIRST(&job->waiters)) != NULL) {
        STAILQ_REMOVE_HEAD(&job->waiters, link);
        waiter->done(err, waiter->ctx);
        free(waiter);
    }
    sandbox_done(&job->sandbox);
    free(job->note);
    free(job);
}

static int refuse_unavailable(struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE,
                     "sandboxes cannot be made or removed now: the launcher is away; try again");
}

/* What the runtime said, as far as a client can do something about it. */
static struct error runtime_error(const struct error *err, const char *doing, const char *id)
{
    struct error told = *err;
    /* What this machine cannot do or does not have, a limit or an image, is wrong in a request to
     * it.
     */
    if (err->code == ERR_UNSUPPORTED || err->code == ERR_NOT_FOUND)
        told.code = ERR_INVALID;
    else if (err->code != ERR_LIMIT && err->code != ERR_UNAVAILABLE && err->code != ERR_INVALID)
        told.code = ERR_INTERNAL;
    error_wrap(&told, "cannot %s sandbox %s", doing, id);
    return told;
}

/* --- remove ----------------------------------------------------------------------------------- */

static void on_removed(const struct error *err, void *ctx)
{
    struct job *job = ctx;
    struct error failed = ERROR_INIT;
    const char *id = job->sandbox.id;
    if (err != NULL && err->code != ERR_NOT_FOUND) {
        /* The row stays Stopping: the next reconcile, or the next attempt, goes on from there. */
        failed = runtime_error(err, "remove", id);
        log_error("%s", failed.message);
        job_finish(job, &failed);
        return;
    }
    if (store_delete_sandbox(job->lifecycle->config.store, id, &failed) < 0 &&
        failed.code != ERR_NOT_FOUND) {
        error_wrap(&failed, "cannot forget sandbox %s", id);
        log_error("%s", failed.message);
        job_finish(job, &failed);
        return;
    }
    log_info("sandbox %s removed", id);
    job_finish(job, NULL);
}

/* The intent is stored first; job->sandbox is the row. */
static int begin_removal(struct job *job, struct error *err)
{
    struct server_lifecycle *lifecycle = job->lifecycle;
    struct sandbox *sandbox = &job->sandbox;
    if (sandbox->state != SANDBOX_STOPPING) {
        int r = sandbox_set_state(sandbox, SANDBOX_STOPPING, "SANDBOX_DELETING",
                                  "Sandbox is being removed.", lifecycle->config.now_ms(), err);
        if (r == 0)
            r = store_update_state(lifecycle->config.store, sandbox, err);
        if (r < 0)
            return r;
    }
    lifecycle->config.runtime->remove(lifecycle->config.runtime, sandbox->id, on_removed, job);
    return 0;
}

int server_lifecycle_remove(struct server_lifecycle *lifecycle, const char *id,
                            runtime_done_fn *done, void *ctx, struct error *err)
{
    struct job *job = job_find(lifecycle, id);
    if (job != NULL) {
        job->unwanted = true;
        job_add_waiter(job, done, ctx);
        return 0;
    }
    struct sandbox sandbox = {0};
    int r = store_get_sandbox(lifecycle->config.store, id, &sandbox, err);
    if (r < 0)
        return r;
    job = job_new(lifecycle);
    job->sandbox = sandbox;
    r = lifecycle->available ? begin_removal(job, err) : refuse_unavailable(err);
    if (r < 0)
        job_finish(job, err);
    else
        job_add_waiter(job, done, ctx);
    return r;
}

/* --- create ----------------------------------------------------------------------------------- */

/* With volumes more can be wrong in a request than without. */
static struct error create_error(const struct job *job, const struct error *err)
{
    struct error told = runtime_error(err, "start", job->sandbox.id);
    if (job->has_volumes && (err->code == ERR_DENIED || err->code == ERR_NOT_FOUND))
        told.code = err->code;
    if (!job->has_volumes || err->code != ERR_INVALID)
        told.sys = 0;
    return told;
}

static void create_failed(struct job *job, const struct error *err)
{
    struct server_lifecycle *lifecycle = job->lifecycle;
    struct error failed = create_error(job, err);
    log_warn("%s", failed.message);
    struct error why = ERROR_INIT;
    if (store_delete_sandbox(lifecycle->config.store, job->sandbox.id, &why) < 0)
        log_error("cannot forget sandbox %s: %s", job->sandbox.id, why.message);
    job->created(&failed, NULL, job->ctx);
    job_finish(job, NULL); /* for those who asked for its removal it is gone */
}

static int store_running(struct job *job, struct error *err)
{
    struct server_lifecycle *lifecycle = job->lifecycle;
    struct runtime *runtime = lifecycle->config.runtime;
    const char *lacks = runtime->lacks(runtime);
    const char *note = job->note != NULL ? job->note : "";
    AUTO_FREE char *message = mem_printf("Sandbox is running.%s%s%s%s", note[0] != '\0' ? " " : "",
                                         note, lacks[0] != '\0' ? " " : "", lacks);
    int r = sandbox_set_state(&job->sandbox, SANDBOX_RUNNING, "CONTAINER_RUNNING", message,
                              lifecycle->config.now_ms(), err);
    return r < 0 ? r : store_update_state(lifecycle->config.store, &job->sandbox, err);
}

static void on_created(const struct error *err, void *ctx)
{
    struct job *job = ctx;
    job->lifecycle->creates--;
    if (err != NULL) {
        create_failed(job, err);
        return;
    }
    struct error failed = ERROR_INIT;
    if (store_running(job, &failed) == 0) {
        log_info("sandbox %s is running", job->sandbox.id);
        job->created(NULL, &job->sandbox, job->ctx);
    } else {
        log_error("cannot store sandbox %s: %s", job->sandbox.id, failed.message);
        job->created(&failed, NULL, job->ctx);
        job->unwanted = true;
    }
    if (!job->unwanted) {
        job_finish(job, NULL);
    } else if (begin_removal(job, &failed) < 0) {
        log_error("cannot remove sandbox %s: %s", job->sandbox.id, failed.message);
        job_finish(job, &failed);
    }
}

static void sandbox_from_request(struct sandbox *sandbox, const struct create_request *request,
                                 int64_t now_ms)
{
    id_new_uuid(sandbox->id);
    id_new_token(sandbox->execd_token);
    sandbox->image = mem_dup(request->image);
    string_list_copy(&sandbox->entrypoint, &request->entrypoint);
    for (size_t i = 0; i < request->metadata.count; i++)
        labels_set(&sandbox->metadata, request->metadata.items[i].key,
                   request->metadata.items[i].value);
    sandbox->limits = request->limits;
    sandbox->platform_os = mem_dup(request->platform_os);
    sandbox->platform_arch = mem_dup(request->platform_arch);
    sandbox->created_at_ms = now_ms;
    if (request->timeout_s > 0)
        sandbox->expires_at_ms = now_ms + request->timeout_s * 1000;
    sandbox->state = SANDBOX_PENDING;
    sandbox->reason = mem_dup("CONTAINER_STARTING");
    sandbox->message = mem_dup("Sandbox is starting.");
    sandbox->last_transition_at_ms = now_ms;
}

/* *ret_note, the caller's: that nat was meant by default and is not there. */
static int choose_network(const struct server_lifecycle *lifecycle,
                          enum create_request_network wanted, bool *ret_nat, char **ret_note,
                          struct error *err)
{
    enum server_network network = lifecycle->config.network;
    struct runtime *runtime = lifecycle->config.runtime;
    bool by_default = wanted == CREATE_REQUEST_ANY_NETWORK;
    *ret_nat = false;
    *ret_note = NULL;
    if (wanted == CREATE_REQUEST_NO_NETWORK || (by_default && network == SERVER_NETWORK_NONE))
        return 0;
    if (network == SERVER_NETWORK_NONE)
        return error_set(err, ERR_INVALID,
                         "the network \"nat\" is not available: this server is configured with "
                         "`network.mode` \"none\"");
    struct runtime_networks networks;
    runtime->networks(runtime, &networks);
    *ret_nat = networks.nat;
    if (networks.nat)
        return 0;
    if (!by_default)
        return error_set(err, ERR_INVALID, "the network \"nat\" is not available: %s",
                         networks.nat_reason);
    if (network == SERVER_NETWORK_NAT)
        return error_set(err, ERR_UNAVAILABLE,
                         "this server is configured with `network.mode` \"nat\", which is not "
                         "available: %s",
                         networks.nat_reason);
    *ret_note = mem_printf("Network none: %s.", networks.nat_reason);
    return 0;
}

static void ask_runtime(struct job *job, const struct create_request *request)
{
    const struct server_lifecycle_config *config = &job->lifecycle->config;
    struct runtime *runtime = config->runtime;
    const struct server_image *image =
        config->images != NULL ? server_images_find(config->images, job->sandbox.image) : NULL;
    const struct runtime_spec spec = {
        .id = job->sandbox.id,
        .image = job->sandbox.image,
        .entrypoint = string_list_vector(&request->command),
        .env = string_list_vector(&request->env),
        .user = image != NULL ? image->user : NULL,
        .workdir = image != NULL ? image->workdir : NULL,
        .read_only_root = request->read_only_root,
        .volumes = &request->volumes,
        .nat = job->nat,
        .limits = request->limits,
        .deadline_unix_ms = job->sandbox.expires_at_ms,
    };
    runtime->create(runtime, &spec, on_created, job);
}

int server_lifecycle_create(struct server_lifecycle *lifecycle,
                            const struct create_request *request, server_lifecycle_created_fn *done,
                            void *ctx, struct error *err)
{
    if (!lifecycle->available)
        return refuse_unavailable(err);
    if (lifecycle->creates >= SERVER_LIFECYCLE_CREATES_MAX)
        return error_set(err, ERR_LIMIT, "%d sandboxes are being made already; try again",
                         SERVER_LIFECYCLE_CREATES_MAX);
    bool nat;
    AUTO_FREE char *note = NULL;
    int r = choose_network(lifecycle, request->network, &nat, &note, err);
    if (r < 0)
        return r;
    struct sandbox sandbox = {0};
    sandbox_from_request(&sandbox, request, lifecycle->config.now_ms());
    r = store_insert_sandbox(lifecycle->config.store, &sandbox, err);
    if (r < 0) {
        sandbox_done(&sandbox);
        return r;
    }
    struct job *job = job_new(lifecycle);
    job->sandbox = sandbox;
    job->nat = nat;
    job->note = TAKE_PTR(note);
    job->created = done;
    job->has_volumes = request->volumes.count > 0;
    job->ctx = ctx;
    lifecycle->creates++;
    if (sandbox.expires_at_ms != 0 && lifecycle->config.on_expiry != NULL)
        lifecycle->config.on_expiry(sandbox.expires_at_ms, lifecycle->config.ctx);
    ask_runtime(job, request);
    return 0;
}

/* --- ends that nobody asked for --------------------------------------------------------------- */

static void describe_exit(const struct runtime_sandbox *ended, enum sandbox_state *ret_state,
                          const char **ret_reason, char *message, size_t size)
{
    *ret_state = SANDBOX_FAILED;
    *ret_reason = "CONTAINER_EXITED_ERROR";
    switch (ended->exit_reason) {
    case RUNTIME_EXIT_STATUS:
        if (ended->exit_status == 0) {
            *ret_state = SANDBOX_TERMINATED;
            *ret_reason = "CONTAINER_EXITED";
            snprintf(message, size, "Sandbox entrypoint exited successfully.");
        } else {
            snprintf(message, size, "Sandbox entrypoint exited with code %d.", ended->exit_status);
        }
        break;
    case RUNTIME_EXIT_SIGNAL:
        snprintf(message, size, "Sandbox was ended by signal %d.", ended->exit_status);
        break;
    case RUNTIME_EXIT_KILLED:
        snprintf(message, size, "Sandbox was killed.");
        break;
    case RUNTIME_EXIT_DEADLINE:
        snprintf(message, size, "Sandbox reached its time limit.");
        break;
    case RUNTIME_EXIT_NONE:
    case RUNTIME_EXIT_LOST:
        *ret_reason = "LOST";
        snprintf(message, size, "Sandbox ended while nobody was watching it.");
        break;
    }
}

/* "64 MiB"; exact, since a limit that was asked for as 64 MiB should read so. */
static void format_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (unit + 1 < ARRAY_LEN(units) && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%llu %s", (unsigned long long)bytes, units[unit]);
}

static void append(char *message, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

static void append(char *message, size_t size, const char *format, ...)
{
    va_list arguments;
    size_t length = strlen(message);
    va_start(arguments, format);
    vsnprintf(message + length, size - length, format, arguments);
    va_end(arguments);
}

/* Also of a sandbox that ended well: what it did not get may be why its output is short. */
static void describe_limits_hit(const struct runtime_sandbox *ended, const struct limits *limits,
                                char *message, size_t size)
{
    char amount[40];
    if (ended->oom_kills > 0)
        append(message, size, " The kernel ended %u of its processes for want of memory.",
               ended->oom_kills);
    if (ended->limits_hit & RUNTIME_HIT_MEMORY && limits->memory_bytes != 0) {
        format_bytes(limits->memory_bytes, amount, sizeof(amount));
        append(message, size, " Its memory limit of %s was reached.", amount);
    }
    if (ended->limits_hit & RUNTIME_HIT_DISK && limits->disk_bytes != 0) {
        format_bytes(limits->disk_bytes, amount, sizeof(amount));
        append(message, size, " Its disk limit of %s was reached.", amount);
    }
    if (ended->limits_hit & RUNTIME_HIT_PIDS && limits->pids != 0)
        append(message, size, " Its limit of %u processes was reached.", limits->pids);
    else if (ended->limits_hit & RUNTIME_HIT_PIDS)
        append(message, size, " Its limit of processes was reached.");
    if (ended->limits_hit & RUNTIME_HIT_CPU && limits->cpu_millis != 0)
        append(message, size, " Its cpu limit of %u.%03u cores slowed it down.",
               limits->cpu_millis / 1000, limits->cpu_millis % 1000);
}

static int record_exit(struct server_lifecycle *lifecycle, const struct runtime_sandbox *ended,
                       struct error *err)
{
    struct sandbox sandbox = {0};
    int r = store_get_sandbox(lifecycle->config.store, ended->id, &sandbox, err);
    if (r < 0)
        return r;
    enum sandbox_state state;
    const char *reason;
    char message[512];
    describe_exit(ended, &state, &reason, message, sizeof(message));
    describe_limits_hit(ended, &sandbox.limits, message, sizeof(message));
    r = sandbox_set_state(&sandbox, state, reason, message, lifecycle->config.now_ms(), err);
    if (r == 0)
        r = store_update_state(lifecycle->config.store, &sandbox, err);
    if (r == 0)
        log_info("sandbox %s ended: %s", sandbox.id, message);
    sandbox_done(&sandbox);
    return r;
}

void server_lifecycle_exited(struct server_lifecycle *lifecycle,
                             const struct runtime_sandbox *ended)
{
    if (job_find(lifecycle, ended->id) != NULL)
        return; /* whoever makes or removes it finds out */
    struct error err = ERROR_INIT;
    int r;
    if (ended->exit_reason == RUNTIME_EXIT_DEADLINE)
        r = server_lifecycle_remove(lifecycle, ended->id, NULL, NULL, &err);
    else
        r = record_exit(lifecycle, ended, &err);
    if (r < 0 && err.code != ERR_NOT_FOUND)
        log_warn("sandbox %s ended: %s", ended->id, err.message);
}
