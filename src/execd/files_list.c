/* GET /files/search and GET /directories/list: one walk, two choices of what to tell.
 *
 * What is told is an array that is streamed while the walk goes on. Directories that may not be
 * read are told (by list) but not entered. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/files.h"
#include "execd/glob.h"
#include "execd/reply.h"
#include "execd/request.h"
#include "execd/walk.h"
#include "execd/work.h"

#define STEP_ENTRIES 4096 /* looked at in one step, so that others get their turn */

struct listing {
    char *path;
    struct execd_users users;
    struct execd_names names;
    struct execd_glob *glob; /* search; NULL: list */
    size_t depth;            /* list */
    struct execd_walk *walk; /* NULL before the first step */
    bool begun;              /* an element was written */
};

/* --- steps ------------------------------------------------------------------------------------ */

static void write_element(struct listing *listing, const char *path, size_t path_length,
                          const struct statx *st, struct buf *out)
{
    if (listing->begun)
        buf_add_char(out, ',');
    listing->begun = true;
    execd_files_write_info(out, &listing->names, path, path_length, st);
}

static bool matches(struct listing *listing, const struct execd_walk_entry *entry)
{
    const char *text = execd_glob_has_slash(listing->glob) ? entry->relative : entry->name;
    return execd_glob_match(listing->glob, text, strlen(text));
}

/* Everything but directories, when the pattern fits; all directories are entered. */
static int search_entry(struct listing *listing, const struct execd_walk_entry *entry,
                        struct buf *out, struct error *err)
{
    struct statx st;
    bool known = entry->type != DT_UNKNOWN;
    bool wanted = entry->type != DT_DIR && matches(listing, entry);
    if (wanted || !known) {
        if (execd_files_stat(entry->dir_fd, entry->name, &st) < 0)
            return 0; /* vanished, or not for us */
        if (!S_ISDIR(st.stx_mode)) {
            if (wanted)
                write_element(listing, entry->path, entry->path_length, &st, out);
            return 0;
        }
    } else if (entry->type != DT_DIR) {
        return 0;
    }
    return execd_walk_enter(listing->walk, true, err);
}

static int list_entry(struct listing *listing, const struct execd_walk_entry *entry,
                      struct buf *out, struct error *err)
{
    struct statx st;
    int r = execd_files_stat(entry->dir_fd, entry->name, &st);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return execd_files_error(err, -r, entry->path);
    write_element(listing, entry->path, entry->path_length, &st, out);
    if (!S_ISDIR(st.stx_mode) || entry->depth >= listing->depth)
        return 0;
    return execd_walk_enter(listing->walk, true, err);
}

/* A search may also start at something that is no directory: then that is all there is. */
static int search_alone(struct listing *listing, struct buf *out, struct error *err)
{
    struct statx st;
    const char *name = strrchr(listing->path, '/') + 1;
    int r = execd_files_stat(AT_FDCWD, listing->path, &st);
    if (r < 0)
        return execd_files_error(err, -r, listing->path);
    if (execd_glob_match(listing->glob, name, strlen(name)))
        write_element(listing, listing->path, strlen(listing->path), &st, out);
    buf_add_char(out, ']');
    return 0;
}

/* A list is of the directory itself, a search may begin behind a link. */
static int open_top(const struct listing *listing)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC;
    int fd = open(listing->path, listing->glob != NULL ? flags : flags | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

static int open_error(const struct listing *listing, int sys, struct error *err)
{
    struct stat st;
    if (lstat(listing->path, &st) == 0 && !S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID, "%.300s is %s, not a directory", listing->path,
                         S_ISLNK(st.st_mode) ? "a symbolic link" : "a file");
    return execd_files_error(err, sys, listing->path);
}

static int begin(struct listing *listing, const atomic_bool *gone, struct buf *out,
                 struct error *err)
{
    int fd = open_top(listing);
    buf_add_char(out, '[');
    if (fd == -ENOTDIR && listing->glob != NULL)
        return search_alone(listing, out, err);
    if (fd < 0)
        return open_error(listing, -fd, err);
    listing->walk = execd_walk_new(fd, listing->path, false, gone);
    return 1;
}

static int walk_on(struct listing *listing, struct buf *out, struct error *err)
{
    for (int i = 0; i < STEP_ENTRIES && out->length < EXECD_WORK_STEP_BYTES; i++) {
        struct execd_walk_entry entry;
        int r = execd_walk_next(listing->walk, &entry, err);
        if (r == 0)
            buf_add_char(out, ']');
        if (r <= 0)
            return r;
        r = listing->glob != NULL ? search_entry(listing, &entry, out, err)
                                  : list_entry(listing, &entry, out, err);
        if (r < 0)
            return r;
    }
    return 1;
}

static int step(void *ctx, const atomic_bool *gone, struct buf *out, struct error *err)
{
    struct listing *listing = ctx;
    if (listing->walk == NULL) {
        int r = begin(listing, gone, out, err);
        if (r <= 0)
            return r;
        if (listing->glob == NULL && listing->depth == 0) {
            buf_add_char(out, ']');
            return 0;
        }
    }
    return walk_on(listing, out, err);
}

/* --- requests --------------------------------------------------------------------------------- */

static void free_listing(void *ctx)
{
    struct listing *listing = ctx;
    execd_walk_free(listing->walk);
    execd_glob_free(listing->glob);
    execd_names_done(&listing->names);
    free(listing->path);
    free(listing);
}

static const struct execd_work_ops ops = {
    .step = step,
    .free = free_listing,
    .invalid_code = "INVALID_REQUEST_BODY",
    .heavy = true,
};

/* What is special to one of the two. */
typedef int read_options_fn(const struct url_query *query, struct listing *listing,
                            struct error *err);

static int read_search(const struct url_query *query, struct listing *listing, struct error *err)
{
    const char *pattern = url_query_find(query, "pattern");
    bool none = pattern == NULL || *pattern == '\0';
    return execd_glob_parse(none ? "**" : pattern, &listing->glob, err);
}

static int read_list(const struct url_query *query, struct listing *listing, struct error *err)
{
    const char *text = url_query_find(query, "depth");
    uint64_t depth = 1;
    if (text != NULL && *text != '\0' && str_to_u64(text, 0, INT32_MAX, &depth) < 0)
        return error_set(err, ERR_INVALID, "`depth` must be a whole number from 0, not \"%.40s\"",
                         text);
    listing->depth = (size_t)depth;
    return 0;
}

static void start(const struct execd *execd, struct http_exchange *exchange,
                  read_options_fn *read_options)
{
    struct url_query query;
    struct error err = ERROR_INIT;
    if (!execd_request_query(exchange, &query))
        return;
    struct listing *listing = mem_alloc(sizeof(*listing));
    listing->users = execd->users;
    execd_names_init(&listing->names, &listing->users);
    const char *path = url_query_find(&query, "path");
    if (path == NULL || *path == '\0') {
        http_exchange_reply_error(exchange, 400, "MISSING_QUERY", "`path` is required");
        free_listing(listing);
    } else if (execd_files_resolve(execd, path, &listing->path, &err) < 0 ||
               read_options(&query, listing, &err) < 0) {
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
        free_listing(listing);
    } else {
        execd_work_start(exchange, &ops, listing);
    }
    url_query_done(&query);
}

void execd_files_handle_search(struct http_exchange *exchange, const struct http_route_match *match,
                               void *ctx)
{
    (void)match;
    start(ctx, exchange, read_search);
}

void execd_directories_handle_list(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *ctx)
{
    (void)match;
    start(ctx, exchange, read_list);
}
