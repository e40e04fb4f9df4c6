/* The command line and the variables that stand for it.
 *
 * Options are written --name value, --name=value, or with a single dash: what starts sandboxes
 * elsewhere writes them so. Some are accepted only because such callers give them; the help says
 * which. An option wins over its variable. Everything after the options is the entrypoint, which
 * needs --bootstrap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

#define EXECD_PORT_DEFAULT 44772

#define EXECD_FD_LIST_MAX 4

struct execd_fd_list {
    int items[EXECD_FD_LIST_MAX];
    size_t count;
};

struct execd_options {
    int64_t port;      /* -1: no TCP; 0: any free one */
    int64_t listen_fd; /* -1: none */
    int64_t hold_fd;   /* -1: none; see hold.h */
    int64_t name_fd;   /* -1: none; see hold.h */
    int64_t idle_fd;   /* -1: none */
    struct execd_fd_list work_fds;
    bool pid1;
    bool bootstrap;
    const char *token;    /* NULL: none needed */
    const char *log_file; /* NULL: stderr */
    int64_t log_level;    /* 0 to 7, as syslog counts */
    bool block_clone3;
    int64_t head_timeout_ms; /* 0: the server's own default */
    int64_t spool_bytes;
    int64_t keep_finished_ms;
    char **entrypoint; /* NULL-terminated; empty when none was given */
    bool show_help;
    bool show_version;
    /* Checked, then not used. */
    const char *jupyter_host;
    const char *jupyter_token;
    int64_t shutdown_ms;
    int64_t idle_poll_ms;
};

typedef const char *execd_getenv_fn(const char *name); /* getenv, but for tests */

/* Strings are borrowed from argv and the environment. Fails with ERR_INVALID and a message for
 * people. */
int execd_options_parse(struct execd_options *options, int argc, char **argv,
                        execd_getenv_fn *get_variable, struct error *err);

/* The text of --help; the caller frees. */
char *execd_options_help(void);

enum log_level execd_options_log_level(const struct execd_options *options);

/* Durations as Go writes them: "500ms", "3s", "1m30s", "1.5h", "0". Milliseconds, rounded down; at
 * most about 292 years. -EINVAL when it is none, -ERANGE when negative or too long. */
int execd_duration_parse(const char *text, int64_t *ret_ms);
