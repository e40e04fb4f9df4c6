/* The file endpoints, and what they share. execd works with the rights it has: inside the sandbox
 * there is no confinement below the sandbox itself.
 *
 * Symbolic links in the middle of a path are followed everywhere, and ".." means what it means to
 * the kernel. The last component: upload, download, replace and permissions follow it; info, list,
 * search, mv and both deletes are about the link itself. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "execd/execd.h"
#include "execd/files_body.h"
#include "execd/make_dirs.h"
#include "execd/names.h"
#include "http/router.h"
#include "http/url.h"

void execd_files_handle_info(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);
void execd_files_handle_download(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *execd);
void execd_files_handle_upload(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);

void execd_files_handle_search(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);
void execd_files_handle_move(struct http_exchange *exchange, const struct http_route_match *match,
                             void *execd);
void execd_files_handle_permissions(struct http_exchange *exchange,
                                    const struct http_route_match *match, void *execd);
void execd_files_handle_replace(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd);
void execd_files_handle_delete(struct http_exchange *exchange, const struct http_route_match *match,
                               void *execd);
void execd_directories_handle_list(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *execd);
void execd_directories_handle_make(struct http_exchange *exchange,
                                   const struct http_route_match *match, void *execd);
void execd_directories_handle_delete(struct http_exchange *exchange,
                                     const struct http_route_match *match, void *execd);

/* Expand a path of a request, see execd/paths.h. Caller frees. */
int execd_files_resolve(const struct execd *execd, const char *path, char **ret, struct error *err);

/* Whose the files are that are made through the API. */
struct execd_owner execd_files_owner(const struct execd *execd);

/* A system call on `path` failed: ERR_NOT_FOUND when it is not there, ERR_INVALID when it cannot be
 * such a path at all, else ERR_INTERNAL. */
int execd_files_error(struct error *err, int sys, const char *path);

/* Permission digits: a decimal number whose digits are octal (755 is rwxr-xr-x). -EINVAL when there
 * is an 8 or a 9 or more than four digits. Only the lowest nine bits are used: set-id bits cannot
 * be given this way. */
int execd_files_mode_from_digits(int64_t digits, mode_t *ret);
int64_t execd_files_mode_to_digits(mode_t mode);

/* --- requests --------------------------------------------------------------------------------- */

/* A list of paths, as they were asked for and as they are. */
struct execd_files_path {
    char *requested;
    char *path;
};
struct execd_files_paths {
    struct execd_files_path *items;
    size_t count;
    struct execd_users users;
};
struct execd_work_ops;

/* Start work on all `path` of the query; or answer what is wrong. */
void execd_files_start_paths(const struct execd *execd, struct http_exchange *exchange,
                             const struct execd_work_ops *ops);
void execd_files_paths_free(void *paths);

/* A job whose items come from a JSON body, with their paths expanded. */
struct execd_files_job {
    struct execd_body body;
    char **paths; /* one for each item */
    char **dests; /* the same for mv */
    struct execd_users users;
    struct execd_owner owner; /* of what is made */
    bool verbose;
};

typedef int execd_files_parse_fn(const char *text, size_t length, struct execd_body *ret,
                                 struct error *err);

/* Collect the body, read it, and start work on the job; or answer what is wrong. */
void execd_files_collect_job(struct execd *execd, struct http_exchange *exchange,
                             execd_files_parse_fn *parse, bool verbose,
                             const struct execd_work_ops *ops);
void execd_files_job_free(void *job);

/* Ids for the names in a permission. ERR_INVALID for one that the sandbox does not know. */
int execd_files_find_owner(const struct execd_users *users,
                           const struct execd_permission *permission, struct execd_owner *ret,
                           struct error *err);

/* --- answers ---------------------------------------------------------------------------------- */

/* What is at dir_fd and name, not following links. 0 or -errno. */
int execd_files_stat(int dir_fd, const char *name, struct statx *ret);

/* Append it as a JSON object. Bytes of the path that are not UTF-8 become U+FFFD. */
void execd_files_write_info(struct buf *out, struct execd_names *names, const char *path,
                            size_t path_length, const struct statx *st);
