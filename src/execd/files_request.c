/* What the requests of the file endpoints have in common. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execd/files.h"
#include "execd/paths.h"
#include "execd/reply.h"
#include "execd/request.h"
#include "execd/work.h"

int execd_files_resolve(const struct execd *execd, const char *path, char **ret, struct error *err)
{
    return execd_path_expand(path, &execd->env, execd->cwd, ret, err);
}

struct execd_owner execd_files_owner(const struct execd *execd)
{
    if (!execd->has_user)
        return EXECD_OWNER_LEAVE;
    return (struct execd_owner){.uid = execd->user.uid, .gid = execd->user.gid};
}

void execd_files_paths_free(void *ctx)
{
    struct execd_files_paths *paths = ctx;
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->items[i].requested);
        free(paths->items[i].path);
    }
    free(paths->items);
    free(paths);
}

static int read_paths(const struct execd *execd, const struct url_query *query,
                      struct execd_files_paths *paths, struct error *err)
{
    paths->items = mem_alloc_array(query->count + 1, sizeof(*paths->items));
    for (size_t i = 0; i < query->count; i++) {
        const struct url_query_item *item = &query->items[i];
        if (strcmp(item->name, "path") != 0)
            continue;
        char *path;
        if (execd_files_resolve(execd, item->value, &path, err) < 0)
            return -1;
        paths->items[paths->count++] =
            (struct execd_files_path){.requested = mem_dup(item->value), .path = path};
    }
    return 0;
}

void execd_files_start_paths(const struct execd *execd, struct http_exchange *exchange,
                             const struct execd_work_ops *ops)
{
    struct url_query query;
    struct error err = ERROR_INIT;
    if (!execd_request_query(exchange, &query))
        return;
    struct execd_files_paths *paths = mem_alloc(sizeof(*paths));
    paths->users = execd->users;
    int r = read_paths(execd, &query, paths, &err);
    url_query_done(&query);
    if (r == 0) {
        execd_work_start(exchange, ops, paths);
        return;
    }
    execd_files_paths_free(paths);
    execd_reply_failure(exchange, ops->invalid_code, &err);
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* Between the head of the request and its body. */
struct pending {
    struct execd *execd;
    execd_files_parse_fn *parse;
    bool verbose;
    const struct execd_work_ops *ops;
};

void execd_files_job_free(void *ctx)
{
    struct execd_files_job *job = ctx;
    for (size_t i = 0; i < job->body.count; i++) {
        free(job->paths[i]);
        free(job->dests[i]);
    }
    free(job->paths);
    free(job->dests);
    execd_body_done(&job->body);
    free(job);
}

static int expand_paths(const struct execd *execd, struct execd_files_job *job, struct error *err)
{
    const struct execd_body *body = &job->body;
    job->paths = mem_alloc_array(body->count + 1, sizeof(*job->paths));
    job->dests = mem_alloc_array(body->count + 1, sizeof(*job->dests));
    for (size_t i = 0; i < body->count; i++) {
        const struct execd_body_item *item = &body->items[i];
        if (execd_files_resolve(execd, item->path, &job->paths[i], err) < 0 ||
            (item->dest != NULL && execd_files_resolve(execd, item->dest, &job->dests[i], err) < 0))
            return -1;
    }
    return 0;
}

static void on_body(struct http_exchange *exchange, const char *text, size_t length, void *ctx)
{
    struct pending *pending = ctx;
    const struct execd *execd = pending->execd;
    struct error err = ERROR_INIT;
    struct execd_files_job *job = mem_alloc(sizeof(*job));
    job->users = execd->users;
    job->owner = execd_files_owner(execd);
    job->verbose = pending->verbose;
    if (pending->parse(text, length, &job->body, &err) < 0 || expand_paths(execd, job, &err) < 0) {
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
        execd_files_job_free(job);
        return;
    }
    const struct execd_work_ops *ops = pending->ops;
    free(pending); /* the work has its own on_close */
    execd_work_start(exchange, ops, job);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    free(ctx);
}

void execd_files_collect_job(struct execd *execd, struct http_exchange *exchange,
                             execd_files_parse_fn *parse, bool verbose,
                             const struct execd_work_ops *ops)
{
    struct pending *pending = mem_alloc(sizeof(*pending));
    *pending = (struct pending){.execd = execd, .parse = parse, .verbose = verbose, .ops = ops};
    http_exchange_on_close(exchange, on_close, pending);
    http_exchange_collect(exchange, EXECD_BODY_MAX_BYTES, on_body, pending);
}

static int find_id(const struct execd_users *users, enum execd_names_kind kind, const char *name,
                   uint32_t *id, struct error *err)
{
    const char *what = kind == EXECD_NAMES_USER ? "owner" : "group";
    if (name == NULL || execd_names_parse(users, kind, name, id))
        return 0;
    return error_set(err, ERR_INVALID, "`%s` \"%.64s\" is not a %s of the sandbox", what, name,
                     kind == EXECD_NAMES_USER ? "user" : "group");
}

int execd_files_find_owner(const struct execd_users *users,
                           const struct execd_permission *permission, struct execd_owner *ret,
                           struct error *err)
{
    *ret = EXECD_OWNER_LEAVE;
    return find_id(users, EXECD_NAMES_USER, permission->owner, &ret->uid, err) < 0 ||
                   find_id(users, EXECD_NAMES_GROUP, permission->group, &ret->gid, err) < 0
               ? -1
               : 0;
}
