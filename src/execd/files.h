/* The file endpoints, and what they share. execd works with the rights it has: inside the sandbox
 * there is no confinement below the sandbox itself. */
#pragma once

#include "base/error.h"
#include "execd/execd.h"
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

/* A system call on `path` failed: ERR_NOT_FOUND when it is not there, ERR_INVALID when it cannot be
 * such a path at all, else ERR_INTERNAL. */
int execd_files_error(struct error *err, int sys, const char *path);

/* Permission digits: a decimal number whose digits are octal (755 is rwxr-xr-x). -EINVAL when there
 * is an 8 or a 9 or more than four digits. Only the lowest nine bits are used: set-id bits cannot
 * be given this way. */
int execd_files_mode_from_digits(int64_t digits, mode_t *ret);
int64_t execd_files_mode_to_digits(mode_t mode);
